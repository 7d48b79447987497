"""Who is best on what, and who is level with the best: said from the numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from dualtta.report.comparisons import METRICS, Comparison, Entry, Spread

RULE = (
    "Level with the best is whoever's mean is no further from it than the larger deviation of the two. With one seed there is "
    "no deviation: the order is what was measured, not more."
)


@dataclass(frozen=True)
class Place:
    label: str
    method: str
    score: Spread
    level: bool  # with the best, within the deviation
    whole: bool  # on as many seeds and samples as any other; else it is shown last and is never the best
    collapsed: int  # seeds


@dataclass(frozen=True)
class Standing:
    """The methods on one comparison, best first."""

    title: str
    detail: str
    metric: str
    subset: bool
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
        scored = [(entry, entry.over_seeds(comparison.metric)) for entry in comparison.entries]
        weights = {entry.label: (len(entry.runs), sum(run.summary["samples"] for run in entry.runs)) for entry, _ in scored}
        most = max(weights.values())
        known = sorted(((e, s) for e, s in scored if s), key=lambda p: (weights[p[0].label] != most, -p[1].mean, p[0].label))
        if len(known) < 2:
            continue
        best = known[0][1]
        places = tuple(_place(e, s, best, whole=weights[e.label] == most) for e, s in known)
        made.append(
            Standing(
                comparison.title,
                comparison.detail,
                METRICS[comparison.metric],
                comparison.subset,
                places,
                tuple(_notes(comparison.subset, places)),
            )
        )
    return made


def _place(entry: Entry, score: Spread, best: Spread, whole: bool) -> Place:
    collapsed = sum(bool(run.summary.get("collapsing")) for run in entry.runs)
    return Place(entry.label, entry.method, score, whole and is_level(best, score), whole, collapsed)


def is_level(best: Spread, other: Spread) -> bool:
    """
    >>> is_level(Spread(0.68, 0.02, 3), Spread(0.67, 0.005, 3)), is_level(Spread(0.68, None, 1), Spread(0.67, None, 1))
    (True, False)
    """
    return best.mean - other.mean <= max(best.deviation or 0.0, other.deviation or 0.0)


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
