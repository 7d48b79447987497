"""Whether adaptation did harm: each method against no adaptation on the same samples of a stream, as a table with a verdict.

Harm is a 95 % interval of the difference that lies wholly below -0.5 points, or that of a window of 1,000 successive images
wholly below -2 points. Where a stream starts with other images (`before` in its settings), the images after them are judged.

    difference      accuracy minus that of `source`, paired by sample; over samples and seeds (paired.py)
    worst window    the lowest difference of 1,000 successive images of one seed, or of all where there are fewer
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualtta.data.published import CCC, CLEAN, DIFFICULTIES, STRESS
from dualtta.records.metrics import Column
from dualtta.report.matching import pair_outcomes
from dualtta.report.paired import Interval, Pair, combined_difference, paired_difference
from dualtta.report.statistics import PERCENT, over_seeds
from dualtta.report.table import Notes, Row, Table, Value

REFERENCE = "source"
HARM, WINDOW_HARM = -0.5, -2.0  # points
WINDOW = 1000  # images
HEADER = (
    *("stream", "method", "accuracy", "source", "difference", "95 % interval", "worst window", "its interval", "verdict"),
    *("forwards/sample", "updates/batch", "images/s"),
)
RULE = (
    f"harm: the paired 95 % interval of the difference to {REFERENCE} lies below {HARM} points, or that of a window of "
    f"{WINDOW:,} images below {WINDOW_HARM:g}; gain: the interval lies above 0; forwards count the views, an update is one "
    "backward pass (two of SAR); images/s is of adapting alone"
)
ORDER = ("mild", "mixed", "continual", "sorted", "camera", "one-class")  # of the rows


@dataclass(frozen=True)
class Judgement:
    """One method on one stream. `window` is the worst, from its image `start` of the judged part, with this `seed`."""

    accuracy: list[float]  # by seed, in percent
    reference: list[float]
    difference: Interval
    window: Interval
    seed: int
    start: int
    samples: int

    @property
    def harm(self) -> bool:
        return self.difference[2] < HARM or self.window[2] < WINDOW_HARM

    @property
    def verdict(self) -> str:
        return "harm" if self.harm else "gain" if self.difference[1] > 0 else "no harm shown"


def tables(frame: Any) -> list[Table]:
    """A table for each model on each dataset of `dualtta run safety`."""
    return _tables(frame[frame["dataset"].isin(STRESS)], "safety", "Safety")


def ccc_tables(frame: Any) -> list[Table]:
    """The same for `dualtta run ccc`."""
    return _tables(frame[frame["dataset"].isin(CCC)], "ccc", "Continually changing corruptions")


def _tables(some: Any, name: str, title: str) -> list[Table]:
    models = some.groupby([_of_model(cell) for cell in some.itertuples()], sort=False) if len(some) else ()
    return [safety_table(cells, name, title) for _, cells in models]


def _of_model(cell: Any) -> str:
    chosen = cell.record.cell["cell"]
    model = {**chosen["model"], "source": {**(cell.source or {}), "seed": None}}
    choices = {key: value for key, value in cell.choices.items() if key not in ("difficulty", "speed")}
    return json.dumps([cell.dataset, choices, model, cell.weights_hash], sort_keys=True)


def safety_table(cells: Any, name: str = "safety", title: str = "Safety") -> Table:
    """All streams of one model, and in the last notes a line for each method that sums them up."""
    first, usual = cells.iloc[0], most_common(cell.stream.get("batch_size", 64) for cell in cells.itertuples())
    rows: list[Row] = []
    judged: dict[str, dict[str, Judgement]] = {}
    for stream, of_stream in by_stream(cells, usual):
        reference = of_stream[of_stream["method"] == REFERENCE]
        others = of_stream[of_stream["method"] != REFERENCE] if set(of_stream["method"]) != {REFERENCE} else of_stream
        for label, same in others.groupby("base", sort=False):
            found = judge(same, reference)
            rows.append(Row(stream, (label, *values(same, found))))
            if found is not None:
                judged.setdefault(label, {})[stream] = found
    notes, seeds = Notes(), sorted(set(cells["seed"]))
    more = [f"seeds {', '.join(map(str, seeds))}; {RULE}", *(summary(label, found) for label, found in judged.items())]
    title = f"{title}: {first['dataset']}, {first['model']}, batches of {usual} unless named; accuracy, %"
    return Table(name, title, HEADER, tuple(rows), notes.below(rows, *more), settings=frozenset(cells["setting"]))


def by_stream(cells: Any, usual: int) -> Iterator[tuple[str, Any]]:
    """The cells of each stream under its name."""
    groups = [same for _, same in cells.groupby("task", sort=False)]
    named = [(position(same.iloc[0], usual), stream_name(same.iloc[0], usual), same) for same in groups]
    for _, name, same in sorted(named, key=lambda item: item[:2]):
        yield name, same


def position(cell: Any, usual: int) -> tuple[Any, ...]:
    """A sort key of streams: clean images before corrupted ones, other batch sizes later, streams that follow others last."""
    known = ORDER.index(cell.scenario) if cell.scenario in ORDER else len(ORDER)
    if "difficulty" in cell.choices:
        return DIFFICULTIES.index(cell.choices["difficulty"]), cell.choices.get("speed", 0)
    size, corrupted = cell.stream.get("batch_size", 64), cell.stream.get("domains") != [CLEAN]
    return ("before" in cell.stream, size != usual, known, corrupted, cell.stream.get("repeats", 1), size)


def stream_name(cell: Any, usual: int = 64) -> str:
    """A stream in words: "fog", "mixed, batches of 4", "clean after noise", "easy, 1,000 images a step"."""
    if "difficulty" in cell.choices:
        return f"{cell.choices['difficulty']}, {cell.choices['speed']:,} images a step"
    stream, domains = cell.stream, list(cell.stream.get("domains") or cell.domains)
    which = " and ".join(domains) if len(domains) <= 2 else ""
    before = stream.get("before")
    parts = [which] if cell.scenario == "mild" else [cell.scenario.replace("-", " "), which]
    if before is not None:
        parts = [f"{which} after {_earlier(before)}"]
    elif "classes" in stream:
        parts = [f"{stream['classes']} classes", which]
    parts += [f"{stream['repeats']} passes"] if stream.get("repeats", 1) > 1 else []
    size = stream.get("batch_size", 64)
    parts += [f"batches of {size}" if size > 1 else "single images"] if size != usual else []
    return ", ".join(part for part in parts if part)


def _earlier(before: dict[str, Any]) -> str:
    domains = before.get("domains") or ["others"]
    words = " and ".join(domains) if len(domains) <= 2 else f"{len(domains)} domains"
    return {"repeated": f"one {words} batch repeated", "alternating": f"{words} alternating"}.get(str(before["name"]), words)


def most_common(sizes: Iterable[int]) -> int:
    """
    >>> most_common([64, 1, 64])
    64
    """
    values, counts = np.unique(list(sizes), return_counts=True)
    return int(values[counts.argmax()])


def judge(cells: Any, reference: Any) -> Judgement | None:
    """A method's cells against those of no adaptation on the same stream and seeds; None where one of them is missing."""
    pairs = list(judged_pairs(cells, reference))
    if not pairs:
        return None
    windows = [(*worst_window(pair), pair.seed) for pair in pairs]
    window, start, seed = min(windows, key=lambda found: found[0][0])
    return Judgement(
        [PERCENT * float(pair.correct_a.mean()) for pair in pairs],
        [PERCENT * float(pair.correct_b.mean()) for pair in pairs],
        combined_difference(pairs),
        window,
        seed,
        start,
        len(pairs[0].sample),
    )


