"""From settings to values: means over cells, mean and deviation over seeds, marks for all that has to be said."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dualtta.paper.reported import Reported
from dualtta.report.context import remarks
from dualtta.report.gather import Metric, Setting
from dualtta.report.table import Row, Value

PERCENT = 100.0
MISSING = "–"  # noqa: RUF001
MISSING_NOTE = "not measured: there is no record"
EMPTY = "there are records, but no sample to count"
NAMED = 8  # rows in one note
APART = "have no seed in common"


class Notes:
    """The notes of a table: each text once, under a letter in the order of their appearance."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def mark(self, text: str) -> str:
        """
        >>> notes = Notes()
        >>> notes.mark("a subset"), notes.mark("other weights"), notes.mark("a subset")
        ('a', 'b', 'a')
        """
        return self.texts.setdefault(text, letters(len(self.texts)))

    def marks(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.mark(text) for text in texts))

    def below(self, rows: Iterable[Row], *more: str) -> dict[str, str]:
        """All notes by their marks; unmarked ones come last, and the dash is explained where it occurs."""
        rows = list(rows)
        explained = {self.texts[text] for text in self.texts if text == EMPTY or text.endswith(APART)}
        values = [v for row in rows for v in row.values if isinstance(v, Value) and v.mean is None]
        dash = {MISSING: MISSING_NOTE} if any(not explained & set(v.marks) for v in values) else {}
        plain = {f"({i})": text for i, text in enumerate([*more, *fewer_seeds(rows)], 1)}
        return {mark: text for text, mark in self.texts.items()} | dash | plain


def fewer_seeds(rows: Sequence[Row]) -> list[str]:
    """Which rows are means over fewer seeds than others, in one of their values at least.

    >>> fewer_seeds([Row("Tent", (Value(1.0, seeds=2),)), Row("DeYO", (Value(1.0, seeds=3),))])
    ['on fewer seeds than 3: Tent (2)']
    """
    labels = [row.label for row in rows]
    seeds = [[v.seeds for v in row.values if isinstance(v, Value) and v.seeds] for row in rows]
    most = max((n for each in seeds for n in each), default=0)
    fewer = []
    for row, each in zip(rows, seeds, strict=True):
        if each and min(each) < most:
            words = [v for v in row.values if isinstance(v, str)] if labels.count(row.label) > 1 else []
            fewer.append(f"{' '.join([row.label, *words])} ({min(each)})")
    named = fewer if len(fewer) <= NAMED else [*fewer[:NAMED], f"and {len(fewer) - NAMED} more rows"]
    return [f"on fewer seeds than {most}: {', '.join(named)}"] if fewer else []


def letters(number: int) -> str:
    """
    >>> letters(0), letters(25), letters(26)
    ('a', 'z', 'aa')
    """
    return (letters(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def over_seeds(each: Mapping[int, float]) -> tuple[float, float | None]:
    """Mean and sample deviation; no deviation with one seed.

    >>> over_seeds({2024: 1.0, 2025: 3.0})
    (2.0, 1.4142135623730951)
    >>> over_seeds({2024: 1.0})
    (1.0, None)
    """
    values = list(each.values())
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def value(
    settings: Sequence[Setting],
    metric: Metric,
    notes: Notes,
    *,
    cells: int = 1,
    of: str = "cells",
    scale: float = PERCENT,
    reported: Reported | None = None,
) -> Value:
    """The mean over a row's cells in one column, seed by seed; `cells` is how many it takes, `of` what they are called.

    A mean of fewer cells, or of seeds that not all cells have, is marked; one of fewer cells is compared with nothing.
    """
    said = [text for setting in settings for text in remarks(setting)]
    from_paper = notes.marks(reported.notes) if reported else ()
    told = None if reported is None else reported.value
    per_cell = [{seed: number * scale for seed, number in setting.each(metric).items()} for setting in settings]
    shared = set(per_cell[0]).intersection(*per_cell[1:]) if per_cell else set()
    assert len(settings) <= cells, "settings that differ in what nobody chose were to be told apart by their labels"
    if not shared:
        why = [EMPTY if not all(per_cell) else f"the {of} {APART}"] if settings else []
        return Value(reported=told, marks=(*notes.marks(why), *from_paper))
    if len(settings) == 1 and len(shared) < len(settings[0].seeds):
        said.append(f"seeds {', '.join(map(str, sorted(shared)))} alone: the others have no sample to count here")
    if any(set(each) != shared for each in per_cell):
        said.append(f"seeds {', '.join(map(str, sorted(shared)))} alone: the others lack some of the {of}")
    whole = len(settings) == cells
    if not whole:
        said.append(f"the mean of {len(settings)} of {cells} {of}; the others have no record")
    mean, deviation = over_seeds({seed: float(np.mean([each[seed] for each in per_cell])) for seed in sorted(shared)})
    return Value(
        mean,
        deviation,
        seeds=len(shared),
        samples=sum(setting.samples for setting in settings),
        reported=told,
        marks=tuple(dict.fromkeys((*notes.marks(said), *from_paper))),
        whole=whole,
    )


def flag_best(rows: Sequence[Row], columns: Iterable[int]) -> tuple[Row, ...]:
    """The highest value of each column, where at least two are whole, and all of these on as many samples and seeds."""
    flagged = [list(row.values) for row in rows]
    for column in columns:
        found = [(i, v) for i, values in enumerate(flagged) if isinstance(v := values[column], Value) and v.mean is not None]
        fit = [(i, v) for i, v in found if v.whole]
        if len(fit) < 2 or len({(v.samples, v.seeds) for _, v in fit}) > 1:
            continue
        top = max(v.mean for _, v in fit if v.mean is not None)
        for i, v in fit:
            if v.mean == top:
                flagged[i][column] = replace(v, best=True)
    return tuple(Row(row.label, tuple(values)) for row, values in zip(rows, flagged, strict=True))
