"""A step crosses at most eight files of the package, and docs/architecture.md names them."""

import re
import sys
import warnings
from pathlib import Path

import pytest

import dualtta
from dualtta.testing import small_net, small_stream

PACKAGE = Path(dualtta.__file__).parent
DOCS = PACKAGE.parent / "docs" / "architecture.md"
LOOSE = {  # settings that select samples of a net with random weights, and alarm neither
    "dualtta": {"tau_sa": 0.05, "tau_sp": 0.5},
    "dualtta_safe": {"guard": False, "tau_sa": 0.05, "tau_sp": 0.5, "crowd": 2.5, "steady": 0.5},
    "deyo": {"tau_plpd": 0.0},
    "deyo_dual": {"tau_plpd": 0.05},
    "eata": {"epsilon": 0.9},
    "eata_dual": {"epsilon": 0.5},
}
EXTENDING = {"eata_dual", "deyo_dual"}  # their equations are in two files
METHODS = ["source", "norm", "tent", "eata", "sar", "deyo", "dualtta", "eata_dual", "deyo_dual", "dualtta_safe"]


def crossed(method, norm, size=16, steps=4, **settings):
    """The files of the package that run in each of some steps after a first, and whether one of the steps updated."""
    adapter = dualtta.adapt(small_net(norm), method, **{"lr": 1e-4, **LOOSE.get(method, {}), **settings})
    first, *batches = small_stream(1 + steps, size)
    paths, updated = [], False

    def see(frame, event, argument):
        if event == "call":
            paths[-1].add(frame.f_code.co_filename)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dualtta.CollapseWarning)
        adapter.step(first)
        for x in batches:
            paths.append(set())
            sys.setprofile(see)
            try:
                step = adapter.step(x)
            finally:
                sys.setprofile(None)
            updated |= step.updated
    found = [{Path(p).relative_to(PACKAGE).as_posix() for p in each if Path(p).is_relative_to(PACKAGE)} for each in paths]
    return found, updated


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("method", METHODS)
def test_a_step_crosses_at_most_eight_files(method, norm, size):
    steps, updated = crossed(method, norm, size)
    assert updated or size == 1 or method in ("source", "norm")
    assert max(map(len, steps)) <= 8 + (method in EXTENDING), max(steps, key=len)


GUARD = {"guarded.py", "guard.py", "trust_region.py", "model/parameters.py"}


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_a_guard_adds_its_own_files_and_the_control(norm):
    plain, _ = crossed("dualtta_safe", norm)
    guarded, updated = crossed("dualtta_safe", norm, guard=True)
    assert updated
    assert set().union(*guarded) - set().union(*plain) <= GUARD


@pytest.mark.parametrize("method", ["tent", "dualtta", "dualtta_safe"])
def test_the_documentation_names_the_files_of_a_step(method):
    row = next(line for line in DOCS.read_text().splitlines() if line.startswith(f"| `{method}` |"))
    named = set(re.findall(r"`([\w/]+\.py)`", row))
    steps, _ = crossed(method, "batch")
    assert named == set().union(*steps)
