"""The page's first section: a card for each task, with all methods on one scale."""

from dualtta.report.markup import Html, tag
from dualtta.report.standings import RULE, Place, Standing


def show_summary(standings: list[Standing]) -> Html:
    if not standings:
        return tag("p", "No two methods were run on the same data, so there is nothing to rank.", class_="quiet")
    cards = [_card(standing) for standing in standings]
    rest = tag("div", cards[MANY:], class_="cards")
    more = tag("details", tag("summary", f"{len(cards) - MANY} more comparisons"), rest) if len(cards) > MANY else None
    said = tag("p", verdict(standings), class_="lead")
    return Html(said + tag("div", cards[:MANY], class_="cards") + (more or "") + tag("p", RULE, class_="quiet"))


MANY = 12  # cards on the first screen
FEW = 4  # methods that one sentence can name


def verdict(standings: list[Standing]) -> str:
    """How often each method has the highest mean, and on how many of these tasks it is ahead of all others."""
    won: dict[str, list[Standing]] = {}
    for standing in standings:
        won.setdefault(standing.best.label, []).append(standing)
    wins = {label: len(some) for label, some in won.items()}
    ranked = sorted(wins, key=lambda label: (-wins[label], label))
    parts = [f"{label} has the highest mean on {wins[label]} of {len(standings)}, {_ahead(won[label])}" for label in ranked]
    others = sum(wins[label] for label in ranked[FEW:])
    return f"{'; '.join(parts[:FEW])}{f'; others on {others}' if others else ''}."


def _ahead(won: list[Standing]) -> str:
    """How often it is ahead of all others by the paired interval."""
    ahead = sum(standing.ahead for standing in won)
    single = sum(standing.best.score.seeds == 1 for standing in won)
    known = f" ({single} by one seed)" if single else ""
    return (f"ahead of all others on {ahead}" if ahead else "never ahead of all others") + known


def _card(standing: Standing) -> Html:
    best = standing.best
    return tag(
        "article",
        tag("h3", standing.title),
        tag("p", standing.detail, class_="quiet"),
        tag(
            "p",
            tag("span", class_="swatch", style=f"--c:{best.style.color}"),
            tag("span", best.label, class_="who"),
            tag("span", f"{100 * best.score.mean:.1f}", class_="big"),
            tag("span", "" if best.score.deviation is None else f"± {100 * best.score.deviation:.1f}", class_="deviation"),
            class_="winner",
        ),
        tag("p", _against(standing), class_="verdict"),
        _ladder(standing),
        tag("p", "; ".join([f"{standing.metric}, %", *standing.notes]), class_="quiet small"),
        class_="card",
    )


def _against(standing: Standing) -> str:
    """The best against the next."""
    level, second = standing.level, standing.places[1]
    points = f"{100 * (standing.best.score.mean - second.score.mean):.1f}"
    if not second.whole:
        return "no other method was run on as many seeds and samples"
    if not level and not standing.ahead:
        return f"{points} points above {second.label}; not comparable sample by sample"
    if not level:
        return f"ahead of {second.label} by {points} points"
    if len(level) > 3:
        return f"level with {len(level)} others, {level[0].label} the nearest"
    return f"level with {_listed([place.label for place in level])}"


def _ladder(standing: Standing) -> Html:
    """All methods on one scale, a dot and its deviation each; a list for screen readers."""
    places = standing.places[:12]
    lows = [p.score.mean - (p.score.deviation or 0) for p in places]
    highs = [p.score.mean + (p.score.deviation or 0) for p in places]
    low, high = min(lows), max(highs)
    pad = max(0.04 * (high - low), 0.002)
    low, high = low - pad, high + pad
    steps = [_rung(place, low, high) for place in places]
    more = len(standing.places) - len(places)
    rest = tag("p", f"and {more} more below", class_="quiet small") if more else None
    return Html(tag("div", steps, class_="ladder", role="list") + (rest or ""))


def _rung(place: Place, low: float, high: float) -> Html:
    at = 100 * (place.score.mean - low) / (high - low)
    spread = 100 * (place.score.deviation or 0) / (high - low)
    track = tag(
        "span",
        tag("i", class_="whisker", style=f"left:{at - spread:.2f}%;width:{2 * spread:.2f}%"),
        tag("i", class_="dot", style=f"left:{at:.2f}%;--c:{place.style.color}"),
        class_="track",
        aria_hidden="true",
    )
    return tag(
        "div",
        tag("span", place.label, class_="name"),
        track,
        tag("span", place.score.text(), class_="number"),
        class_="rung level" if place.level else "rung",
        role="listitem",
    )


def _listed(names: list[str]) -> str:
    """
    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
