"""Who is best on what, and who is level with the best: said from the numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from dualtta.report.comparisons import METRICS, Comparison, Spread

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
        known = sorted(((e, s) for e, s in scored if s), key=lambda pair: (-pair[1].mean, pair[0].label))
        if len(known) < 2:
            continue
        best = known[0][1]
        places = tuple(
            Place(e.label, e.method, s, is_level(best, s), sum(bool(run.summary.get("collapsing")) for run in e.runs))
            for e, s in known
        )
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
    elif len(seeds) > 1:
        notes.append(f"not all have the same number of seeds ({', '.join(map(str, sorted(seeds)))})")
    collapsed = [place.label for place in places if place.collapsed]
    if collapsed:
        notes.append(f"collapse alarms: {', '.join(collapsed)}")
    return notes
