"""Whether a record can be believed: its summary has to follow from its rows. Nothing that fails here reaches a table, or keeps
a cell from being computed again."""

import json
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.records.format import COLUMNS, OtherVersion, Record, is_done, key_of, read, to_json
from dualtta.records.metrics import Column, summarise

COUNTS = ("batches", "updates", "skips", "recoveries", "collapsing", "forwards")
TOLERANCE = 1e-6  # of what is computed again from the rows


def believed(folder: Path) -> Record | None:
    """The record of a cell; None where there is none, or a damaged one. A ValueError at another version's."""
    try:
        record = read(folder) if is_done(folder) else None
    except OtherVersion:
        raise
    except ValueError:
        return None
    return None if record is None or unfit(record) else record


def unfit(record: Record) -> str | None:
    """What keeps a record from standing for its cell: its flaw, or that it lacks what a run tells beside its result."""
    why = flaw(record)
    if why:
        return why
    told = {"done: seconds": record.cost.get("seconds"), "cell.json: method.lr": record.cell["method"].get("lr")}
    return next((f"it lacks {name}" for name, value in told.items() if not isinstance(value, int | float)), None)


def flaw(record: Record) -> str | None:
    """What is wrong with a record, in words; None where all is well."""
    try:
        missing = _lacks(record)
        if missing:
            return f"it lacks {missing}"
        rows = record.rows()
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        return f"rows.npz cannot be read: {' '.join(str(error).split()) or type(error).__name__}"
    return _wrong_rows(rows) or _wrong_summary(record, rows)


def _lacks(record: Record) -> str | None:
    """The first thing that every record has and this one has not."""
    whole: list[tuple[str, Any]] = [("summary.json", record.summary), ("done", record.cost), ("cell", record.cell.get("cell"))]
    for place, value in whole:
        if not isinstance(value, dict):
            return f"the settings in {place}" if place == "cell" else f"all that belongs into {place}"
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
    if record.part("key") != key_of(cell, record.part("model", "weights_hash")):
        return "the settings that its key is made of"
    for part in COUNTS:
        value = record.summary.get(part)
        if not isinstance(value, int) or value < 0:
            return f"summary.json: {part}"
    return None


def _wrong_rows(rows: dict[str, Column]) -> str | None:
    missing = [name for name in COLUMNS if name not in rows]
    if missing:
        return f"rows.npz lacks {', '.join(missing)}"
    sizes = {rows[name].shape for name in COLUMNS}
    if len(sizes) != 1 or len(next(iter(sizes))) != 1:
        return "the columns of rows.npz are not equally long"
    if next(iter(sizes)) == (0,):
        return "rows.npz is empty"
    strange = [name for name, kind in COLUMNS.items() if not np.can_cast(rows[name].dtype, kind, "same_kind")]
    return f"rows.npz holds no numbers in {', '.join(strange)}" if strange else None


def _wrong_summary(record: Record, rows: dict[str, Column]) -> str | None:
    """The first number of the summary that the rows do not bear out."""
    about, names = record.cell, {part: tuple(map(str, record.cell[part])) for part in ("domains", "groups")}
    if not ((rows["domain"] >= 0) & (rows["domain"] < len(names["domains"]))).all():
        return "its rows belong to domains that cell.json does not name"
    try:
        with np.errstate(invalid="ignore"):
            by_rows = summarise(rows, max(len(about["classes"]), 1), names["domains"], names["groups"], about["method"])
    except (TypeError, ValueError) as error:
        return f"its rows cannot be summarised: {error}"
    expected = json.loads(to_json(by_rows))
    if record.summary.get("samples") != expected["samples"]:
        return f"summary.json says {record.summary.get('samples')} samples, rows.npz has {expected['samples']}"
    for key, value in expected.items():
        if key not in record.summary:
            return f"summary.json lacks {key}"
        if not _same(value, record.summary[key]):
            return f"{key} in summary.json does not follow from rows.npz"
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
