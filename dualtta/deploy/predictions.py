"""The CSV file of predictions: rows are appended by whole batches, and it can be truncated to the length of a saved state."""

import csv
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

COLUMNS = ("path", "class", "name", "confidence", "entropy", "d_plus", "d_minus", "error")


class Predictions:
    """An open CSV file, with its size and the hash of its content."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path, self.size, self._digest = path, 0, hashlib.sha256()
        self._file = path.open("xb" if fresh else "r+b", buffering=0)

    @classmethod
    def create(cls, path: Path) -> "Predictions":
        """Create a file with the header; a ValueError where it exists."""
        try:
            table = cls(path, fresh=True)
        except FileExistsError as error:
            raise ValueError(f"{path} exists already: continue it with --resume, or name another file") from error
        try:
            table.append([COLUMNS])
        except OSError:
            table.discard()
            raise
        return table

    @classmethod
    def reopen(cls, path: Path, mark: dict[str, Any]) -> "Predictions":
        """Open the file and truncate it to a mark; a ValueError where its content before the mark has changed."""
        table = cls(path, fresh=False)
        start = table._file.read(mark["size"])
        table._digest.update(start)
        table.size = len(start)
        if table.mark() != mark:
            table.close()
            raise ValueError(f"{path} has been changed: remove it and the state, and start again")
        table._file.truncate(table.size)
        table._file.seek(table.size)
        return table

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a file that `create` made, if it exists; a ValueError where it is another kind of file."""
        if not path.exists():
            return
        with path.open("rb") as file:
            start = file.readline()
        if start.rstrip(b"\n").decode("utf-8", "replace") != ",".join(COLUMNS):
            raise ValueError(f"{path} exists and is not a CSV file of predictions: name another")
        path.unlink()

    def append(self, rows: Iterable[Sequence[Any]]) -> None:
        """Append rows, all or none."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        data = text.getvalue().encode("utf-8", "backslashreplace")  # file names may be any bytes
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._file.truncate(self.size)
            self._file.seek(self.size)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._digest.update(data)
        self.size += len(data)

    def mark(self) -> dict[str, Any]:
        """The size and the hash of the content."""
        return {"size": self.size, "sha256": self._digest.hexdigest()}

    def sync(self) -> None:
        """Flush to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        """Close and remove the file."""
        self.close()
        self.path.unlink(missing_ok=True)
