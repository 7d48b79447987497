"""Lock files of the cells, trainings and runs that are running, for `dualtta watch`.

    running/<key>-<host>-<pid>.json     locked while the task runs, removed when it ends

The system releases a lock when its process ends: a file that is not locked was left by a killed process and is ignored. Across
machines this needs a file system with locks across machines, such as NFS. Errors with lock files never stop the task itself.
"""

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from dualtta.files import rename_into_place

FOLDER = "running"
Kind = Literal["cell", "training", "run"]


@dataclass(frozen=True)
class RunningTask:
    """A cell, a training or a run that is running."""

    kind: Kind
    key: str  # of the cell or the source model; of a run, the name of its plan
    title: str
    jobs: int = 1  # of a run: cells at a time
    remote: bool = False  # of a run: its cells run on a cluster, without lock files
    host: str = ""
    pid: int = 0
    started: float = 0.0


@contextmanager
def lock(out: Path, task: RunningTask) -> Iterator[None]:
    """Hold the lock file of a task while it runs."""
    held = _create(out, task)
    try:
        yield
    finally:
        if held is not None:
            path, file = held
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                file.close()


def _create(out: Path, task: RunningTask) -> tuple[Path, IO[str]] | None:
    host, pid = platform.node(), os.getpid()
    about = {**asdict(task), "host": host, "pid": pid, "started": time.time()}
    path = out / FOLDER / f"{task.key}-{host}-{pid}.json"
    part = path.with_name(f".{path.name}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("w", encoding="utf-8")
        try:
            _flock(file)
            file.write(json.dumps(about))
            file.flush()
            rename_into_place(part, path)  # it appears complete and locked
            return path, file
        except OSError:
            file.close()
            part.unlink(missing_ok=True)
    return None


def running_tasks(out: Path) -> list[RunningTask]:
    """All tasks that run in a results folder, the longest-running first."""
    found = []
    for path in (out / FOLDER).glob("*.json"):
        with suppress(OSError, ValueError, TypeError):  # just removed, or another program's
            if _locked(path):
                found.append(RunningTask(**json.loads(path.read_text(encoding="utf-8"))))
    return sorted(found, key=lambda task: task.started)


def remove_stale_locks(out: Path) -> None:
    """Remove lock files of killed processes of this machine. Those of others stay: their locks may not be visible here."""
    for path in (out / FOLDER).glob(f"*-{platform.node()}-*.json*"):
        with suppress(OSError):
            if not _locked(path):
                path.unlink()


def _locked(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        try:
            _flock(file, shared=True)
        except BlockingIOError:
            return True
    return False


def _flock(file: IO[str], shared: bool = False) -> None:
    """Lock a file until it is closed. OSError when another process holds it, or the system has no file locks."""
    try:
        import fcntl
    except ImportError as error:  # on Windows no task is shown as running
        raise OSError("this system has no file locks") from error
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
