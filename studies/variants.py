"""Tables of variants on the same cells: accuracy at the start and end of the stream, what they select, how often they collapse.

For each dataset, model and scenario: accuracy over the stream and over its first and last pass (eighth, where it has one pass;
with groups: their mean), the difference to no adaptation with its paired 95 % interval, the shares of D+ and D- with their
accuracy, and the number of cells in which predictions collapsed. Means are over the cells that every variant of the table has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualtta.records.caveats import passes
from dualtta.records.metrics import Column
from dualtta.records.reading import Record
from dualtta.report.labels import label
from dualtta.report.matching import pair_up, task_of
from dualtta.report.paired import difference

HEADER = ("accuracy", "at first", "at last", "to no adaptation", "D+", "D+ right", "D-", "D- right", "collapsed")
EIGHTHS = 8  # parts of a stream of one pass


@dataclass(frozen=True)
class Line:
    """One variant over the cells of its table; shares, except for the difference, which is in points."""

    label: str
    accuracy: float
    first: float
    last: float
    difference: tuple[float, float, float] | None
    plus: float
    plus_right: float | None
    minus: float
    minus_right: float | None
    collapsed: int

    def texts(self) -> list[str]:
        def percent(value: float | None) -> str:
            return "" if value is None else f"{100 * value:.1f}"

        found = "" if self.difference is None else "{:+.1f} ({:+.1f} to {:+.1f})".format(*self.difference)
        shares = [percent(value) for value in (self.plus, self.plus_right, self.minus, self.minus_right)]
        return [percent(self.accuracy), percent(self.first), percent(self.last), found, *shares, str(self.collapsed or "")]


@dataclass(frozen=True)
class Study:
    """The variants of one table."""

    title: str
    cells: int
    lines: tuple[Line, ...]


def studies(frame: Any) -> list[Study]:
    """A table for each dataset, model and scenario of a report's frame."""
    benches: dict[str, dict[str, dict[str, Record]]] = {}  # title -> variant -> cell -> record
    order: dict[str, tuple[Any, ...]] = {}  # methods as in every table, their variants by name
    for cell in frame.itertuples():
        variant = label(cell)
        order[variant] = (cell.about.order, variant)
        benches.setdefault(bench_title(cell), {}).setdefault(variant, {})[task_of(cell.record)] = cell.record
    return [_study(title, variants, order) for title, variants in benches.items()]


def bench_title(cell: Any) -> str:
    """The benchmark of a row of the frame, the title of its table."""
    seed = (cell.source or {}).get("seed", 0)
    source = [f"source model of seed {seed}"] if seed else []
    subset = ["a subset"] if cell.subset else []
    size = f"batches of {cell.stream.get('batch_size', '?')}"
    return ", ".join([cell.dataset, cell.model, cell.scenario, size, *source, *passes(cell.record), *subset])


def _study(title: str, variants: dict[str, dict[str, Record]], order: dict[str, tuple[Any, ...]]) -> Study:
    shared = sorted(set.intersection(*(set(places) for places in variants.values())))
    if not shared:
        return Study(title, 0, ())
    floor = next((places for places in variants.values() if _method(places[shared[0]]) == "source"), None)
    ranked = sorted(variants, key=lambda variant: order[variant])
    return Study(title, len(shared), tuple(_line(variant, variants[variant], shared, floor) for variant in ranked))


def _line(variant: str, places: dict[str, Record], shared: Sequence[str], floor: dict[str, Record] | None) -> Line:
    some = [places[place] for place in shared]
    ends = [_ends(record) for record in some]
    pairs = [pair_up(places[place], floor[place]) for place in shared] if floor and floor is not places else []
    (plus, plus_right), (minus, minus_right) = _chosen(some, "plus"), _chosen(some, "minus")
    return Line(
        label=variant,
        accuracy=float(np.mean([_accuracy(record.rows()) for record in some])),
        first=float(np.mean([first for first, _ in ends])),
        last=float(np.mean([last for _, last in ends])),
        difference=difference(pairs) if pairs else None,
        plus=plus,
        plus_right=plus_right,
        minus=minus,
        minus_right=minus_right,
        collapsed=sum(record.summary["collapsing"] > 0 for record in some),
    )


def _method(record: Record) -> str:
    return str(record.cell["cell"]["method"]["name"])


def _accuracy(rows: dict[str, Column], part: slice = slice(None)) -> float:
    """Accuracy over a part of the stream; the mean over groups where there are groups."""
    right, group = (rows["prediction"] == rows["label"])[part], rows["group"][part]
    return float(np.mean([right[group == one].mean() for one in np.unique(group)]))


def _ends(record: Record) -> tuple[float, float]:
    """Accuracy in the first and in the last pass of the stream, or of its eighths."""
    rows, repeats = record.rows(), int(record.cell["cell"]["scenario"].get("repeats", 1))
    size = max(1, len(rows["label"]) // (repeats if repeats > 1 else EIGHTHS))
    return _accuracy(rows, slice(size)), _accuracy(rows, slice(-size, None))


def _chosen(some: Sequence[Record], name: str) -> tuple[float, float | None]:
    """The mean share of D+ or D-, and the accuracy of all samples in it."""
    shares = [(record.summary[name]["share"], record.summary["samples"], record.summary[name]["correct"]) for record in some]
    counts = np.array([share * samples for share, samples, _ in shares])
    right = [0.0 if correct is None else correct for _, _, correct in shares]
    return float(np.mean([share for share, _, _ in shares])), float(counts @ right / counts.sum()) if counts.sum() else None


def to_markdown(found: Sequence[Study]) -> str:
    """All tables as Markdown."""
    parts = []
    for study in found:
        if not study.lines:
            parts.append(f"**{study.title}**: the variants have no cell in common")
            continue
        cells = f"{study.cells} cell{'s' if study.cells > 1 else ''}"
        parts.append(f"**{study.title}**: {cells}; in %, the difference in points\n")
        parts.append("| variant | " + " | ".join(HEADER) + " |\n|" + " --- |" * (len(HEADER) + 1))
        parts[-1] += "".join(f"\n| {line.label} | " + " | ".join(line.texts()) + " |" for line in study.lines) + "\n"
    return "\n".join(parts)
