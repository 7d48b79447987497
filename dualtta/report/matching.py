"""Matching runs for a paired comparison: by everything that was chosen but the method, then sample by sample."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.records.frame import load_records, verified
from dualtta.records.metrics import Column
from dualtta.records.reading import Record, read
from dualtta.report.outcomes import STREAM, Stream
from dualtta.report.paired import Pair

SHOWN = 3  # of what cannot be paired


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a cell's folder, a folder of results, or some of these, `FOLDER:method,key=value,...`."""

    text: str
    folder: Path
    method: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def takes(self, record: Record) -> bool:
        """Whether a record belongs to this side."""
        method = {**record.cell["method"], **record.cell["cell"]["method"]}
        wanted = not self.method or record.cell["cell"]["method"]["name"] == self.method
        return wanted and all(_equal(method.get(key), value) for key, value in self.settings)


def parse_side(text: str) -> Side:
    """
    >>> parse_side("results/demo:dualtta,lr=0.008").settings
    (('lr', '0.008'),)
    """
    if Path(text).exists() or ":" not in text:
        return Side(text, Path(text))
    folder, _, words = text.rpartition(":")
    method, *chosen = (word.strip() for word in words.split(","))
    wrong = next((word for word in chosen if "=" not in word), None)
    if wrong is not None or not method:
        why = f"{wrong or 'the method'} is missing or wrong"
        raise ValueError(f"{text!r} is not FOLDER:method or FOLDER:method,key=value: {why}")
    pairs = tuple((key.strip(), value.strip()) for key, _, value in (word.partition("=") for word in chosen))
    return Side(text, Path(folder), method, pairs)


def _equal(found: Any, wanted: str) -> bool:
    if isinstance(found, bool):
        return str(found).lower() == wanted.lower()
    try:
        return float(found) == float(wanted)
    except (TypeError, ValueError):
        return str(found) == wanted


def records_of(side: Side) -> list[Record]:
    """All results of a side; a ValueError where there are none, or where a single cell's record is damaged."""
    if (side.folder / "cell.json").is_file() or (side.folder / "done").is_file():
        record = read(side.folder)
        why, _ = verified(record)
        if why:
            raise ValueError(f"{side.text} cannot be compared: {why}")
        return [record]
    frame = load_records(side.folder)
    results: list[Record] = [c.record for c in frame.itertuples() if c.stage == "result"]
    found = [record for record in results if side.takes(record)]
    if not found:
        methods = ", ".join(sorted({record.cell["cell"]["method"]["name"] for record in results})) or "nothing"
        left_out = f"; {frame.notes[0]}" if frame.notes else ""
        raise ValueError(f"{side.text} has no result to compare; {side.folder} has results of: {methods}{left_out}")
    return found


def match(a: Side, b: Side, common: bool = False) -> tuple[list[tuple[Record, Record]], list[str]]:
    """Records that differ in the method alone (or in no setting at all), and a note on each that has no partner.

    Without `common`, a record without a partner is an error.
    """
    ours, theirs = records_of(a), records_of(b)
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])], []
    whole = not (a.method or b.method)
    left, right = _by_task(a, whole, ours), _by_task(b, whole, theirs)
    alone = [f"{_title(left[key])} is in {a.text} alone" for key in left if key not in right]
    alone += [f"{_title(right[key])} is in {b.text} alone" for key in right if key not in left]
    shared = [key for key in left if key in right]
    if not shared:
        raise ValueError(f"{a.text} and {b.text} have no cell in common: {alone[0]}")
    if alone and not common:
        more = f", and {len(alone) - SHOWN} more" if len(alone) > SHOWN else ""
        raise ValueError(f"{'; '.join(alone[:SHOWN])}{more}: run what is missing, or compare what both have with --common")
    return sorted(((left[key], right[key]) for key in shared), key=lambda pair: _title(pair[0])), alone


