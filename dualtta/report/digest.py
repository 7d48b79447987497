"""One record's rows, read once and reduced to what figures and the page need: a million rows become a few kilobytes a run."""

import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualtta.records.metrics import Column
from dualtta.records.reading import Record

BINS = 15  # of confidence, as many as the calibration error has
SHOWN = 4_000  # samples of a run that are kept to be drawn
TYPICAL = 4  # samples of D+ and of D- that are kept to be shown as images
SETS = ("D+", "D-", "rest")
NEEDED = ("index", "label", "prediction", "domain", "segment", "confidence", "drop_alter", "drop_preserve", "plus", "minus")


@dataclass(frozen=True)
class Points:
    """Samples in the plane of the two drops: all that were looked at, or as many as can be drawn, by a fixed seed."""

    columns: dict[str, Column]  # index label prediction domain confidence drop_alter drop_preserve set, one length
    total: int  # samples of the run whose two drops are known


@dataclass(frozen=True)
class Digest:
    """What is kept of a record. `cell`, `summary` and `cost` are the record's own."""

    key: str
    cell: dict[str, Any]
    summary: dict[str, Any]
    cost: dict[str, Any]
    right: Column  # packed bits: whether each sample of the stream was right, in order
    segments: tuple[tuple[str, int], ...]  # of the stream: domain and length
    reliability: Column  # (bins, 3): samples, sum of confidences, hits
    tally: Column  # (domains, D+ D- rest, wrong right): samples
    points: Points | None  # None where a method looks at one drop, or at none
    typical: dict[str, dict[str, Column]]  # D+ and D- -> columns of a few samples near the middle of their set

    @property
    def method(self) -> str:
        return str(self.cell["cell"]["method"]["name"])

    @property
    def seed(self) -> int:
        return int(self.cell["cell"]["seed"])

    @property
    def correct(self) -> Column:
        return np.unpackbits(self.right, count=self.summary["samples"]).astype(bool)


def digest_all(records: Iterable[Record]) -> tuple[list[Digest], list[str]]:
    """All records that hold what they promise, and what is to be said of the others."""
    found, notes = [], []
    for record in records:
        try:
            found.append(digest(record))
        except ValueError as error:
            notes.append(str(error))
    return found, notes


def digest(record: Record) -> Digest:
    """Read a record's rows; a ValueError where they are damaged, or not the rows that its summary was made of."""
    try:
        return _digest(record, record.rows())
    except (OSError, EOFError, KeyError, IndexError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{record.key} is left out: its rows cannot be read: {what}") from error


def _digest(record: Record, rows: dict[str, Column]) -> Digest:
    cell, summary = record.cell, record.summary
    size = int(summary["samples"])
    if any(len(rows[name]) != size for name in NEEDED):
        raise ValueError(f"the summary speaks of {size} samples and the rows hold another number")
    correct = rows["prediction"] == rows["label"]
    if abs(float(correct.mean()) - summary["accuracy"]) > 1e-6:
        raise ValueError("their accuracy is not the summary's: one of the two files is of another run")
    if rows["domain"].min() < 0 or rows["domain"].max() >= len(cell["domains"]):
        raise ValueError("they name domains that the record does not list")
    if not np.isfinite(rows["confidence"]).all():
        raise ValueError("some confidences are no numbers")
    part = np.where(rows["plus"], 0, np.where(rows["minus"], 1, 2))
    return Digest(
        key=record.key,
        cell=cell,
        summary=summary,
        cost=record.cost,
        right=np.packbits(correct),
        segments=segments(rows["segment"], rows["domain"], cell["domains"]),
        reliability=by_confidence(rows["confidence"], correct),
        tally=tally(rows["domain"], part, correct, len(cell["domains"])),
        points=points(rows, part),
        typical={name: typical(rows, part == number) for number, name in enumerate(SETS[:2])},
    )


def segments(segment: Column, domain: Column, names: list[str]) -> tuple[tuple[str, int], ...]:
    """The stretches of a stream: the domain of each, or "mixed", and its length.

    >>> segments(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), ["photo", "sketch"])
    (('photo', 2), ('mixed', 2))
    """
    starts = np.flatnonzero(np.diff(segment, prepend=segment[0] - 1))
    ends = np.append(starts[1:], len(segment))
    return tuple(
        (names[domain[a]] if (domain[a:b] == domain[a]).all() else "mixed", int(b - a))
        for a, b in zip(starts, ends, strict=True)
    )


def by_confidence(confidence: Column, correct: Column, bins: int = BINS) -> Column:
    """Samples, summed confidence and hits of equal-width bins of confidence; a bin holds its upper end.

    >>> by_confidence(np.array([0.2, 0.9, 1.0]), np.array([False, True, True]), bins=2).tolist()
    [[1.0, 0.2, 0.0], [2.0, 1.9, 2.0]]
    """
    number = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    sums = [np.bincount(number, weights, bins) for weights in (None, confidence.astype(np.float64), correct)]
    return np.stack(sums, axis=1).astype(np.float64)


def tally(domain: Column, part: Column, correct: Column, domains: int) -> Column:
    """Samples of each domain, set and correctness."""
    cells = (domain.astype(np.int64) * len(SETS) + part) * 2 + correct
    return np.bincount(cells, minlength=domains * len(SETS) * 2).reshape(domains, len(SETS), 2)


def points(rows: dict[str, Column], part: Column, most: int = SHOWN) -> Points | None:
    """The samples whose two drops are known; beyond `most`, so many of them drawn evenly by a fixed seed."""
    known = np.flatnonzero(np.isfinite(rows["drop_alter"]) & np.isfinite(rows["drop_preserve"]))
    if not len(known):
        return None
    chosen = known
    if len(known) > most:
        chosen = np.sort(np.random.default_rng(0).choice(known, most, replace=False))
    return Points(_columns(rows, chosen) | {"set": part[chosen].astype(np.int8)}, len(known))


def typical(rows: dict[str, Column], members: Column, most: int = TYPICAL) -> dict[str, Column]:
    """A few samples of a set, the nearest to its median drops."""
    alter, preserve = rows["drop_alter"], rows["drop_preserve"]
    chosen = np.flatnonzero(members & np.isfinite(alter) & np.isfinite(preserve))
    if len(chosen):
        a, p = alter[chosen], preserve[chosen]
        chosen = chosen[np.argsort((a - np.median(a)) ** 2 + (p - np.median(p)) ** 2, kind="stable")[:most]]
    return _columns(rows, chosen)


def _columns(rows: dict[str, Column], chosen: Column) -> dict[str, Column]:
    names = ("index", "label", "prediction", "domain", "confidence", "drop_alter", "drop_preserve")
    return {name: rows[name][chosen] for name in names}
