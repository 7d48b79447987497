"""The page's first screen: the best on each benchmark as a card with a ladder of all methods."""

from dualtta.report.figures.look import ink
from dualtta.report.markup import Html, tag
from dualtta.report.winners import RULE, Place, Standing


def show_summary(standings: list[Standing]) -> Html:
    if not standings:
        return tag("p", "No two methods were run on the same data, so there is nothing to rank.", class_="quiet")
    return Html(tag("div", [_card(standing) for standing in standings], class_="cards") + tag("p", RULE, class_="quiet"))


def _card(standing: Standing) -> Html:
    best, level = standing.best, standing.level
    verdict = f"level with {_listed([place.label for place in level])}" if level else f"ahead of {_listed([standing.places[1].label])}"
    if level and len(level) > 3:
        verdict = f"level with {len(level)} others, {level[0].label} the nearest"
    if not level:
        ahead = 100 * (best.score.mean - standing.places[1].score.mean)
        verdict += f" by {ahead:.1f} points"
    return tag(
        "article",
        tag("h3", standing.title),
        tag("p", standing.detail, class_="quiet"),
        tag(
            "p",
            tag("span", class_="swatch", style=f"--c:{ink(best.method).color}"),
            tag("span", best.label, class_="who"),
            tag("span", f"{100 * best.score.mean:.1f}", class_="big"),
            tag("span", "" if best.score.deviation is None else f"± {100 * best.score.deviation:.1f}", class_="deviation"),
            class_="winner",
        ),
        tag("p", verdict, class_="verdict"),
        _ladder(standing),
        tag("p", "; ".join([f"{standing.metric}, %", *standing.notes]), class_="quiet small"),
        class_="card",
    )


def _ladder(standing: Standing) -> Html:
    """All methods on one scale, a dot and its deviation each; read as a table by those who cannot see it."""
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
        tag("i", class_="dot", style=f"left:{at:.2f}%;--c:{ink(place.method).color}"),
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