def task_of(record: Record, whole: bool = False, seed: bool = True) -> str:
    """Everything that was chosen but the method; with `whole`, the method too."""
    cell = {key: value for key, value in record.cell["cell"].items() if key not in ("method", "fisher", "seed")}
    parts: list[Any] = [cell, record.part("model", "weights_hash")]
    parts += [record.cell["cell"]["seed"]] if seed else []
    parts += [record.cell["cell"]["method"]] if whole else []
    return json.dumps(parts, sort_keys=True)


def same_method(a: Record, b: Record) -> bool:
    return bool(a.cell["cell"]["method"] == b.cell["cell"]["method"])


def _by_task(side: Side, whole: bool, records: Sequence[Record]) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for record in records:
        other = found.setdefault(task_of(record, whole), record)
        if other is not record:
            runs = f"{_title(other)}; {_title(record)}"
            raise ValueError(f"{side.text} holds several runs of one cell: {runs}: say which with FOLDER:method,key=value")
    return found


def _title(record: Record) -> str:
    return str(record.cell.get("title") or record.key)


def pair_up(a: Record, b: Record) -> Pair:
    """Two records sample by sample: in the order of the stream where it is the same, else by the index of the sample."""
    who = f"{_title(a)} and {_title(b)}"
    if a.cell["cell"]["dataset"] != b.cell["cell"]["dataset"]:
        raise ValueError(f"{who} have different data: only runs on the same samples are compared")
    ours, theirs = (
        (Stream(*(rows[name] for name in STREAM)), rows["prediction"] == rows["label"]) for rows in (a.rows(), b.rows())
    )
    task, chosen = task_of(a, whole=same_method(a, b), seed=False), a.cell["cell"]
    return _pair(ours, theirs, who, task, int(chosen["seed"]), str(chosen["dataset"]["name"]))


def pair_outcomes(a: Any, b: Any, domain: str | None = None) -> Pair:
    """Two rows of a report's frame sample by sample, or the samples of one domain."""
    ours, theirs = ((cell.reduced.stream, cell.reduced.correct) for cell in (a, b))
    only = None if domain is None else a.domains.index(domain)
    return _pair(ours, theirs, f"{a.label} and {b.label}", a.task, int(a.seed), a.dataset, only)


def _pair(
    ours: tuple[Stream, Column],
    theirs: tuple[Stream, Column],
    who: str,
    task: str,
    seed: int,
    dataset: str,
    domain: int | None = None,
) -> Pair:
    (stream, correct), (other, correct_b) = ours, theirs
    a, b = align(stream, other, who)
    pair = Pair(task, seed, correct[a], correct_b[b], stream.index[a], stream.group[a], dataset)
    return pair if domain is None else pair.where(stream.domain[a] == domain)


def align(ours: Stream, theirs: Stream, who: str) -> tuple[Any, Any]:
    """Positions that pair the samples of two runs; a ValueError where they are not the same samples."""
    orders = (slice(None), slice(None)) if ours is theirs else _orders(ours.index, theirs.index, who)
    different = ours.label[orders[0]] != theirs.label[orders[1]]
    if different.any():
        number = int(ours.index[orders[0]][np.argmax(different)])
        raise ValueError(f"{who}: sample {number} has another label in each; the data has changed between")
    return orders


def _orders(ours: Column, theirs: Column, who: str) -> tuple[Any, Any]:
    if np.array_equal(ours, theirs):
        return slice(None), slice(None)
    for index, others, which in ((ours, theirs, "first"), (theirs, ours, "second")):
        lacking = np.setdiff1d(index, others)
        if len(lacking):
            named = ", ".join(map(str, lacking[:SHOWN].tolist()))
            raise ValueError(f"{who} cannot be paired: {len(lacking):,} samples are in the {which} alone, such as {named}")
    if len(np.unique(ours)) < len(ours) or len(np.unique(theirs)) < len(theirs):
        at = int(np.flatnonzero(ours[: len(theirs)] != theirs[: len(ours)])[0]) if len(ours) == len(theirs) else 0
        raise ValueError(f"{who} cannot be paired: samples repeat and their order differs from position {at} on")
    return np.argsort(ours), np.argsort(theirs)
