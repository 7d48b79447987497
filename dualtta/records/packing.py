"""Records made small, to be kept beside the code: no stream file, numbers of a row rounded, columns no wider than they need be.

Predictions, labels, groups and who was selected stay exact, and with them accuracies, shares and paired comparisons. What
follows from the rounded columns (calibration, entropy, quadrants) is computed again, so that a report believes the record by
the same check as any other; `compacted` in cell.json says so, with the numbers that moved as they were before.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dualtta.files import write_bytes
from dualtta.records import format as records
from dualtta.records.format import COLUMNS, Record
from dualtta.records.metrics import Column, summarise
from dualtta.records.verification import believed, flaw

DECIMALS = 2


@dataclasses.dataclass(frozen=True)
class Compacted:
    """What became of a folder of results."""

    written: int
    skipped: int  # there already
    before: int  # bytes
    after: int
    notes: tuple[str, ...]  # on records that were left out, and why


def narrow(name: str, column: Column, decimals: int = DECIMALS) -> Column:
    """A column in the least that holds it: whole numbers exactly, others to so many decimals.

    >>> narrow("label", np.array([3, 250])).dtype, narrow("entropy", np.array([0.12345]))
    (dtype('uint8'), array([0.12], dtype=float16))
    """
    if COLUMNS[name] is np.float32:
        with np.errstate(over="ignore"):  # a weight beyond float16 is infinite there, and in no summary
            return np.round(column.astype(np.float64), decimals).astype(np.float16)
    if COLUMNS[name] is np.bool_:
        return column.astype(np.bool_)
    kinds = (np.uint8, np.int16, np.int32) if len(column) and column.min() >= 0 else (np.int8, np.int16, np.int32)
    fits = (
        kind for kind in kinds if not len(column) or np.iinfo(kind).min <= column.min() <= column.max() <= np.iinfo(kind).max
    )
    return column.astype(next(fits, np.int64))


def compact(record: Record, decimals: int = DECIMALS) -> dict[str, bytes]:
    """The files of a small record."""
    about, columns = record.cell, record.rows()
    rows = {name: narrow(name, column, decimals) for name, column in columns.items() if name in COLUMNS}
    read_back = {name: column.astype(COLUMNS[name]) for name, column in rows.items()}
    domains, groups = tuple(about["domains"]), tuple(about["groups"])
    with np.errstate(invalid="ignore"):
        again = summarise(read_back, len(about["classes"]), domains, groups, about["method"])
    plain = json.loads(records.to_json(again))
    moved = {key: record.summary[key] for key, value in plain.items() if record.summary[key] != value}
    earlier = about.get("compacted", {"before": {}})["before"]  # of a record that was made small before
    mark = {
        "decimals": decimals,
        "columns": [n for n, kind in COLUMNS.items() if kind is np.float32],
        "before": moved | earlier,
    }
    return {
        "cell.json": records.to_json({**about, "compacted": mark}, indent=None),
        "rows.npz": records.to_npz(rows),
        "summary.json": records.to_json({**record.summary, **plain}),
        "done": records.to_json(record.cost),
    }


def compact_folder(
    folder: Path, out: Path, notice: Callable[[int, int], None] = lambda done, total: None, decimals: int = DECIMALS
) -> Compacted:
    """Write small records of all results below a folder that can be believed; what is there already is left alone."""
    if not 1 <= decimals <= 3:
        raise ValueError(f"decimals must be 1, 2 or 3, not {decimals}: with none, confidences would be 0 or 1")
    if (out / "cells").resolve() == (folder / "cells").resolve():
        raise ValueError(f"{out} is where the records are: choose another folder with --out, the whole ones are kept")
    found, unread = records.read_all(folder)
    if not found:
        raise ValueError(f"{folder} holds no finished record: name a folder that `dualtta run` wrote")
    notes, written, skipped, before, after = list(unread), 0, 0, 0, 0
    for number, record in enumerate(found):
        notice(number, len(found))
        target = out / "cells" / record.key
        before += _size(record.folder)
        if believed(target):
            skipped += 1
        elif why := flaw(record):
            notes.append(f"{record.key} is left out: {why}")
            continue
        else:
            target.mkdir(parents=True, exist_ok=True)
            for name, data in compact(record, decimals).items():  # `done` last
                write_bytes(target / name, data)
            written += 1
        after += _size(target)
    notice(len(found), len(found))
    return Compacted(written, skipped, before, after, tuple(notes))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
