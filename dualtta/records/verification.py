"""Consistency of a record: its settings give its key, and its summary follows from its per-sample columns.

A record that fails is left out of tables, and its cell is computed again.
"""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.records.format import COLUMNS, is_done, key_of, to_json
from dualtta.records.metrics import Column, summarise
from dualtta.records.reading import OtherVersion, Record, read, read_all

COUNTS = ("batches", "updates", "skips", "recoveries", "collapsing", "forwards")
TOLERANCE = 1e-6  # relative above 1, of metrics computed again from the columns


def read_verified(
    paths: Iterable[Path], progress: Callable[[int, int], None] = lambda done, total: None
) -> tuple[list[Record], list[str]]:
    """The records of these paths that pass `verify`, and a note for each one that is left out.

    Args:
        paths: Results folders, packed files, or folders that hold them; see `reading.find_results`.
        progress: Called with the number of records verified, and of all.
    """
    found: list[Record] = []
    notes: list[str] = []
    for path in paths:
        records, unread = read_all(path)
        found += records
        notes += unread
    reasons: dict[int, str | None] = {}
    in_storage_order = sorted(range(len(found)), key=lambda number: (str(found[number].origin), found[number].position))
    for done, number in enumerate(in_storage_order):
        progress(done, len(found))
        reasons[number] = verify(found[number])
    progress(len(found), len(found))
    notes += [f"{record.name} is left out: {reasons[number]}" for number, record in enumerate(found) if reasons[number]]
    return [record for number, record in enumerate(found) if not reasons[number]], notes


def verified(folder: Path) -> Record | None:
    """The record in a cell's folder; None when there is none or it fails verification. ValueError at another version's."""
    try:
        record = read(folder) if is_done(folder) else None
    except OtherVersion:
        raise
    except ValueError:
        return None
    return None if record is None or verify_complete(record) else record


def verify_complete(record: Record) -> str | None:
    """Like `verify`, and the record also has the values that `dualtta run` and `watch` show."""
    why = verify(record)
    if why:
        return why
    shown = {"done: seconds": record.cost.get("seconds"), "cell.json: method.lr": record.cell["method"].get("lr")}
    return next((f"it lacks {name}" for name, value in shown.items() if not isinstance(value, int | float)), None)


def verify(record: Record) -> str | None:
    """Return why a record cannot be used, in words; None when it is consistent."""
    try:
        missing = _missing(record)
        if missing:
            return f"it lacks {missing}"
        rows = record.rows()
    except Exception as error:  # whatever damage makes numpy, zipfile, zlib or pyarrow raise
        return f"{_columns_of(record)} cannot be read: {' '.join(str(error).split()) or type(error).__name__}"
    return _check_columns(record, rows) or _check_summary(record, rows)


def _columns_of(record: Record) -> str:
    """Where the per-sample columns are stored."""
    return record.origin.name if record.packed else "rows.npz"


def _missing(record: Record) -> str | None:
    """The first required part that a record lacks."""
    whole: list[tuple[str, Any]] = [("summary.json", record.summary), ("done", record.cost), ("cell", record.cell.get("cell"))]
    for name, value in whole:
        if not isinstance(value, dict):
            return f"the settings in {name}" if name == "cell" else f"the contents of {name}"
    cell = record.cell["cell"]
    for part in ("dataset", "model", "method", "scenario"):
        if not isinstance(cell.get(part), dict) or not isinstance(cell[part].get("name"), str):
            return f"cell.json: cell.{part}.name"
    if not isinstance(cell.get("seed"), int):
        return "cell.json: cell.seed"
    kinds = {"classes": list, "domains": list, "groups": list, "method": dict, "subset": bool, "stage": str}
    for part, kind in kinds.items():
        if not isinstance(record.cell.get(part), kind):
            return f"cell.json: {part}"
    mark = record.cell.get("compacted")
    if mark is not None and not (
        isinstance(mark, dict) and isinstance(mark.get("decimals"), int) and isinstance(mark.get("before"), dict)
    ):
        return "cell.json: compacted"
    if record.part("key") != key_of(cell, record.part("model", "weights_hash")):
        return "the settings that give its key"
    for part in COUNTS:
        value = record.summary.get(part)
        if not isinstance(value, int) or value < 0:
            return f"summary.json: {part}"
    return None


def _check_columns(record: Record, rows: dict[str, Column]) -> str | None:
    """All columns are there, of numbers, and equally long."""
    file = _columns_of(record)
    missing = [name for name in COLUMNS if name not in rows]
    if missing:
        return f"{file} lacks {', '.join(missing)}"
    sizes = {rows[name].shape for name in COLUMNS}
    if len(sizes) != 1 or len(next(iter(sizes))) != 1:
        return f"the columns of {file} are not equally long"
    if next(iter(sizes)) == (0,):
        return f"{file} has no samples"
    strange = [name for name, kind in COLUMNS.items() if not np.can_cast(rows[name].dtype, kind, "same_kind")]
    return f"{file} holds no numbers in {', '.join(strange)}" if strange else None


def _check_summary(record: Record, rows: dict[str, Column]) -> str | None:
    """Return the first metric of the summary that differs from the one computed from the columns."""
    about, names = record.cell, {part: tuple(map(str, record.cell[part])) for part in ("domains", "groups")}
    if not ((rows["domain"] >= 0) & (rows["domain"] < len(names["domains"]))).all():
        return "its samples belong to domains that cell.json does not name"
    try:
        with np.errstate(invalid="ignore"):
            summary = summarise(rows, max(len(about["classes"]), 1), names["domains"], names["groups"], about["method"])
    except (TypeError, ValueError) as error:
        return f"its samples cannot be summarised: {error}"
    expected, file = json.loads(to_json(summary)), _columns_of(record)
    if record.summary.get("samples") != expected["samples"]:
        return f"summary.json says {record.summary.get('samples')} samples, {file} has {expected['samples']}"
    for key, value in expected.items():
        if key not in record.summary:
            return f"summary.json lacks {key}"
        if not _same(value, record.summary[key]):
            return f"{key} in summary.json does not follow from {file}"
    return None


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, dict):
        if not isinstance(found, dict) or expected.keys() != found.keys():
            return False
        return all(_same(expected[key], found[key]) for key in expected)
    if expected is None or found is None:
        return expected is found
    if isinstance(found, bool) or not isinstance(found, int | float):
        return False
    return math.isfinite(found) and abs(expected - found) <= TOLERANCE * max(1.0, abs(expected))
