"""Running an experiment: stage by stage, source models first, then cells, with progress bars on a terminal."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from dualtta.bench.cell import Cell, distinct, title
from dualtta.bench.compute import ProgressCallback, record_failure
from dualtta.bench.launchers import LAUNCHERS, Task
from dualtta.bench.locks import RunningTask, lock, remove_stale_locks
from dualtta.bench.plans import write_plan
from dualtta.bench.preflight import validate
from dualtta.bench.workspace import Workspace, pending, untrained
from dualtta.plugins import nearest
from dualtta.progress import bars
from dualtta.records.reading import Record
from dualtta.records.verification import verified

Plan = list[Cell] | Generator[list[Cell], list[Record], None]  # one stage, or stages that depend on the records of those before


@dataclass
class Result:
    """The records of an experiment's last stage, the failures of all stages, and how many cells were computed or existed."""

    records: list[Record] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # title -> reason
    computed: int = 0
    skipped: int = 0


def run_plan(
    plan: Plan, workspace: Workspace, launcher: str = "local", jobs: int = 1, console: Console | None = None
) -> Result:
    """Run all stages of a plan. A failed cell does not stop the others of its stage; a stage with failures is the last.

    Args:
        plan: cells, or a generator of stages; see `bench.experiments`.
        workspace: folders and device.
        launcher: a name in `LAUNCHERS`.
        jobs: cells at a time.
        console: for progress bars; default: stderr.
    """
    if launcher not in LAUNCHERS:
        raise ValueError(f"there is no launcher {launcher!r}; {nearest(launcher, [*LAUNCHERS, 'dry'])}")
    result = Result()
    for cells in _stages(plan, result):
        cells = distinct(cells)
        validate(cells, workspace)
        todo = pending(cells, workspace)
        result.skipped += len(cells) - len(todo)
        with (
            _registered(cells, todo, workspace, launcher, jobs),
            ProgressView(console, len(cells), len(cells) - len(todo)) as view,
        ):
            training = _launch(untrained(todo, workspace), workspace, launcher, jobs, view, result)
            failed = {task.key: reason for task, reason in training if reason}
            ready = [cell for cell in todo if cell.source is None or cell.source.key not in failed]
            for cell in todo:
                if cell.source is not None and cell.source.key in failed:
                    why = RuntimeError(f"its source model could not be trained: {failed[cell.source.key]}")
                    record_failure(workspace.folder(cell), why)
            done = [reason == "" for _, reason in _launch(ready, workspace, launcher, jobs, view, result)]
        result.computed += sum(done)
        result.records = [record for cell in cells if (record := verified(workspace.folder(cell)))]
    return result


@contextmanager
def _registered(cells: list[Cell], todo: list[Cell], workspace: Workspace, launcher: str, jobs: int) -> Iterator[None]:
    """Write the plan file, and hold the lock file of this run, for `dualtta watch`."""
    plan = write_plan(workspace.out, cells)
    if not todo:
        yield
        return
    at_once = 1 if launcher == "local" else jobs
    remove_stale_locks(workspace.out)
    try:
        with lock(workspace.out, RunningTask("run", plan, f"{launcher}, {at_once} at a time", at_once, launcher == "ray")):
            yield
    finally:
        remove_stale_locks(workspace.out)  # of workers that were killed


def _launch(
    tasks: Sequence[Task], workspace: Workspace, launcher: str, jobs: int, view: "ProgressView", result: Result
) -> Iterator[tuple[Task, str]]:
    for task, reason in LAUNCHERS[launcher](list(tasks), workspace, jobs, view.start) if tasks else ():
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
            if result.failed:  # the next stage would depend on a part of the results
                return
            cells = plan.send(result.records)
    except StopIteration:
        return


class ProgressView:
    """Progress bars on stderr: cells done, the running cell, its accuracy so far and images a second. Silent when piped."""

    def __init__(self, console: Console | None, total: int, done: int) -> None:
        self.console = console or Console(stderr=True)
        self.progress = bars(self.console)
        self.all = self.progress.add_task("cells", total=total, completed=done, note="")

    def __enter__(self) -> "ProgressView":
        self.progress.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.progress.stop()

    def start(self, task: Task) -> ProgressCallback:
        """Show a bar for a task; returns the callback for its batches."""
        done = right = 0
        line = self.progress.add_task(title(task), total=None, note="")
        for other in self.progress.task_ids[1:-1]:
            self.progress.remove_task(other)

        def progress(size: int, correct: int, total: int) -> None:
            nonlocal done, right
            done, right = done + size, right + correct
            elapsed = self.progress.tasks[-1].elapsed or 1e-9
            self.progress.update(
                line, completed=done, total=total, note=f"{right / done:.1%} correct, {done / elapsed:.0f} images/s"
            )

        return progress

    def finished(self, task: Task, reason: str) -> None:
        if isinstance(task, Cell):
            self.progress.advance(self.all)
        if reason and self.console.is_terminal:  # else it is printed once, at the end
            self.console.print(f"failed: {title(task)}: {reason}", style="red", markup=False, highlight=False)
