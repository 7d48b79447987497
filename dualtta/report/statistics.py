"""The only definitions of mean, deviation and "best" in a report: all tables, figures and the page use them.

Mean and deviation: a value over several units (corruptions, pairs of domains) is the mean over units seed by seed, then the
mean and the sample deviation over seeds. Seeds that a unit lacks are left out.

Best: the highest value of a column is best (bold) where the paired 95 % interval of its difference to every other value lies
above zero (paired.py: over samples and seeds). Where it is not, the highest value and all that the interval does not separate
from it are level (underlined). Values on other samples or seeds, or of fewer units, are not compared.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualtta.report.matching import pair_outcomes
from dualtta.report.paired import Interval, Pair, combined_difference, worst_group_difference
from dualtta.report.table import Notes, Reported, Row, Value

PERCENT = 100.0


# columns that a value is made of, beside its metric
NEEDED = ("task", "seed", "label", "dataset", "domains", "reduced", "setting", "remarks", "samples")
EMPTY = "there are records, but no sample to count"


@dataclass(frozen=True)
class Column:
    """A column of a table: a metric of the frame over some of its cells.

    `select` takes the frame and returns the column's cells. `units` is how many settings a value is the mean of, and `of` what
    they are called. `compare` names what is compared sample by sample for the best value ("accuracy", "mean_of_groups",
    "worst_group", or ("domain", name)); None: nothing.
    """

    header: str
    metric: str
    select: Callable[[Any], Any] = lambda frame: frame
    units: int = 1
    of: str = "cells"
    compare: Any = None
    reported: Callable[[str], Reported | None] = lambda label: None


def over_seeds(values: Iterable[float]) -> tuple[float, float | None]:
    """Mean and sample deviation; no deviation of one value.

    >>> over_seeds([1.0, 3.0])
    (2.0, 1.4142135623730951)
    >>> over_seeds([1.0])
    (1.0, None)
    """
    found = list(values)
    return float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else None


def by_seed(cells: Any, metric: str) -> dict[Any, dict[int, float]]:
    """A metric of some cells, by setting and seed; cells that have no such number are left out."""
    found: dict[Any, dict[int, float]] = {setting: {} for setting in cells["setting"]}
    numbers = cells[metric] if metric in cells else [None] * len(cells)
    for setting, seed, number in zip(cells["setting"], cells["seed"], numbers, strict=True):
        if number is not None and np.isfinite(number):
            found[setting][seed] = float(number)
    return found


def mean_std(
    cells: Any,
    metric: str,
    notes: Notes,
    *,
    units: int = 1,
    of: str = "cells",
    scale: float = PERCENT,
    reported: Reported | None = None,
) -> Value:
    """The value of some cells in one column: see the head of this file. What has to be said of it becomes marks in `notes`."""
    marks = notes.marks(reported.notes) if reported else ()
    number = None if reported is None else reported.value
    settings = by_seed(cells, metric)
    remarks = dict(zip(cells["setting"], cells["remarks"], strict=True))
    samples = dict(zip(cells["setting"], cells["samples"], strict=True))
    assert len(settings) <= units, "settings on one unit have one label"
    shared = set.intersection(*(set(each) for each in settings.values())) if settings else set()
    if not shared:
        why = [EMPTY if not all(settings.values()) else f"the {of} have no seed in common"] if settings else []
        notes.unmeasured |= set(notes.marks(why))
        return Value(reported=number, marks=(*notes.marks(why), *marks))
    said = [text for texts in remarks.values() for text in texts]
    alone = f"seeds {', '.join(map(str, sorted(shared)))} alone: the others"
    if len(settings) == 1 and len(shared) < len(cells):
        said.append(f"{alone} have no sample to count here")
    if any(set(each) != shared for each in settings.values()):
        said.append(f"{alone} lack some of the {of}")
    if len(settings) < units:
        said.append(f"the mean of {len(settings)} of {units} {of}; the others have no record")
    means = [scale * float(np.mean([each[seed] for each in settings.values()])) for seed in sorted(shared)]
    mean, deviation = over_seeds(means)
    return Value(
        mean,
        deviation,
        seeds=len(shared),
        samples=int(sum(samples.values())),
        reported=number,
        marks=tuple(dict.fromkeys((*notes.marks(said), *marks))),
        whole=len(settings) == units,
        cells=cells if shared.issuperset(cells["seed"]) else cells[cells["seed"].isin(shared)],
    )


def pivot(frame: Any, columns: Sequence[Column], notes: Notes, labels: Sequence[str] | None = None) -> list[Row]:
    """Rows by their labels, in the order of the frame unless given; a value a column."""
    if labels is None:
        labels = list(dict.fromkeys(frame["label"]))
    made: list[list[Value]] = [[] for _ in labels]
    for column in columns:
        chosen = column.select(frame)[[name for name in (*NEEDED, column.metric) if name in frame]]
        by_label = dict(iter(chosen.groupby("label", sort=False))) if len(chosen) else {}
        for row, label in zip(made, labels, strict=True):
            cells = by_label.get(label, chosen.iloc[:0])
            known = column.reported(label)
            row.append(mean_std(cells, column.metric, notes, units=column.units, of=column.of, reported=known))
    rows = [Row(label, tuple(values)) for label, values in zip(labels, made, strict=True)]
    return mark_best(rows, {number: column.compare for number, column in enumerate(columns)})


def mark_best(rows: Sequence[Row], compared: Mapping[int, Any]) -> list[Row]:
    """Mark the best value of each column, or those that are level, by what is compared in it."""
    marked = [list(row.values) for row in rows]
    for number, compare in compared.items():
        found = [(i, v) for i, values in enumerate(marked) if isinstance(v := values[number], Value)]
        best, level = leaders([v for _, v in found], compare)
        for at, (i, v) in enumerate(found):
            if at == best or at in level:
                marked[i][number] = replace(v, best=at == best, level=at in level)
    return [Row(row.label, tuple(values)) for row, values in zip(rows, marked, strict=True)]


def leaders(values: Sequence[Value], compare: Any) -> tuple[int | None, list[int]]:
    """The position of the best value, or the positions of those that are level with the highest."""
    whole = [i for i, v in enumerate(values) if v.mean is not None and v.whole]
    if compare is None or len(whole) < 2 or len({(values[i].samples, values[i].seeds) for i in whole}) > 1:
        return None, []
    ranked = sorted(whole, key=lambda i: -(values[i].mean or 0.0))
    level = [ranked[0]]
    for i in ranked[1:]:
        interval = compare_cells(values[ranked[0]].cells, values[i].cells, compare)
        if interval is None:
            return None, []
        if interval[1] > 0:
            break
        level.append(i)
    return (ranked[0], []) if len(level) == 1 else (None, level)


def compare_cells(a: Any, b: Any, compare: Any = "accuracy") -> Interval | None:
    """A minus B on the same tasks and seeds, in points, with its 95 % interval; None where the samples are not the same."""
    domain = compare[1] if isinstance(compare, tuple) else None
    pairs = pair(a, b, domain)
    if not pairs:
        return None
    if compare == "worst_group":
        return worst_group_difference(pairs)
    return combined_difference(pairs, by_group=compare == "mean_of_groups")


def pair(a: Any, b: Any, domain: str | None = None) -> list[Pair]:
    """The cells of A and of B on the same task and seed, sample by sample; empty unless each has its partner."""
    ours, theirs = _by_task(a), _by_task(b)
    if ours.keys() != theirs.keys():
        return []
    try:
        return [pair_outcomes(cell, theirs[key], domain) for key, cell in ours.items()]
    except ValueError:
        return []


def _by_task(cells: Any) -> dict[tuple[str, int], Any]:
    return {(cell.task, cell.seed): cell for cell in (cells if isinstance(cells, tuple) else cells.itertuples())}
