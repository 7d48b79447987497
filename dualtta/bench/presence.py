"""Who is at work in a folder of results, for `dualtta watch`: a small file for each cell, training and run that is under way.

    running/<what>-<host>-<pid>.json     held locked while the work lasts, removed when it ends

A lock ends with its process, whatever ends that: a file that nobody holds was left by a kill and means nothing. Across machines
this needs a file system that locks across machines, as NFS does. Whatever goes wrong with such a file, the work itself goes on.
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
class Presence:
    """Something that is under way."""

    kind: Kind
    key: str  # of the cell or the source model; of a run, the name of its plan
    title: str
    jobs: int = 1  # of a run: how many cells at a time
    elsewhere: bool = False  # of a run: its cells run where they leave no word, on a cluster
    host: str = ""
    pid: int = 0
    started: float = 0.0


@contextmanager
def present(out: Path, work: Presence) -> Iterator[None]:
    """Say that this process is at work on something, while it is."""
    held = _mark(out, work)
    try:
        yield
    finally:
        if held is not None:
            path, file = held
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                file.close()


def _mark(out: Path, work: Presence) -> tuple[Path, IO[str]] | None:
    host, pid = platform.node(), os.getpid()
    about = {**asdict(work), "host": host, "pid": pid, "started": time.time()}
    path = out / FOLDER / f"{work.key}-{host}-{pid}.json"
    part = path.with_name(f".{path.name}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("w", encoding="utf-8")
        try:
            _lock(file)
            file.write(json.dumps(about))
            file.flush()
            rename_into_place(part, path)  # whoever sees it finds it whole and held
            return path, file
        except OSError:
            file.close()
            part.unlink(missing_ok=True)
    return None


def at_work(out: Path) -> list[Presence]:
    """All that is under way in a folder, the longest first."""
    found = []
    for path in (out / FOLDER).glob("*.json"):
        with suppress(OSError, ValueError, TypeError):  # just gone, or not ours
            if _held(path):
                found.append(Presence(**json.loads(path.read_text(encoding="utf-8"))))
    return sorted(found, key=lambda work: work.started)


def sweep(out: Path) -> None:
    """Remove what kills have left on this machine; another's may be held by a lock that does not reach here."""
    for path in (out / FOLDER).glob(f"*-{platform.node()}-*.json*"):
        with suppress(OSError):
            if not _held(path):
                path.unlink()


def _held(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        try:
            _lock(file, shared=True)
        except BlockingIOError:
            return True
    return False


def _lock(file: IO[str], shared: bool = False) -> None:
    """Hold a file until it is closed; an OSError where another holds it, or where there are no locks."""
    try:
        import fcntl
    except ImportError as error:  # on Windows nobody is said to be at work
        raise OSError("this system has no file locks") from error
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
