"""`pack`: the records of result folders in one Parquet file.

Labels, predictions, groups, selections and all other integers stay exact; with them accuracies, shares and paired comparisons.
Confidences, entropies, drops and weights are rounded. The metrics of the summary that depend on them (calibration, entropy,
quadrants) are computed again from the rounded values, so that the record passes the same verification as any other; `compacted`
in cell.json holds the precision and those metrics as they were before.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dualtta.files import replacing
from dualtta.records import packed
from dualtta.records.format import COLUMNS, ROUNDED, to_json
from dualtta.records.metrics import Column, summarise
from dualtta.records.reading import Record
from dualtta.records.verification import read_verified

DECIMALS = 2
MOST = 6  # decimals that float32 holds


@dataclass(frozen=True)
class Packed:
    """What `pack` did."""

    written: int  # records
    size: int  # bytes of the file
    notes: tuple[str, ...]  # records that were left out, and why


def pack(
    source: Path, target: Path, decimals: int = DECIMALS, progress: Callable[[int, int], None] = lambda done, total: None
) -> Packed:
    """Write the records below a folder as one Parquet file. Records that fail verification are left out, with a note.

    Args:
        source: A results folder, a packed file, or a folder that holds such folders and files.
        target: The file to write, `NAME.parquet`. A packed file of that name is replaced when the new one is complete.
        decimals: Of confidences, entropies, drops and weights, from 1 to 6. A record that was rounded to fewer stays as it is.
        progress: Called with the number of records done, and of all.
    """
    if not 1 <= decimals <= MOST:
        raise ValueError(f"decimals must be from 1 to {MOST}, not {decimals}")
    _check_target(target)
    valid, notes = read_verified([source], lambda done, total: progress(done, 2 * total))
    kept, repeated = _distinct(valid)
    notes += repeated
    if not kept:
        raise ValueError(f"{source} holds no finished record that can be packed" + (f": {notes[0]}" if notes else ""))
    kept.sort(key=_stream)
    folders = sorted({record.group for record in kept})

    def rows() -> Iterator[tuple[str, Record, dict[str, Column]]]:
        for number, record in enumerate(kept):
            progress(len(kept) + number, 2 * len(kept))
            yield record.group, *round_record(record, decimals)

    with replacing(target) as file:
        packed.write_records(file, rows(), {"decimals": decimals, "rounded": list(ROUNDED), "folders": folders})
    progress(1, 1)
    return Packed(len(kept), target.stat().st_size, tuple(notes))


def _check_target(target: Path) -> None:
    if target.suffix != ".parquet":
        raise ValueError(f"{target} must end in .parquet, so that every command reads it: name the file {target.name}.parquet")
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"{target} cannot be written: name a file in a folder that exists")
    if target.exists():
        try:
            packed.about_file(target)
        except ValueError as error:
            raise ValueError(f"{target} exists and is no packed file: it is not replaced, name another file") from error


def _distinct(records: list[Record]) -> tuple[list[Record], list[str]]:
    """Each (folder name, key) once; a note for what is left out."""
    first: dict[tuple[str, str], Record] = {}
    notes = []
    for record in records:
        other = first.setdefault((record.group, record.key), record)
        if other is not record:
            notes.append(f"{record.name} is left out: {other.name} has the same folder name and key")
    return list(first.values()), notes


def _stream(record: Record) -> str:
    """Sorts cells of one stream next to each other."""
    cell = record.cell["cell"]
    return json.dumps(
        [cell["dataset"], cell["scenario"], cell["seed"], cell["model"], record.group, record.key], sort_keys=True
    )


def round_record(record: Record, decimals: int) -> tuple[Record, dict[str, Column]]:
    """A record and its columns at this precision; a record that was rounded to as many decimals or fewer stays as it is."""
    columns = record.rows(*COLUMNS)
    about, mark = record.cell, record.cell.get("compacted")
    if mark is not None and mark["decimals"] <= decimals:
        return record, columns
    rows = {name: round_column(name, column, decimals) for name, column in columns.items()}
    domains, groups = tuple(about["domains"]), tuple(about["groups"])
    with np.errstate(invalid="ignore"):
        summary = json.loads(to_json(summarise(rows, len(about["classes"]), domains, groups, about["method"])))
    changed = {key: record.summary[key] for key, value in summary.items() if record.summary[key] != value}
    before = changed | (mark["before"] if mark else {})  # the first values stay
    mark = {"decimals": decimals, "columns": list(ROUNDED), "before": before}
    return replace(record, cell={**about, "compacted": mark}, summary={**record.summary, **summary}), rows


def round_column(name: str, column: Column, decimals: int) -> Column:
    """A column in the type of `COLUMNS`: integers and booleans exact, others rounded.

    >>> round_column("label", np.array([3, 250]), 1), round_column("entropy", np.array([0.12345]), 2)
    (array([  3, 250], dtype=int32), array([0.12], dtype=float32))
    """
    exact = name not in ROUNDED
    return (column if exact else np.round(column.astype(np.float64), decimals)).astype(COLUMNS[name])
