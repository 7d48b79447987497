"""The frame as figures and the page use it: a comparison is a task, an entry is one of its rows over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualtta.data.published import CORRUPTIONS
from dualtta.records.metrics import Column
from dualtta.report.methods import About, Style
from dualtta.report.statistics import over_seeds

METRICS = {"accuracy": "accuracy", "mean_of_groups": "mean accuracy of the groups"}


@dataclass(frozen=True)
class Spread:
    """Mean and deviation of a number over seeds; with one seed there is no deviation."""

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """
        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, deviation=1.4142135623730951, seeds=2)
        """
        return cls(*over_seeds(values), len(values))

    def text(self, scale: float = 100, digits: int = 1) -> str:
        """
        >>> Spread(0.5, 0.01, 3).text()
        '50.0 ± 1.0'
        """
        tail = "" if self.deviation is None else f" ± {scale * self.deviation:.{digits}f}"
        return f"{scale * self.mean:.{digits}f}{tail}"


@dataclass(frozen=True)
class Entry:
    """A row of a task over seeds; `runs` are its rows of the frame. Settings are in the label where the method has several."""

    label: str
    method: str
    about: About
    runs: tuple[Any, ...]

    @property
    def style(self) -> Style:
        return self.about.style

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = self.runs[0].settings
        return found

    def over_seeds(self, metric: str) -> Spread | None:
        """None where a seed has no such number."""
        values = self.each(metric)
        return None if np.isnan(values).any() else Spread.of(values)

    def each(self, metric: str) -> list[float]:
        """By seed; NaN where there is no such number."""
        return [float("nan") if (value := getattr(run, metric)) is None else float(value) for run in self.runs]

    @property
    def samples(self) -> int:
        """Over all seeds."""
        return sum(int(run.samples) for run in self.runs)

    def pooled(self, name: str) -> Column:
        """The sum of an array of `Outcomes` over seeds."""
        total: Column = np.sum([getattr(run.reduced, name) for run in self.runs], axis=0)
        return total


@dataclass(frozen=True)
class Comparison:
    """One task with all that was run on it."""

    title: str
    detail: str
    dataset: str
    model: str
    scenario: str
    unit: str  # the corruption or pair of domains; empty where it is all of the dataset
    subset: bool
    entries: tuple[Entry, ...]

    @property
    def runs(self) -> list[Any]:
        return [run for entry in self.entries for run in entry.runs]

    @property
    def metric(self) -> str:
        """The mean over groups where there are groups, else accuracy over samples."""
        grouped = not any(np.isnan(entry.each("mean_of_groups")).any() for entry in self.entries)
        return "mean_of_groups" if grouped else "accuracy"

    @property
    def domains(self) -> list[str]:
        """The domains of the streams, in the dataset's order."""
        return list(dict.fromkeys(name for run in self.runs for name in run.domains if name in run.domain_accuracy))


def comparisons(frame: Any) -> list[Comparison]:
    """A comparison a task, by dataset; corruptions in their published order."""
    made = [_comparison(cells) for _, cells in frame.groupby("task", sort=False)]
    return sorted((_unique_title(one, made) for one in made), key=_order)


def _order(one: Comparison) -> tuple[str, int, str, str]:
    known = CORRUPTIONS.index(one.unit) if one.unit in CORRUPTIONS else len(CORRUPTIONS)
    return one.dataset, known, one.title, one.detail


def _comparison(cells: Any) -> Comparison:
    entries = []
    for label, some in cells.groupby("label", sort=False):
        runs = tuple(some.itertuples())
        single = cells["label"][cells["method"] == runs[0].method].nunique() == 1
        entries.append(Entry(runs[0].about.title if single else label, runs[0].method, runs[0].about, runs))
    first, subset = entries[0].runs[0], bool(cells["subset"].any())
    low, high = int(cells["samples"].min()), int(cells["samples"].max())
    size = f"{low:,}{f' to {high:,}' if high > low else ''} samples{', a subset' if subset else ''}"
    batch, unit = first.stream.get("batch_size"), first.unit
    return Comparison(
        title=f"{first.dataset}: {unit}" if unit else first.dataset,
        detail=", ".join([first.model, first.scenario, *([f"batches of {batch}"] if batch else []), size]),
        dataset=first.dataset,
        model=first.model,
        scenario=first.scenario,
        unit=unit,
        subset=subset,
        entries=tuple(entries),
    )


def _unique_title(comparison: Comparison, others: list[Comparison]) -> Comparison:
    """Comparisons of one title carry their details in it, or the key of their first run where those agree too."""
    same = [other for other in others if other.title == comparison.title]
    if len(same) == 1:
        return comparison
    detail = f"{comparison.model}, {comparison.scenario}"
    if sum((other.model, other.scenario) == (comparison.model, comparison.scenario) for other in same) > 1:
        detail += f", {comparison.runs[0].run[:6]}"
    return replace(comparison, title=f"{comparison.title} ({detail})")
