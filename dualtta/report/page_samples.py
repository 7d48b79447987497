"""The page's samples: the plane of the two drops with exact counts, and typical samples as images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualtta.report.comparisons import Comparison
from dualtta.report.markup import Html, plain, tag
from dualtta.report.outcomes import SETS
from dualtta.report.thumbnails import VIEWS, Gallery

ALL_POINTS = 40_000  # on the page, over all runs: a phone can load so many
SEED = 1


def plane(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """For the page's script: every run whose two drops are known. Points may be a sample; the tally never is."""
    runs = [(c, entry, run) for c in comparisons for entry in c.entries for run in entry.runs if run.reduced.points]
    most = max(50, ALL_POINTS // max(len(runs), 1))
    return [_plane(f"{c.title}, {entry.label}, seed {run.seed}", run, most) for c, entry, run in runs]


def _plane(title: str, run: Any, most: int) -> dict[str, Any]:
    points, method = run.reduced.points, run.hyperparameters
    size = len(points.columns["set"])
    chosen = np.sort(np.random.default_rng(SEED).choice(size, most, replace=False)) if size > most else np.arange(size)
    columns = {name: column[chosen] for name, column in points.columns.items()}
    return {
        "title": title,
        "total": points.total,
        "unknown": run.samples - points.total,
        "domains": list(run.domains),
        "labels": [plain(name) for name in run.classes],
        "drop": str(method.get("drop", "absolute")),
        "tau": [method.get("tau_sa"), method.get("tau_sp")],
        "tally": run.reduced.tally.tolist(),
        **{key: columns[name].astype(np.float64).round(3).tolist() for key, name in NUMBERS.items()},
        **{key: columns[name].tolist() for key, name in KEYS.items()},
    }


NUMBERS = {"x": "drop_alter", "y": "drop_preserve", "c": "confidence"}
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
    table = tag("table", class_="counts", id="plane-counts")
    counts = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Counts")
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
    for name, views in gallery.views.items():
        meaning = "likely correct: falls and holds" if name == "D+" else "likely incorrect: stays and breaks"
        columns = gallery.run.reduced.typical[name]
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        shown = [_figure(gallery.run, row, each) for row, each in zip(rows, views, strict=True)]
        samples = tag("div", shown or tag("p", "No sample is in this set.", class_="quiet"), class_="samples")
        parts.append(tag("div", tag("h4", tag("b", name), f" {meaning}"), samples, class_="set"))
    about = f"The samples nearest to the median drops of their set; run {gallery.run.run[:8]}."
    return tag("section", tag("h3", gallery.title), tag("p", about, class_="quiet"), parts)


def _figure(run: Any, row: dict[str, Any], views: dict[str, str]) -> Html:
    label, right = run.classes[row["label"]], row["label"] == row["prediction"]
    images = [tag("span", tag("img", src=url, alt=f"{name}: {label}"), tag("small", name)) for name, url in views.items()]
    verdict = tag("span", "right" if right else f"wrong, it is {label}", class_="right" if right else "wrong")
    alter, preserve = (round(float(row[name]), 2) + 0.0 for name in ("drop_alter", "drop_preserve"))  # no minus zero
    about = f"{run.domains[row['domain']]}; confidence {row['confidence']:.2f}, Diff_sa {alter:.2f}, Diff_sp {preserve:.2f}"
    caption = tag("figcaption", tag("b", run.classes[row["prediction"]]), verdict, tag("small", about))
    return tag("figure", tag("div", images, class_="views"), caption)
