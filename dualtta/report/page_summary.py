"""The page's first section: a card for each task, with all methods on one scale, best first."""

from collections.abc import Sequence
from dataclasses import dataclass

from dualtta.report.comparisons import METRICS, Comparison, Entry
from dualtta.report.markup import Html, tag
from dualtta.report.statistics import mark_best
from dualtta.report.table import Row, Value

RULE = (
    "A method is ahead where the paired 95 % interval of its difference to every other, over samples and seeds, lies above "
    "zero; methods that the interval does not separate from the best are level with it. With one seed, the variation over "
    "seeds is not in the interval."
)
MANY = 12  # cards on the first screen, and methods on a card
FEW = 4  # methods that one sentence can name


@dataclass(frozen=True)
class Standing:
    """The methods on one task, best first; those on fewer seeds or samples than others are not `whole` and come last."""

    comparison: Comparison
    metric: str
    places: tuple[tuple[Entry, Value], ...]  # as shares, marked by statistics.py

    @property
    def ahead(self) -> bool:
        """Whether the first is above all others."""
        return self.places[0][1].best

    @property
    def level(self) -> list[str]:
        """The labels of those that are level with the first."""
        return [entry.label for entry, value in self.places[1:] if value.level]

    @property
    def notes(self) -> list[str]:
        notes = ["a subset of the data"] if self.comparison.subset else []
        notes += ["one seed: no deviation"] if {value.seeds for _, value in self.places} == {1} else []
        fewer = [entry.label for entry, value in self.places if not value.whole]
        collapsed = [entry.label for entry, _ in self.places if any(run.collapsing > 0 for run in entry.runs)]
        notes += [f"on fewer seeds or samples, so not ranked: {', '.join(fewer)}"] if fewer else []
        return [*notes, f"collapse alarms: {', '.join(collapsed)}"] if collapsed else notes


def standings(comparisons: Sequence[Comparison]) -> list[Standing]:
    """For every comparison of at least two methods or settings."""
    made = []
    for comparison in comparisons:
        metric = comparison.metric
        scored = [(entry, score) for entry in comparison.entries if (score := entry.over_seeds(metric))]
        if len(scored) < 2:
            continue
        most = max((len(entry.runs), entry.samples) for entry, _ in scored)
        places = [
            (entry, Value(s.mean, s.deviation, s.seeds, whole=(len(entry.runs), entry.samples) == most, cells=entry.runs))
            for entry, s in scored
        ]
        places.sort(key=lambda place: (not place[1].whole, -(place[1].mean or 0), place[0].label))
        marked = mark_best([Row(entry.label, (value,)) for entry, value in places], {0: metric})
        values = [value for row in marked for value in row.values if isinstance(value, Value)]
        made.append(Standing(comparison, metric, tuple((entry, v) for (entry, _), v in zip(places, values, strict=True))))
    return made


def show_summary(standings: list[Standing]) -> Html:
    if not standings:
        return tag("p", "No two methods were run on the same data, so there is nothing to rank.", class_="quiet")
    cards = [_card(standing) for standing in standings]
    rest = tag("div", cards[MANY:], class_="cards")
    more = tag("details", tag("summary", f"{len(cards) - MANY} more comparisons"), rest) if len(cards) > MANY else None
    said = tag("p", verdict(standings), class_="lead")
    return Html(said + tag("div", cards[:MANY], class_="cards") + (more or "") + tag("p", RULE, class_="quiet"))


def verdict(standings: list[Standing]) -> str:
    """How often each method has the highest mean, and on how many of these tasks it is ahead of all others."""
    won: dict[str, list[Standing]] = {}
    for standing in standings:
        won.setdefault(standing.places[0][0].label, []).append(standing)
    ranked = sorted(won.items(), key=lambda item: (-len(item[1]), item[0]))
    parts = [f"{label} has the highest mean on {len(some)} of {len(standings)}, {_ahead(some)}" for label, some in ranked]
    others = sum(len(some) for _, some in ranked[FEW:])
    return f"{'; '.join(parts[:FEW])}{f'; others on {others}' if others else ''}."


def _ahead(won: list[Standing]) -> str:
    """How often it is ahead of all others by the paired interval."""
    ahead = sum(standing.ahead for standing in won)
    single = sum(standing.places[0][1].seeds == 1 for standing in won)
    known = f" ({single} by one seed)" if single else ""
    return (f"ahead of all others on {ahead}" if ahead else "never ahead of all others") + known


def _card(standing: Standing) -> Html:
    best, score = standing.places[0]
    winner = [
        tag("span", class_="swatch", style=f"--c:{best.style.color}"),
        tag("span", best.label, class_="who"),
        tag("span", f"{100 * _mean(score):.1f}", class_="big"),
        tag("span", "" if score.deviation is None else f"± {100 * score.deviation:.1f}", class_="deviation"),
    ]
    return tag(
        "article",
        tag("h3", standing.comparison.title),
        tag("p", standing.comparison.detail, class_="quiet"),
        tag("p", winner, class_="winner"),
        tag("p", _against(standing), class_="verdict"),
        _ladder(standing),
        tag("p", "; ".join([f"{METRICS[standing.metric]}, %", *standing.notes]), class_="quiet small"),
        class_="card",
    )


def _against(standing: Standing) -> str:
    """The best against the next."""
    level, ((_, best), (second, score)) = standing.level, standing.places[:2]
    points = f"{100 * (_mean(best) - _mean(score)):.1f}"
    if not score.whole:
        return "no other method was run on as many seeds and samples"
    if not level and not standing.ahead:
        return f"{points} points above {second.label}; not comparable sample by sample"
    if not level:
        return f"ahead of {second.label} by {points} points"
    if len(level) > 3:
        return f"level with {len(level)} others, {level[0]} the nearest"
    return f"level with {' and '.join(filter(None, [', '.join(level[:-1]), level[-1]]))}"


def _ladder(standing: Standing) -> Html:
    """All methods on one scale, a dot and its deviation each; a list for screen readers."""
    places = standing.places[:MANY]
    low = min(_mean(value) - (value.deviation or 0) for _, value in places)
    high = max(_mean(value) + (value.deviation or 0) for _, value in places)
    pad = max(0.04 * (high - low), 0.002)
    steps = [_rung(entry, value, low - pad, high + pad) for entry, value in places]
    more = len(standing.places) - len(places)
    rest = tag("p", f"and {more} more below", class_="quiet small") if more else None
    return Html(tag("div", steps, class_="ladder", role="list") + (rest or ""))


def _rung(entry: Entry, value: Value, low: float, high: float) -> Html:
    at = 100 * (_mean(value) - low) / (high - low)
    spread = 100 * (value.deviation or 0) / (high - low)
    whisker = tag("i", class_="whisker", style=f"left:{at - spread:.2f}%;width:{2 * spread:.2f}%")
    dot = tag("i", class_="dot", style=f"left:{at:.2f}%;--c:{entry.style.color}")
    text = f"{100 * _mean(value):.1f}" + ("" if value.deviation is None else f" ± {100 * value.deviation:.1f}")
    return tag(
        "div",
        tag("span", entry.label, class_="name"),
        tag("span", whisker, dot, class_="track", aria_hidden="true"),
        tag("span", text, class_="number"),
        class_="rung level" if value.level or value.best else "rung",
        role="listitem",
    )


def _mean(value: Value) -> float:
    assert value.mean is not None
    return value.mean
