"""How far a grid is, from its folder alone: what is done, under way, failed and to come, the time left, the best so far."""

import time
from calendar import timegm
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from dualtta.bench.planned import Planned, read_plans
from dualtta.bench.presence import Presence, at_work
from dualtta.bench.run import overview
from dualtta.records import format as records
from dualtta.records.reading import Record, read
from dualtta.records.verification import verify_complete

BEST_BY = ("accuracy", "mean_of_groups", "worst_group")
Kind = tuple[str, ...]


@dataclass(frozen=True)
class Best:
    """Whoever leads a column of a benchmark, among what is done."""

    benchmark: str
    column: str
    row: dict[str, Any]  # of `overview`
    methods: int  # that have a result there


@dataclass(frozen=True)
class Snapshot:
    """A grid at one moment. What is not known is None."""

    folder: Path
    total: int | None  # None where no plan was left
    done: int
    running: list[Presence]
    failed: dict[str, str]  # title -> reason
    pending: int | None
    abandoned: int  # of the pending: those that no run under way will come to
    runs: list[Presence]
    seconds_left: float | None
    cells_per_minute: float | None
    best: list[Best]
    notes: list[str] = field(default_factory=list)  # records that cannot be read

    @property
    def empty(self) -> bool:
        return not (self.total or self.done or self.running or self.failed or self.runs or self.notes)


class Watcher:
    """Looks at a folder again and again; a record that is done is read once."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder, self.now = folder, now
        self._records: dict[str, Record] = {}

    def look(self) -> Snapshot:
        plans, here = read_plans(self.folder), at_work(self.folder)
        done, notes, failed = self._read()
        planned = {key: cell for plan in plans.values() for key, cell in plan.items()}
        runs = [work for work in here if work.kind == "run"]
        running = [work for work in here if work.kind != "run" and work.key not in done]
        to_come = {key for run in runs for key in plans.get(run.key, {})} - set(done)
        begun = min((run.started for run in runs), default=None)
        busy = {work.key for work in running}
        ended = {  # of a run under way; what failed before it began will be tried again
            key: reason
            for key, (reason, when) in failed.items()
            if key not in busy and (key not in to_come or begun is None or when >= begun)
        }
        pending = set(planned) - set(done) - busy - set(ended)
        speed = Pace(done, planned, begun, self.now())
        left = [planned[key] for key in pending & to_come]
        return Snapshot(
            folder=self.folder,
            total=len(set(planned) | set(done)) if plans else None,
            done=len(done),
            running=running,
            failed={planned[key].title if key in planned else key: reason for key, reason in ended.items()},
            pending=len(pending) if plans else None,
            abandoned=len(pending - to_come),
            runs=runs,
            seconds_left=speed.seconds_left(left, [work for work in running if work.key in planned], sum(r.jobs for r in runs)),
            cells_per_minute=speed.cells_per_minute,
            best=best_so_far(done.values()),
            notes=notes,
        )

    def _read(self) -> tuple[dict[str, Record], list[str], dict[str, tuple[str, float]]]:
        """Records by key, what cannot be read, and what failed with its reason and when."""
        notes, failed, here = [], {}, set()
        for folder in sorted((self.folder / "cells").glob("*")):
            key = folder.name
            try:
                if records.is_done(folder):
                    here.add(key)
                    if key not in self._records:
                        self._records[key] = checked(folder)
                elif (folder / "failed").is_file():
                    failed[key] = (folder / "failed").read_text().strip(), (folder / "failed").stat().st_mtime
            except ValueError as error:
                notes.append(str(error))
            except OSError:  # gone between two looks
                continue
        return {key: record for key, record in self._records.items() if key in here}, notes, failed


def checked(folder: Path) -> Record:
    """The record in a folder; a ValueError where it cannot be believed, or something that is shown is missing from it."""
    record = read(folder)
    if why := verify_complete(record):
        raise ValueError(f"{record.key} cannot be believed: {why}")
    try:
        overview([record])
        finished(record)
        _planned(record)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{record.key} cannot be read: {type(error).__name__} {error}") from error
    return record


class Pace:
    """How fast cells are done since a run began, and how long the others will take by those of their kind."""

    def __init__(self, done: Mapping[str, Record], planned: Mapping[str, Planned], begun: float | None, now: float) -> None:
        self.now = now
        self.seconds: dict[Kind, list[float]] = {}
        for record in done.values():
            for kind in kinds(_planned(record)):
                self.seconds.setdefault(kind, []).append(record.cost["seconds"])
        ended = [(finished(record), record.cost["seconds"]) for record in done.values()]
        recent = [(when, seconds) for when, seconds in ended if begun is not None and when >= begun - 1]  # whole seconds
        since = min((when - seconds for when, seconds in recent), default=now)
        elapsed = max(now - since, 1e-9)
        self.cells_per_minute = 60 * len(recent) / elapsed if recent else None
        self.at_once = sum(seconds for _, seconds in recent) / elapsed if recent else None  # cells, as they really ran
        self.planned = planned

    def typical(self, cell: Planned) -> float | None:
        """As long as the nearest kind of cell took."""
        return next((median(self.seconds[kind]) for kind in kinds(cell) if kind in self.seconds), None)

    def seconds_left(self, pending: list[Planned], running: list[Presence], jobs: int) -> float | None:
        """None where nothing is under way, or nothing like it has been done yet."""
        if not jobs:
            return None
        whole = [self.typical(cell) for cell in pending]
        parts = [(self.typical(self.planned[work.key]), self.now - work.started) for work in running]
        if any(seconds is None for seconds in [*whole, *(typical for typical, _ in parts)]):
            return None
        work = sum(s for s in whole if s is not None) + sum(max(s - spent, 0.0) for s, spent in parts if s is not None)
        return work / max(self.at_once or jobs, 0.01)


def kinds(cell: Planned) -> list[Kind]:
    """What a cell is, the most alike first."""
    whole = (cell.dataset, cell.model, cell.scenario, cell.method)
    return [whole, whole[:3], whole[:2], ()]


def _planned(record: Record) -> Planned:
    cell = record.cell["cell"]
    return Planned(record.cell["title"], *(cell[part]["name"] for part in ("dataset", "model", "method", "scenario")))


def finished(record: Record) -> float:
    """When, in seconds since 1970."""
    return float(timegm(time.strptime(record.cost["finished"], "%Y-%m-%dT%H:%M:%SZ")))


def best_so_far(done: Iterable[Record]) -> list[Best]:
    """The leader of every benchmark and column, over the seeds that are done; cells that only choose settings do not count."""
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
    """The table a row of `overview` belongs to."""
    which = "+".join(map(str, [*(row["choices"].get("corruptions") or []), *(row["domains"] or [])]))
    subset = f", {row['samples']:,} samples (a subset)" if row["subset"] else ""
    return f"{row['dataset']}{' ' + which if which else ''}, {row['model']}, {row['scenario']}{subset}"
