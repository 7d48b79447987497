"""Predictions on disk: a CSV that grows by whole batches and can be cut back to where a saved state was."""

import csv
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

COLUMNS = ("path", "class", "name", "confidence", "entropy", "d_plus", "d_minus", "error")


class Predictions:
    """An open CSV. What is in it can always be told by its size and the hash of its content."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path, self.size, self._digest = path, 0, hashlib.sha256()
        self._file = path.open("xb" if fresh else "r+b", buffering=0)

    @classmethod
    def create(cls, path: Path) -> "Predictions":
        """A new file with its header; a ValueError where there is one already."""
        try:
            table = cls(path, fresh=True)
        except FileExistsError as error:
            raise ValueError(f"{path} is there already: go on with it by --resume, or name another") from error
        try:
            table.append([COLUMNS])
        except OSError:
            table.discard()
            raise
        return table

    @classmethod
    def reopen(cls, path: Path, mark: dict[str, Any]) -> "Predictions":
        """The file as it was at a mark: what was written after it is cut off. A ValueError where it was changed since."""
        table = cls(path, fresh=False)
        start = table._file.read(mark["size"])
        table._digest.update(start)
        table.size = len(start)
        if table.mark() != mark:
            table.close()
            raise ValueError(f"{path} was changed since it was written: remove it and the state, and start again")
        table._file.truncate(table.size)
        table._file.seek(table.size)
        return table

    @staticmethod
    def forget(path: Path) -> None:
        """Remove a file that `create` made, if it is there; a ValueError where it is something else."""
        if not path.exists():
            return
        with path.open("rb") as file:
            start = file.readline()
        if start.rstrip(b"\n").decode("utf-8", "replace") != ",".join(COLUMNS):
            raise ValueError(f"{path} is there already and is not one of our CSVs: name another")
        path.unlink()

    def append(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write these rows, all or none."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        data = text.getvalue().encode("utf-8", "backslashreplace")  # names of files may be any bytes
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
        return {"size": self.size, "sha256": self._digest.hexdigest()}

    def sync(self) -> None:
        """To the disk, before a state that counts on it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        """As if it had never been made."""
        self.close()
        self.path.unlink(missing_ok=True)
