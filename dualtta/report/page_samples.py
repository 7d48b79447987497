"""The page's samples: the plane of the two drops with exact counts, and typical samples as images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualtta.report.comparisons import Comparison
from dualtta.report.markup import Html, plain, tag
from dualtta.report.outcomes import SETS
from dualtta.report.thumbnails import VIEWS, Gallery, Thumbnail

ALL_POINTS = 40_000  # on the page, over all runs: a phone can load so many
SEED = 1


def plane(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """For the page's script: every run whose two drops are known. Points may be a sample; the tally never is."""
    runs = [(c, entry, run) for c in comparisons for entry in c.entries for run in entry.runs if run.reduced.points]
    most = max(50, ALL_POINTS // max(len(runs), 1))
    return [_plane(f"{c.title}, {entry.label}, seed {run.seed}", run, most) for c, entry, run in runs]


def _plane(title: str, run: Any, most: int) -> dict[str, Any]:
    points = run.reduced.points
    columns = points.columns
    size = len(columns["set"])
    chosen = np.arange(size)
    if size > most:
        chosen = np.sort(np.random.default_rng(SEED).choice(size, most, replace=False))
    method = run.hyperparameters
    return {
        "title": title,
        "total": points.total,
        "unknown": run.samples - points.total,
        "domains": list(run.domains),
        "labels": [plain(name) for name in run.classes],
        "drop": str(method.get("drop", "absolute")),
        "tau": [method.get("tau_sa"), method.get("tau_sp")],
        "tally": run.reduced.tally.tolist(),
        "x": columns["drop_alter"][chosen].astype(np.float64).round(3).tolist(),
        "y": columns["drop_preserve"][chosen].astype(np.float64).round(3).tolist(),
        "c": columns["confidence"][chosen].astype(np.float64).round(3).tolist(),
        **{key: columns[name][chosen].tolist() for key, name in KEYS.items()},
    }


KEYS = {"i": "index", "l": "label", "p": "prediction", "d": "domain", "s": "set"}


def show_plane(runs: list[dict[str, Any]]) -> Html:
    if not runs:
        return tag("p", "No run here has both drops: the plane needs a method with two views, such as dualtta.", class_="quiet")
    controls = tag(
        "div",
        _choice("Run", "plane-run", [(str(i), run["title"]) for i, run in enumerate(runs)]),
        _choice("Domain", "plane-domain", [("", "all")]),
        _choice("Prediction", "plane-right", [("", "right and wrong"), ("1", "right"), ("0", "wrong")]),
        _choice("Set", "plane-set", [("", "all"), *((str(i), name) for i, name in enumerate(SETS))]),
        class_="controls",
    )
    counts = tag(
        "div", tag("table", class_="counts", id="plane-counts"), class_="scroll", tabindex=0, role="region", aria_label="Counts"
    )
    points = tag("p", "", id="plane-said", class_="quiet", aria_live="polite")
    return Html(controls + points + tag("div", "", id="plane", class_="figure") + counts)


def _choice(name: str, id: str, options: Sequence[tuple[str, str]]) -> Html:
    made = [tag("option", text, value=value) for value, text in options]
    return tag("label", f"{name} ", tag("select", made, id=id))


def show_galleries(galleries: list[Gallery], notes: list[str]) -> Html:
    views = [tag("li", tag("b", name), ": ", what) for name, what in VIEWS.items()] if galleries else []
    missing = tag("ul", [tag("li", f"No images of {note}") for note in notes], class_="notes") if notes else None
    if not galleries and not notes:
        missing = tag("p", "No run here has samples in D+ or D- whose two drops are known.", class_="quiet")
    return Html("".join(map(_gallery, galleries)) + (tag("ul", views, class_="notes") if views else "") + (missing or ""))


def _gallery(gallery: Gallery) -> Html:
    parts = []
    for name, thumbnails in gallery.sets.items():
        meaning = "likely correct: falls and holds" if name == "D+" else "likely incorrect: stays and breaks"
        what = tag("h4", tag("b", name), f" {meaning}")
        shown = [_figure(thumbnail) for thumbnail in thumbnails] or tag("p", "No sample is in this set.", class_="quiet")
        parts.append(tag("div", what, tag("div", shown, class_="samples"), class_="set"))
    about = "The samples nearest to the median drops of their set"
    return tag("section", tag("h3", gallery.title), tag("p", f"{about}; run {gallery.run[:8]}.", class_="quiet"), parts)


def _figure(thumbnail: Thumbnail) -> Html:
    images = [
        tag(
            "span",
            tag("img", src=url, alt=f"{name}: {thumbnail.label}"),
            tag("small", name),
        )
        for name, url in thumbnail.images.items()
    ]
    verdict = "right" if thumbnail.right else f"wrong, it is {thumbnail.label}"
    alter, preserve = (round(drop, 2) + 0.0 for drop in (thumbnail.drop_alter, thumbnail.drop_preserve))  # no minus zero
    drops = f"confidence {thumbnail.confidence:.2f}, Diff_sa {alter:.2f}, Diff_sp {preserve:.2f}"
    return tag(
        "figure",
        tag("div", images, class_="views"),
        tag(
            "figcaption",
            tag("b", thumbnail.prediction),
            tag("span", verdict, class_="right" if thumbnail.right else "wrong"),
            tag("small", f"{thumbnail.domain}; {drops}"),
        ),
    )
