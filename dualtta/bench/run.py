"""Running an experiment: stage by stage, source models first, then cells; with a live view for people and JSON for scripts."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console

from dualtta.bench.cell import Cell, Notice, Place, distinct, note_failure, pending, sources, title
from dualtta.bench.checks import validate
from dualtta.bench.launchers import LAUNCHERS, Task
from dualtta.bench.planned import leave_plan
from dualtta.bench.presence import Presence, present, sweep
from dualtta.plugins import nearest
from dualtta.progress import bars
from dualtta.records.reading import Record
from dualtta.records.verification import verified

Plan = list[Cell] | Generator[list[Cell], list[Record], None]  # one stage, or stages that learn from those before them


@dataclass
class Result:
    """What came of an experiment: the records of its last stage, and what failed with its reason."""

    records: list[Record] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # title -> reason
    computed: int = 0
    skipped: int = 0


def run_plan(plan: Plan, place: Place, launcher: str = "local", jobs: int = 1, console: Console | None = None) -> Result:
    """Run all stages of a plan. A failed cell does not stop the others; a failed stage ends the plan."""
    if launcher not in LAUNCHERS:
        raise ValueError(f"there is no launcher {launcher!r}; {nearest(launcher, [*LAUNCHERS, 'dry'])}")
    result = Result()
    for cells in _stages(plan, result):
        cells = distinct(cells)
        validate(cells, place)
        todo = pending(cells, place)
        result.skipped += len(cells) - len(todo)
        with _announced(cells, todo, place, launcher, jobs), View(console, len(cells), len(cells) - len(todo)) as view:
            training = _launch(sources(todo, place), place, launcher, jobs, view, result)
            untrained = {task.key: reason for task, reason in training if reason}
            ready = [cell for cell in todo if cell.source is None or cell.source.key not in untrained]
            for cell in todo:
                if cell.source is not None and cell.source.key in untrained:
                    why = RuntimeError(f"its source model could not be trained: {untrained[cell.source.key]}")
                    note_failure(place.folder(cell), why)
            done = [reason == "" for _, reason in _launch(ready, place, launcher, jobs, view, result)]
        result.computed += sum(done)
        result.records = [record for cell in cells if (record := verified(place.folder(cell)))]
    return result


@contextmanager
def _announced(cells: list[Cell], todo: list[Cell], place: Place, launcher: str, jobs: int) -> Iterator[None]:
    """Leave the plan, and word that it is being run, for `dualtta watch`."""
    plan = leave_plan(place.out, cells)
    if not todo:
        yield
        return
    at_once = 1 if launcher == "local" else jobs
    sweep(place.out)
    try:
        with present(place.out, Presence("run", plan, f"{launcher}, {at_once} at a time", at_once, launcher == "ray")):
            yield
    finally:
        sweep(place.out)  # workers that were killed could not


def _launch(
    tasks: Sequence[Task], place: Place, launcher: str, jobs: int, view: "View", result: Result
) -> Iterator[tuple[Task, str]]:
    for task, reason in LAUNCHERS[launcher](list(tasks), place, jobs, view.watch) if tasks else ():
        view.finished(task, reason)
        if reason:
            result.failed[title(task)] = reason
        yield task, reason


def _stages(plan: Plan, result: Result) -> Iterable[list[Cell]]:
    if isinstance(plan, list):
        yield plan
        return
    try:
        cells = next(plan)
        while True:
            yield cells
            if result.failed:  # the next stage would learn from a part of the results
                return
            cells = plan.send(result.records)
    except StopIteration:
        return


class View:
    """A live view on stderr: cells done, what runs now, images a second, running accuracy, time left. Silent when piped."""

    def __init__(self, console: Console | None, total: int, done: int) -> None:
        self.console = console or Console(stderr=True)
        self.progress = bars(self.console)
        self.all = self.progress.add_task("cells", total=total, completed=done, note="")

    def __enter__(self) -> "View":
        self.progress.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.progress.stop()

    def watch(self, task: Task) -> Notice:
        """Follow one task from batch to batch."""
        seen = right = 0
        line = self.progress.add_task(title(task), total=None, note="")
        for other in self.progress.task_ids[1:-1]:
            self.progress.remove_task(other)

        def notice(size: int, correct: int, total: int) -> None:
            nonlocal seen, right
            seen, right = seen + size, right + correct
            elapsed = self.progress.tasks[-1].elapsed or 1e-9
            self.progress.update(
                line, completed=seen, total=total, note=f"{right / seen:.1%} right, {seen / elapsed:.0f} images/s"
            )

        return notice

    def finished(self, task: Task, reason: str) -> None:
        if isinstance(task, Cell):
            self.progress.advance(self.all)
        if reason and self.console.is_terminal:  # else it is said once, at the end
            self.console.print(f"failed: {title(task)}: {reason}", style="red", markup=False, highlight=False)


def overview(records: list[Record]) -> list[dict[str, Any]]:
    """One row for each dataset, model, scenario and setting: mean and deviation over seeds of what the paper's tables show."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        cell = {key: value for key, value in record.cell["cell"].items() if key != "seed"}
        cell["dataset"] = {key: value for key, value in cell["dataset"].items() if key != "seed"}
        if cell["model"]["source"]:
            cell["model"] = {**cell["model"], "source": {**cell["model"]["source"], "seed": None}}
        groups.setdefault(repr(cell), []).append(record)
    return [_row(group) for group in groups.values()]


def _row(group: list[Record]) -> dict[str, Any]:
    first = group[0]
    cell = first.cell["cell"]

    def over_seeds(key: str) -> dict[str, float] | None:
        values = [record.summary[key] for record in group]
        if any(value is None for value in values):
            return None
        return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}

    return {
        "dataset": cell["dataset"]["name"],
        "choices": {key: value for key, value in cell["dataset"].items() if key not in ("name", "seed", "split")},
        "model": cell["model"]["name"],
        "scenario": cell["scenario"]["name"],
        "domains": cell["scenario"].get("domains"),
        "method": cell["method"]["name"],
        "lr": first.cell["method"]["lr"] if len(cell["method"]) > 1 else None,
        "settings": {key: value for key, value in cell["method"].items() if key not in ("name", "lr")},
        "seeds": len(group),
        "samples": first.summary["samples"],
        "subset": first.cell["subset"],
        "repeats": cell["scenario"].get("repeats", 1),
        **{key: over_seeds(key) for key in ("accuracy", "mean_of_groups", "worst_group", "adapt", "corr_adapt")},
        "collapsed": sum(record.summary["collapsing"] > 0 for record in group),
    }
