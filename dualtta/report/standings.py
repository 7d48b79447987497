"""The order of the methods on each task, and which are level with the best (statistics.py)."""

from collections.abc import Sequence
from dataclasses import dataclass

from dualtta.report.comparisons import METRICS, Comparison, Entry, Spread
from dualtta.report.methods import Style
from dualtta.report.statistics import leaders
from dualtta.report.table import Value

RULE = (
    "A method is ahead where the paired 95 % interval of its difference to every other, over samples and seeds, lies above "
    "zero; methods that the interval does not separate from the best are level with it. With one seed, the variation over "
    "seeds is not in the interval."
)


@dataclass(frozen=True)
class Place:
    label: str
    method: str
    style: Style
    score: Spread
    level: bool  # with the best
    whole: bool  # on as many seeds and samples as the others; else it comes last and is not ranked
    collapsed: int  # seeds


@dataclass(frozen=True)
class Standing:
    """The methods on one task, best first."""

    title: str
    detail: str
    metric: str
    subset: bool
    ahead: bool  # the first is above all others
    places: tuple[Place, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> Place:
        return self.places[0]

    @property
    def level(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places[1:] if place.level)


def standings(comparisons: Sequence[Comparison]) -> list[Standing]:
    """For every comparison of at least two methods or settings."""
    made = []
    for comparison in comparisons:
        metric = comparison.metric
        scored = [(entry, score) for entry in comparison.entries if (score := entry.over_seeds(metric))]
        if len(scored) < 2:
            continue
        weights = {entry.label: (len(entry.runs), entry.samples) for entry, _ in scored}
        most = max(weights.values())
        scored.sort(key=lambda pair: (weights[pair[0].label] != most, -pair[1].mean, pair[0].label))
        values = [
            Value(score.mean, score.deviation, score.seeds, whole=weights[entry.label] == most, cells=entry.runs)
            for entry, score in scored
        ]
        best, level = leaders(values, metric)
        places = tuple(
            _place(entry, score, number in level or number == best, value.whole)
            for number, ((entry, score), value) in enumerate(zip(scored, values, strict=True))
        )
        notes = tuple(_notes(comparison.subset, places))
        made.append(Standing(comparison.title, comparison.detail, METRICS[metric], comparison.subset, best == 0, places, notes))
    return made


def _place(entry: Entry, score: Spread, level: bool, whole: bool) -> Place:
    collapsed = sum(run.collapsing > 0 for run in entry.runs)
    return Place(entry.label, entry.method, entry.style, score, level, whole, collapsed)


def _notes(subset: bool, places: tuple[Place, ...]) -> list[str]:
    seeds = {place.score.seeds for place in places}
    notes = ["a subset of the data"] if subset else []
    if seeds == {1}:
        notes.append("one seed: no deviation")
    fewer = [place.label for place in places if not place.whole]
    if fewer:
        notes.append(f"on fewer seeds or samples, so not ranked: {', '.join(fewer)}")
    collapsed = [place.label for place in places if place.collapsed]
    if collapsed:
        notes.append(f"collapse alarms: {', '.join(collapsed)}")
    return notes
