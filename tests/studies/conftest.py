"""The studies are registered in their own tests alone."""

import pytest

from dualtta.bench.experiments import EXPERIMENTS
from dualtta.methods import METHODS
from studies.registration import register


@pytest.fixture(autouse=True)
def registered():
    """`register()`, undone after the test."""
    before = dict(METHODS), dict(EXPERIMENTS)
    register()
    yield
    for registry, names in zip((METHODS, EXPERIMENTS), before, strict=True):
        registry.clear()
        registry.update(names)
