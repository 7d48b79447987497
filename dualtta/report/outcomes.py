"""A record's per-sample columns, reduced to what comparisons, figures and the page need: a few kilobytes a run."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualtta.records.metrics import Column
from dualtta.records.reading import Record

BINS = 15  # of confidence, as many as the calibration error has
SHOWN = 4_000  # samples of a run that are kept to be drawn
TYPICAL = 4  # samples of D+ and of D- that are kept to be shown as images
SETS = ("D+", "D-", "rest")
STREAM = ("index", "label", "domain", "group")  # the columns of a stream


@dataclass(frozen=True, eq=False)
class Stream:
    """The samples of a run in the order of its stream. Runs on the same samples share one object."""

    index: Column  # (samples,) of the dataset
    label: Column
    domain: Column
    group: Column  # -1 where there are no groups


@dataclass(frozen=True, eq=False)
class Points:
    """Samples in the plane of the two drops: all whose drops are known, or a fixed random draw of them."""

    columns: dict[str, Column]  # index label prediction domain confidence drop_alter drop_preserve set, of one length
    total: int  # samples of the run whose two drops are known


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What is kept of one run's per-sample columns."""

    stream: Stream
    packed: Column  # bits: whether each prediction is correct, in the order of the stream
    segments: tuple[tuple[str, int], ...]  # of the stream: domain and length
    reliability: Column  # (bins, 3): samples, sum of confidences, correct predictions
    tally: Column  # (domains, D+ D- rest, wrong correct): samples
    points: Points | None  # None where the method has no two views
    typical: dict[str, dict[str, Column]]  # D+ and D- -> columns of a few samples near the middle of their set

    @property
    def correct(self) -> Column:
        return np.unpackbits(self.packed, count=len(self.stream.index)).astype(bool)


class Reducer:
    """`reduce` for `load_records`; keeps each stream once."""

    def __init__(self) -> None:
        self.streams: dict[bytes, Stream] = {}

    def __call__(self, record: Record, rows: dict[str, Column]) -> Outcomes:
        correct = rows["prediction"] == rows["label"]
        part = np.where(rows["plus"], 0, np.where(rows["minus"], 1, 2))
        domains = record.cell["domains"]
        return Outcomes(
            stream=self._stream(rows),
            packed=np.packbits(correct),
            segments=segments(rows["segment"], rows["domain"], domains),
            reliability=by_confidence(rows["confidence"], correct),
            tally=tally(rows["domain"], part, correct, len(domains)),
            points=points(rows, part),
            typical={name: typical(rows, part == number) for number, name in enumerate(SETS[:2])},
        )

    def _stream(self, rows: dict[str, Column]) -> Stream:
        columns = [rows[name] for name in STREAM]
        content = hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).digest()
        return self.streams.setdefault(content, Stream(*columns))


def segments(segment: Column, domain: Column, names: list[str]) -> tuple[tuple[str, int], ...]:
    """The segments of a stream: the domain of each, or "mixed", and its length.

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
    """Samples, summed confidence and correct predictions of equal-width bins of confidence; a bin holds its upper end.

    >>> by_confidence(np.array([0.2, 0.9, 1.0]), np.array([False, True, True]), bins=2).tolist()
    [[1.0, 0.2, 0.0], [2.0, 1.9, 2.0]]
    """
    number = np.clip(np.ceil(np.nan_to_num(confidence) * bins).astype(int) - 1, 0, bins - 1)
    sums = [np.bincount(number, weights, bins) for weights in (None, confidence.astype(np.float64), correct)]
    return np.stack(sums, axis=1).astype(np.float64)


def tally(domain: Column, part: Column, correct: Column, domains: int) -> Column:
    """Samples of each domain, set and correctness."""
    cells = (domain.astype(np.int64) * len(SETS) + part) * 2 + correct
    return np.bincount(cells, minlength=domains * len(SETS) * 2).reshape(domains, len(SETS), 2)


def points(rows: dict[str, Column], part: Column, most: int = SHOWN) -> Points | None:
    """The samples whose two drops are known; beyond `most`, a draw of so many with a fixed seed."""
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


def _columns(rows: dict[str, Column], chosen: Column) -> dict[str, Any]:
    names = ("index", "label", "prediction", "domain", "confidence", "drop_alter", "drop_preserve")
    return {name: rows[name][chosen] for name in names}
