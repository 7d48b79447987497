"""Launchers run the cells of a grid: in this process, in several processes of this machine, or on a Ray cluster.

A grid gives the same records with every launcher: a cell depends on its settings, a fixed number of threads, and files alone.
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

from dualtta.bench.cell import Cell
from dualtta.bench.compute import (
    ProgressCallback,
    compute,
    failure_reason,
    no_progress,
    record_failure,
    run_cell,
    run_source,
)
from dualtta.bench.workspace import Workspace
from dualtta.processes import WorkerDied, cores, pooled
from dualtta.records import format as records
from dualtta.train import Source

Task = Cell | Source
Outcome = tuple[Task, str]  # a cell or a source model, and the reason of its failure, or ""
StartCallback = Callable[[Task], ProgressCallback]  # called when a task starts in this process; the result after each batch
Launcher = Callable[[list[Task], Workspace, int, StartCallback], Iterator[Outcome]]  # the number: tasks at a time


def local(tasks: list[Task], workspace: Workspace, jobs: int, on_start: StartCallback) -> Iterator[Outcome]:
    """One after the other, in this process."""
    for task in tasks:
        yield task, _run(task, workspace, on_start(task))


def _run(task: Task, workspace: Workspace, progress: ProgressCallback = no_progress) -> str:
    return run_cell(task, workspace, progress) if isinstance(task, Cell) else run_source(task, workspace)


def processes(tasks: list[Task], workspace: Workspace, jobs: int, on_start: StartCallback) -> Iterator[Outcome]:
    """`jobs` at a time, each in a process of its own; on GPUs, one GPU a process."""
    left = {task.key: task for task in tasks}
    try:
        for task, reason in _pooled(tasks, workspace, jobs):
            del left[task.key]
            yield task, reason
    except WorkerDied:  # a worker died; each remaining task runs in a process of its own, to find which one it was
        for task in list(left.values()):
            try:
                yield from _pooled([task], workspace, 1)
            except WorkerDied:
                died = RuntimeError("its process died; perhaps the memory was full")
                yield task, record_failure(workspace.folder(task), died) if isinstance(task, Cell) else failure_reason(died)


def _pooled(tasks: list[Task], workspace: Workspace, jobs: int) -> Iterator[Outcome]:
    setup = partial(_choose_device, workspace.device)
    pairs = [(task, workspace) for task in tasks]
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


def _run_in_worker(task: Task, workspace: Workspace) -> str:
    return _run(task, dataclasses.replace(workspace, device=_worker_device))


def ray(tasks: list[Task], workspace: Workspace, jobs: int, on_start: StartCallback) -> Iterator[Outcome]:
    """On a Ray cluster: that of RAY_ADDRESS, or one on this machine. Records are returned and stored here.

    Source models are trained here first and sent with the cells.
    """
    cells = [task for task in tasks if isinstance(task, Cell)]
    yield from local([task for task in tasks if not isinstance(task, Cell)], workspace, jobs, on_start)
    if cells:
        yield from _on_cluster(cells, workspace, jobs)


def _on_cluster(cells: list[Cell], workspace: Workspace, jobs: int) -> Iterator[Outcome]:
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
            signal.signal(signal.SIGTERM, _leave)  # Ray's handler prints the stack and leaves processes
        gpus = 1 if workspace.device.startswith("cuda") else 0
        task = cluster.remote(num_cpus=workspace.threads, num_gpus=gpus, max_retries=1)(_run_remotely)
        models: dict[str, Any] = {key: cluster.put(_files_of(workspace.models / key)) for key in _model_keys(cells)}
        waiting = {task.remote(cell, workspace, models.get(_model_key(cell))): cell for cell in cells}
        while waiting:
            (ready,), _ = cluster.wait(list(waiting), num_returns=1)
            cell = waiting.pop(ready)
            try:
                records.store(workspace.folder(cell), cluster.get(ready))
                yield cell, ""
            except Exception as error:  # of the cell, its machine, or this disk: the other cells go on
                cause = getattr(error, "cause", None) or error
                yield cell, record_failure(workspace.folder(cell), cause)
    finally:
        cluster.shutdown()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # the exit status of a shell for a signal


def _run_remotely(cell: Cell, workspace: Workspace, model: dict[str, bytes] | None) -> records.Files:
    """Compute a cell on a machine without access to the driver's disk. The model is sent along; the record is returned."""
    with TemporaryDirectory() as folder:
        here = dataclasses.replace(workspace, out=Path(folder))
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
    """The number of GPUs, or of CPU cores."""
    if device.startswith("cuda"):
        import torch

        return max(torch.cuda.device_count(), 1)
    return cores()