def judged_pairs(cells: Any, reference: Any) -> Iterator[Pair]:
    """A pair for each seed that both have: the judged samples in the order of the stream."""
    theirs = {cell.seed: cell for cell in reference.itertuples()}
    for cell in cells.itertuples():
        if cell.seed in theirs:
            yield pair_outcomes(cell, theirs[cell.seed]).where(judged_part(cell))


def judged_part(cell: Any) -> Column:
    """Which samples of a cell's stream count: all, or those after the last one of `before`."""
    stream = cell.reduced.stream
    part = np.ones(len(stream.index), bool)
    before = cell.stream.get("before")
    if before is not None:
        own = [cell.domains.index(name) for name in cell.stream["domains"]]
        others = np.flatnonzero(~np.isin(stream.domain, own))
        part[: others[-1] + 1 if len(others) else 0] = False
    return part


def worst_window(pair: Pair, size: int = WINDOW) -> tuple[Interval, int]:
    """The lowest difference of `size` successive samples, with its interval, and where the window starts.

    Windows follow each other; the last ends with the stream.
    """
    last = max(len(pair.sample) - size, 0)
    found = []
    for start in sorted({*range(0, last + 1, size), last}):
        part = slice(start, start + size)
        found.append((paired_difference(pair.correct_a[part], pair.correct_b[part]), start))
    return min(found, key=lambda item: item[0][0])


def values(cells: Any, found: Judgement | None) -> tuple[Value | str, ...]:
    """The values of a row, after the method."""
    cost = (
        _over(cells["forwards"] / cells["samples"]),
        _over(cells["updates"] / cells["batches"].clip(lower=1)),
        _over(cells["images_per_second"]),
    )
    if found is None:  # nothing to compare with
        return (_over(PERCENT * cells["accuracy"]), Value(), Value(), "", Value(), "", "", *cost)
    return (
        _over(found.accuracy, found.samples),
        _over(found.reference, found.samples),
        Value(found.difference[0], seeds=len(found.accuracy), samples=found.samples),
        ends(found.difference),
        Value(found.window[0], seeds=1, samples=min(WINDOW, found.samples)),
        ends(found.window),
        found.verdict,
        *cost,
    )


def _over(numbers: Iterable[float], samples: int = 0) -> Value:
    known = [float(number) for number in numbers if np.isfinite(number)]
    return Value(*over_seeds(known), len(known), samples) if known else Value()


def ends(interval: Interval) -> str:
    """
    >>> ends((1.0, -0.25, 2.25))
    '-0.25 to +2.25'
    """
    return f"{interval[1]:+.2f} to {interval[2]:+.2f}"


def summary(label: str, found: dict[str, Judgement]) -> str:
    """A method on all streams, in one line."""
    stream, worst = min(found.items(), key=lambda item: item[1].difference[0])
    where, at = min(found.items(), key=lambda item: item[1].window[0])
    images = f"images {at.start + 1:,} to {at.start + min(WINDOW, at.samples):,}, seed {at.seed}"
    return (
        f"{label}: harm in {sum(one.harm for one in found.values())} of {len(found)} streams; "
        f"worst stream {stream}, {worst.difference[0]:+.2f} ({ends(worst.difference)}); "
        f"worst window {where}, {at.window[0]:+.2f} ({ends(at.window)}; {images})"
    )
