"""Where a grid's cells run: one after the other here, in processes of this machine, on a Ray cluster, or nowhere (the plan).

The same grid gives the same records whatever launched it: a cell sees only its settings, a fixed number of threads, and files.
"""

import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from dualtta.bench.cell import Cell, Notice, Place, compute, deaf, note_failure, reason_of, run_cell, run_source
from dualtta.processes import WorkerDied, cores, pooled
from dualtta.records import format as records
from dualtta.train import Source

Task = Cell | Source
Outcome = tuple[Task, str]  # a cell or a source model, and why it failed; "" where it did not
Watch = Callable[[Task], Notice]  # called when a task begins here; what it returns hears of every batch
Launcher = Callable[[list[Task], Place, int, Watch], Iterator[Outcome]]


def local(tasks: list[Task], place: Place, jobs: int, watch: Watch) -> Iterator[Outcome]:
    """One after the other, in this process."""
    for task in tasks:
        yield task, _run(task, place, watch(task))


def _run(task: Task, place: Place, notice: Notice = deaf) -> str:
    return run_cell(task, place, notice) if isinstance(task, Cell) else run_source(task, place)


def processes(tasks: list[Task], place: Place, jobs: int, watch: Watch) -> Iterator[Outcome]:
    """As many at a time as there are GPUs or cores, each in a process of its own."""
    left = {task.key: task for task in tasks}
    try:
        for task, reason in _pooled(tasks, place, jobs):
            del left[task.key]
            yield task, reason
    except WorkerDied:  # a worker died, of memory perhaps; each of the others now gets a process to itself
        for task in list(left.values()):
            try:
                yield from _pooled([task], place, 1)
            except WorkerDied:
                died = RuntimeError("its process died; perhaps the memory was full")
                yield task, note_failure(place.folder(task), died) if isinstance(task, Cell) else reason_of(died)


def _pooled(tasks: list[Task], place: Place, jobs: int) -> Iterator[Outcome]:
    setup = partial(_choose_device, place.device)
    pairs = [(task, place) for task in tasks]
    for (task, _), reason in pooled(_run_in_worker, pairs, min(jobs, len(tasks)), setup=setup, kill=True):
        yield task, reason


def _device(wanted: str, number: int) -> str:
    if wanted != "cuda":
        return wanted
    import torch

    return f"cuda:{number % max(torch.cuda.device_count(), 1)}"


_worker_device = ""


def _choose_device(wanted: str, number: int) -> None:
    global _worker_device
    _worker_device = _device(wanted, number)


def _run_in_worker(task: Task, place: Place) -> str:
    return _run(task, dataclasses.replace(place, device=_worker_device))


def ray(tasks: list[Task], place: Place, jobs: int, watch: Watch) -> Iterator[Outcome]:
    """Cells on a Ray cluster: the one RAY_ADDRESS names, or one on this machine. Records come back and are stored here.

    Source models are trained here first and travel with the cells.
    """
    cells = [task for task in tasks if isinstance(task, Cell)]
    yield from local([task for task in tasks if not isinstance(task, Cell)], place, jobs, watch)
    if cells:
        yield from _on_cluster(cells, place, jobs)


def _on_cluster(cells: list[Cell], place: Place, jobs: int) -> Iterator[Outcome]:
    try:
        import ray as cluster
    except ImportError as error:
        raise ValueError("the launcher 'ray' needs Ray: pip install 'dualtta[ray]'") from error
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    if not os.environ.get("RAY_ADDRESS"):
        options |= {"num_cpus": jobs, "object_store_memory": 200 * 2**20}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = signal.getsignal(signal.SIGTERM)
    cluster.init(**options)
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _leave)  # Ray's own answer dumps the stack and leaves processes behind
        gpus = 1 if place.device.startswith("cuda") else 0
        task = cluster.remote(num_cpus=place.threads, num_gpus=gpus, max_retries=1)(_run_remotely)
        models: dict[str, Any] = {key: cluster.put(_files_of(place.models / key)) for key in _model_keys(cells)}
        waiting = {task.remote(cell, place, models.get(_model_key(cell))): cell for cell in cells}
        while waiting:
            (ready,), _ = cluster.wait(list(waiting), num_returns=1)
            cell = waiting.pop(ready)
            try:
                records.store(place.folder(cell), cluster.get(ready))
                yield cell, ""
            except Exception as error:  # of the cell, of its machine, or of our disk: the other cells go on
                cause = getattr(error, "cause", None) or error
                yield cell, note_failure(place.folder(cell), cause)
    finally:
        cluster.shutdown()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # as a shell says it of a program that a signal ended


def _run_remotely(cell: Cell, place: Place, model: dict[str, bytes] | None) -> records.Files:
    """Compute a cell on a machine that need not share the driver's disk: the model comes along, the record goes back."""
    with TemporaryDirectory() as folder:
        here = dataclasses.replace(place, out=Path(folder))
        for name, data in (model or {}).items():
            path = here.models / _model_key(cell) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return compute(cell, here)


def _model_key(cell: Cell) -> str:
    return cell.source.key if cell.source is not None else ""


def _model_keys(cells: list[Cell]) -> set[str]:
    return {_model_key(cell) for cell in cells} - {""}


def _files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


LAUNCHERS: dict[str, Launcher] = {"local": local, "processes": processes, "ray": ray}


def default_jobs(device: str) -> int:
    """As many cells at once as the machine has GPUs, or cores."""
    if device.startswith("cuda"):
        import torch

        return max(torch.cuda.device_count(), 1)
    return cores()
