"""Reading records, from the folders that `dualtta run` writes and from the Parquet files that `dualtta pack` writes.

    records, notes = read_all(Path("results"))

Needs neither torch nor, for folders, pyarrow. `verification.py` checks that a record is consistent.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.records.format import COLUMNS, VERSION, is_done
from dualtta.records.metrics import Column

PACKED = ".parquet"


class OtherVersion(ValueError):
    """The record has another format version: this version of dualtta neither reads nor replaces it."""


@dataclass(frozen=True)
class Record:
    """A finished cell: settings, summary, cost, and per-sample columns that are read on demand."""

    key: str
    cell: dict[str, Any]  # cell.json
    summary: dict[str, Any]  # summary.json
    cost: dict[str, Any]  # done
    origin: Path  # the results folder, or the packed file
    read_columns: Callable[[tuple[str, ...]], dict[str, Column]] = field(repr=False, compare=False)
    packed: bool = False
    position: int = 0  # in the packed file: neighbours are decoded together

    def rows(self, *names: str) -> dict[str, Column]:
        """The per-sample columns of these names, or all of them; arrays of shape (samples,).

        Raises an error of numpy, pyarrow or the operating system when they cannot be read; see `verification.verify`.
        """
        return self.read_columns(names)

    def part(self, *names: str) -> Any:
        """The value in cell.json below these names; None where there is none."""
        value: Any = self.cell
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    @property
    def folder(self) -> Path:
        """The cell's folder. ValueError for a packed record, which has none."""
        if self.packed:
            raise ValueError(f"{self.key} lies in the packed file {self.origin}: it has no folder")
        return self.origin / "cells" / self.key

    @property
    def group(self) -> str:
        """The name of the folder or packed file that holds the record, without ".parquet"."""
        name = self.origin.resolve().name
        return name.removesuffix(PACKED) if self.packed else name

    @property
    def name(self) -> str:
        """The record in notes to the user: "demo/cells/KEY" or "demo.parquet/KEY"."""
        return f"{self.origin.name}/{self.key}" if self.packed else f"{self.origin.name}/cells/{self.key}"


def read(folder: Path) -> Record:
    """Read the record in a cell's folder. ValueError that says why when it is incomplete, damaged or of another version."""
    if not is_done(folder):
        raise ValueError(f"{folder.name} has no result: {_reason(folder)}")
    try:
        texts = [(folder / name).read_text() for name in ("cell.json", "summary.json", "done")]
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder.name} cannot be read: {error}") from error
    return Record(folder.name, *parse(folder.name, texts), folder.parent.parent, partial(_read_npz, folder / "rows.npz"))


def parse(key: str, texts: list[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Cell, summary and cost of a record from their JSON texts. ValueError when one cannot be parsed."""
    try:
        cell, summary, cost = (json.loads(text, parse_int=_parse_int) for text in texts)
        if cell["version"] != VERSION:
            raise OtherVersion(f"it has format {cell['version']}; this version of dualtta reads format {VERSION}")
        return cell, summary, cost
    except OtherVersion as error:
        raise OtherVersion(f"{key} cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{key} cannot be read: {error}") from error


def _parse_int(digits: str) -> int | float:
    """An integer; infinity where it exceeds every float, so that checks for finite numbers reject it."""
    return int(digits) if len(digits) < 300 else float(digits)


def _read_npz(path: Path, names: tuple[str, ...]) -> dict[str, Column]:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return {name: widen(name, file[name]) for name in names or file.files}


def widen(name: str, column: Column) -> Column:
    """A column in the type of `COLUMNS`, where that type holds all its values."""
    kind = COLUMNS.get(name)
    return column.astype(kind) if kind is not None and np.can_cast(column.dtype, kind, "safe") else column


def _reason(folder: Path) -> str:
    """The stored reason of a failed cell."""
    try:
        return (folder / "failed").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "it was not finished"
    except OSError as error:
        return str(error)


def read_folder(folder: Path) -> tuple[list[Record], list[str]]:
    """The finished records in `folder/cells`, by key, and a note for each one that cannot be read."""
    records, notes = [], []
    for cell in sorted(path for path in (folder / "cells").glob("*") if path.is_dir()):
        try:
            records.append(read(cell))
        except ValueError as error:
            notes.append(f"{folder.name}/cells/{error}")
    return records, notes


def find_results(path: Path) -> list[Path]:
    """The results folders and packed files that `path` stands for.

    Args:
        path: A results folder (it has `cells/`), a packed file, or a folder that holds such folders and files.

    Raises:
        ValueError: there is none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ValueError(
            f"there is no folder {path}: name one that `dualtta run` wrote, such as results/demo, or a packed file"
        )
    if (path / "cells").is_dir():
        return [path]
    found = [cells.parent for cells in path.glob("*/cells") if cells.is_dir()]
    found += [file for file in path.glob(f"*{PACKED}") if file.is_file()]
    if not found:
        raise ValueError(
            f"{path} holds no records: name a folder with cells in it, as `dualtta run --out` writes it, or a packed file"
        )
    return sorted(found, key=lambda result: (result.name.removesuffix(PACKED), result.name))


def read_all(path: Path) -> tuple[list[Record], list[str]]:
    """All finished records of a path, and a note for each one that cannot be read.

    Args:
        path: See `find_results`.

    Returns:
        Records, by folder or file, then by key; and notes, one line each.
    """
    records: list[Record] = []
    notes: list[str] = []
    for found in find_results(path):
        if found.is_dir():
            some, bad = read_folder(found)
        else:
            from dualtta.records.packed import read_file

            some, bad = read_file(found)
        records += some
        notes += bad
    return records, notes
