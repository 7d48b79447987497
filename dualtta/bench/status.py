"""The status of a grid, read from its folder: cells done, running, failed and pending, the time left, the best so far.

Done and failed cells are read from `cells/`, pending ones from plan files (`plans.py`), running ones from lock files
(`locks.py`).
"""

import time
from calendar import timegm
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from dualtta.bench.locks import RunningTask, running_tasks
from dualtta.bench.overview import overview
from dualtta.bench.plans import PlannedCell, read_plans
from dualtta.records import format as records
from dualtta.records.reading import Record, read
from dualtta.records.verification import verify_complete

BEST_BY = ("accuracy", "mean_of_groups", "worst_group")
Kind = tuple[str, ...]


@dataclass(frozen=True)
class Best:
    """The best method in one column of a benchmark, among the cells that are done."""

    benchmark: str
    column: str
    row: dict[str, Any]  # of `overview`
    methods: int  # rows with a result there


@dataclass(frozen=True)
class Status:
    """The state of a grid. Unknown values are None."""

    folder: Path
    total: int | None  # None without a plan file
    done: int
    running: list[RunningTask]
    failed: dict[str, str]  # title -> reason
    pending: int | None
    abandoned: int  # pending cells of plans that no process runs
    runs: list[RunningTask]
    seconds_left: float | None
    cells_per_minute: float | None
    best: list[Best]
    notes: list[str] = field(default_factory=list)  # records that cannot be read

    @property
    def empty(self) -> bool:
        return not (self.total or self.done or self.running or self.failed or self.runs or self.notes)


