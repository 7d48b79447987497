"""Files that are there whole or not at all: written beside, flushed to the disk, renamed into place."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to that becomes `path` when all went well; a crash leaves the old file or the new, never a part.

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
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o644)  # mkstemp makes it private; a record is for colleagues too
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write all or nothing."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def alone(folder: str | Path) -> Iterator[None]:
    """One process at a time works in a folder, the others wait; where folders cannot be locked, nobody does."""
    with ExitStack() as stack:
        with suppress(ImportError, OSError):  # Windows, which opens no folder either, and some network file systems
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
