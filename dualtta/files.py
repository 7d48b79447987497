"""Files and folders written whole or not at all: written under a temporary name beside, then renamed into place."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write to that becomes `path` at the end; after an error or a crash the old file is still there.

    `durable=False` is for files that are cheap to make again, by one writer: they are not flushed to the disk, and what a kill
    leaves under the temporary name is overwritten by the next run.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "note")) as file:
    ...         _ = file.write(b"whole")
    ...     Path(folder, "note").read_text()
    'whole'
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device: nothing to replace
        with path.open("wb") as file:
            yield file
        return
    if durable:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        part = Path(name)
        os.chmod(part, 0o644)  # mkstemp makes it private
    else:
        part = path.with_name(f".{path.name}.part")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        rename_into_place(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_bytes(path: str | Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file whole or not at all; `durable` as in `replacing`."""
    with replacing(path, durable=durable) as file:
        file.write(data)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """The path of a folder to make, which becomes `path` (absent, or an empty folder) at the end; on an error nothing is left.

    Its parent, hidden beside `path`, is scratch space and is removed in either case. A kill leaves it; see `leftovers`.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing_folder(Path(folder, "made")) as made:
    ...         made.mkdir()
    ...     [path.name for path in Path(folder).iterdir()]
    ['made']
    """
    path = Path(path)
    scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=_scratch_prefix(path)))
    try:
        yield scratch / "made"
        rename_into_place(scratch / "made", path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def leftovers(path: str | Path) -> list[Path]:
    """The scratch folders that killed runs of `replacing_folder` left beside `path`."""
    path = Path(path)
    if not path.parent.is_dir():
        return []
    return sorted(found for found in path.parent.iterdir() if found.name.startswith(_scratch_prefix(path)))


def _scratch_prefix(path: Path) -> str:
    return f".{path.name}.part-"


def rename_into_place(part: str | Path, path: str | Path) -> None:
    """Rename a finished file or folder to its final name, in one step."""
    os.replace(part, path)


@contextmanager
def exclusive(folder: str | Path) -> Iterator[None]:
    """Exclusive use of a folder among processes; others wait. Where folders cannot be locked, there is no exclusion."""
    with ExitStack() as stack:
        with suppress(ImportError, OSError):  # Windows, which opens no folder either, and some network file systems
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