class StatusReader:
    """Reads the status of a results folder, repeatedly; each record is read once."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder, self.now = folder, now
        self._records: dict[str, Record] = {}

    def read(self) -> Status:
        plans, tasks = read_plans(self.folder), running_tasks(self.folder)
        done, notes, failed = self._read_cells()
        planned = {key: cell for plan in plans.values() for key, cell in plan.items()}
        runs = [task for task in tasks if task.kind == "run"]
        running = [task for task in tasks if task.kind != "run" and task.key not in done]
        scheduled = {key for run in runs for key in plans.get(run.key, {})} - set(done)
        started = min((run.started for run in runs), default=None)
        busy = {task.key for task in running}
        ended = {  # in a run in progress, failures from before its start will be computed again
            key: reason
            for key, (reason, when) in failed.items()
            if key not in busy and (key not in scheduled or started is None or when >= started)
        }
        pending = set(planned) - set(done) - busy - set(ended)
        speed = Pace(done, planned, started, self.now())
        left = [planned[key] for key in pending & scheduled]
        return Status(
            folder=self.folder,
            total=len(set(planned) | set(done)) if plans else None,
            done=len(done),
            running=running,
            failed={planned[key].title if key in planned else key: reason for key, reason in ended.items()},
            pending=len(pending) if plans else None,
            abandoned=len(pending - scheduled),
            runs=runs,
            seconds_left=speed.seconds_left(left, [task for task in running if task.key in planned], sum(r.jobs for r in runs)),
            cells_per_minute=speed.cells_per_minute,
            best=best_so_far(done.values()),
            notes=notes,
        )

    def _read_cells(self) -> tuple[dict[str, Record], list[str], dict[str, tuple[str, float]]]:
        """Records by key, notes on records that cannot be read, and failures with their reason and time."""
        notes, failed, present = [], {}, set()
        for folder in sorted((self.folder / "cells").glob("*")):
            key = folder.name
            try:
                if records.is_done(folder):
                    present.add(key)
                    if key not in self._records:
                        self._records[key] = read_checked(folder)
                elif (folder / "failed").is_file():
                    failed[key] = (folder / "failed").read_text().strip(), (folder / "failed").stat().st_mtime
            except ValueError as error:
                notes.append(str(error))
            except OSError:  # removed in the meantime
                continue
        return {key: record for key, record in self._records.items() if key in present}, notes, failed


def read_checked(folder: Path) -> Record:
    """The record in a folder. ValueError when it fails verification or lacks a value that the status shows."""
    record = read(folder)
    if why := verify_complete(record):
        raise ValueError(f"{record.key} fails verification: {why}")
    try:
        overview([record])
        finished(record)
        planned_cell(record)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{record.key} cannot be read: {type(error).__name__} {error}") from error
    return record


class Pace:
    """The speed since a run started, and the time that the other cells will take, estimated from similar cells."""

    def __init__(
        self, done: Mapping[str, Record], planned: Mapping[str, PlannedCell], started: float | None, now: float
    ) -> None:
        self.now = now
        self.seconds: dict[Kind, list[float]] = {}
        for record in done.values():
            for kind in kinds(planned_cell(record)):
                self.seconds.setdefault(kind, []).append(record.cost["seconds"])
        ended = [(finished(record), record.cost["seconds"]) for record in done.values()]
        recent = [(when, seconds) for when, seconds in ended if started is not None and when >= started - 1]  # in whole seconds
        since = min((when - seconds for when, seconds in recent), default=now)
        elapsed = max(now - since, 1e-9)
        self.cells_per_minute = 60 * len(recent) / elapsed if recent else None
        self.at_once = sum(seconds for _, seconds in recent) / elapsed if recent else None  # cells, on average
        self.planned = planned

    def typical(self, cell: PlannedCell) -> float | None:
        """Median seconds of the most similar cells that are done."""
        return next((median(self.seconds[kind]) for kind in kinds(cell) if kind in self.seconds), None)

    def seconds_left(self, pending: list[PlannedCell], running: list[RunningTask], jobs: int) -> float | None:
        """None when no run is in progress, or no similar cell is done yet."""
        if not jobs:
            return None
        whole = [self.typical(cell) for cell in pending]
        parts = [(self.typical(self.planned[task.key]), self.now - task.started) for task in running]
        if any(seconds is None for seconds in [*whole, *(typical for typical, _ in parts)]):
            return None
        work = sum(s for s in whole if s is not None) + sum(max(s - spent, 0.0) for s, spent in parts if s is not None)
        return work / max(self.at_once or jobs, 0.01)


def kinds(cell: PlannedCell) -> list[Kind]:
    """Keys that similar cells share, the most similar first."""
    whole = (cell.dataset, cell.model, cell.scenario, cell.method)
    return [whole, whole[:3], whole[:2], ()]


def planned_cell(record: Record) -> PlannedCell:
    cell = record.cell["cell"]
    return PlannedCell(record.cell["title"], *(cell[part]["name"] for part in ("dataset", "model", "method", "scenario")))


def finished(record: Record) -> float:
    """The time when a cell was finished, in seconds since 1970."""
    return float(timegm(time.strptime(record.cost["finished"], "%Y-%m-%dT%H:%M:%SZ")))


def best_so_far(done: Iterable[Record]) -> list[Best]:
    """The best row of each benchmark and column, over the seeds that are done. Tuning cells are ignored."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in overview([record for record in done if record.cell["stage"] == "result"]):
        tables.setdefault(benchmark(row), []).append(row)
    found = []
    for name, rows in sorted(tables.items()):
        for column in BEST_BY:
            measured = [row for row in rows if row[column] is not None]
            if measured:
                leader = max(measured, key=lambda row: (row[column]["mean"], row["seeds"]))
                found.append(Best(name, column, leader, len(measured)))
    return found


def benchmark(row: Mapping[str, Any]) -> str:
    """The name of the table that a row of `overview` belongs to."""
    which = "+".join(map(str, [*(row["choices"].get("corruptions") or []), *(row["domains"] or [])]))
    subset = f", {row['samples']:,} samples (a subset)" if row["subset"] else ""
    return f"{row['dataset']}{' ' + which if which else ''}, {row['model']}, {row['scenario']}{subset}"
