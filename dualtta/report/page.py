"""The page: one HTML file that needs no network. All text from records is escaped."""

import base64
import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from dualtta import __version__
from dualtta.report.comparisons import Comparison
from dualtta.report.figures import Kind
from dualtta.report.markup import Html, data, inner, plain, tag
from dualtta.report.page_runs import about_runs, show_runs
from dualtta.report.page_samples import plane, show_galleries, show_plane
from dualtta.report.page_summary import show_summary, standings
from dualtta.report.page_tables import show_table
from dualtta.report.table import Table
from dualtta.report.thumbnails import Gallery


@dataclass(frozen=True)
class Contents:
    """All that the page shows."""

    title: str
    comparisons: Sequence[Comparison]
    kinds: Sequence[Kind]  # of figures
    tables: Sequence[Table]
    galleries: Sequence[Gallery] = ()
    missing: Sequence[str] = ()  # why there are no images of a comparison
    notes: Sequence[str] = ()  # on the records as a whole
    left_out: int = 0  # of the notes, those on records that could not be used


def page(contents: Contents) -> str:
    points = plane(contents.comparisons)
    sections = {
        "Summary": show_summary(standings(contents.comparisons)),
        "Tables": inner([show_table(table, number) for number, table in enumerate(contents.tables)]),
        "Figures": inner([_kind(kind, number) for number, kind in enumerate(contents.kinds)]),
        "Samples": show_plane(points),
        "Examples": show_galleries(list(contents.galleries), list(contents.missing)),
        "Runs": show_runs(contents.comparisons),
        "Notes": tag("ul", [tag("li", note) for note in contents.notes], class_="notes"),
    }
    if not contents.comparisons:
        sections = {"Notes": sections["Notes"]}
    shown = {name: body for name, body in sections.items() if body and (name != "Notes" or contents.notes)}
    figures = [
        {"panels": [{"detail": panel.detail, "plot": kind.plot(plainly(panel))} for panel in kind.panels]}
        for kind in contents.kinds
    ]
    embedded = {"figures": figures, "plane": points, "runs": about_runs(contents.comparisons)}
    early, script, plotly = _asset("early.js"), _asset("page.js"), plotly_js()
    return Template(_asset("page.html")).substitute(
        policy=policy(early, plotly, script),
        version=inner(__version__),
        title=inner(f"{contents.title}: dualtta report"),
        style=_asset("page.css"),
        early=early,
        nav=inner([tag("a", name, href=f"#{name.lower()}") for name in shown]),
        body=_hero(contents) + "".join(_section(name, body) for name, body in shown.items()),
        data=data(embedded),
        plotly=plotly,
        script=script,
    )


LEADS = {
    "Tables": "A dot marks the best of a column; underlined values are level. A value that a publication reports is below the "
    "measured one, with the difference. Choose a heading to sort.",
    "Figures": "Point at a mark for its numbers; click a name in a legend to hide it, double-click to show it alone.",
    "Samples": "Each sample by how far its prediction drops when the image is altered (right) and when it is restyled (up).",
    "Examples": "What the two sets look like.",
    "Runs": "Every number above comes from these runs. * marks a subset of the data.",
    "Notes": "On these records as a whole.",
}


def _section(name: str, body: Html) -> Html:
    return tag(
        "section", tag("h2", name), tag("p", LEADS[name], class_="quiet") if name in LEADS else None, body, id=name.lower()
    )


def _hero(contents: Contents) -> Html:
    runs = [run for comparison in contents.comparisons for run in comparison.runs]
    days = sorted(str(run.finished)[:10] for run in runs if run.finished)
    when = f"Recorded on {days[0]}." if days else ""
    if days and days[0] != days[-1]:
        when = f"Recorded from {days[0]} to {days[-1]}."
    counts = {f"{key}s": len({getattr(run, key) for run in runs}) for key in ("method", "dataset", "seed")}
    facts = {"runs": len(runs), **counts, "predictions": sum(run.samples for run in runs)}
    count = contents.left_out
    used = f"{count} record{'s were' if count != 1 else ' was'} left out or changed: "
    return tag(
        "section",
        tag("p", "dualtta report", class_="eyebrow"),
        tag("h1", contents.title),
        tag("p", when if runs else "There is no finished run here, so there is nothing to show.", class_="lead"),
        tag("dl", [tag("div", tag("dt", k), tag("dd", f"{v:,}")) for k, v in facts.items()], class_="facts") if runs else None,
        tag("div", tag("p", used, tag("a", "see the notes", href="#notes"), "."), class_="alert") if count else None,
        class_="hero",
    )


def _kind(kind: Kind, number: int) -> Html:
    options = [tag("option", panel.title) for panel in kind.panels]
    one = tag("b", kind.panels[0].title)
    choice = tag("label", "Shown ", tag("select", options, id=f"panel-{number}")) if len(options) > 1 else one
    return tag(
        "section",
        tag("h3", kind.title),
        tag("p", kind.caption),
        tag("div", choice, tag("span", "", id=f"detail-{number}"), class_="controls"),
        tag("div", "", id=f"figure-{number}", class_="figure", role="group", aria_label=f"{kind.title}: {kind.caption}"),
        class_="kind",
    )


def plainly(value: Any, change: Callable[[str], str] = plain) -> Any:
    """A panel with every text in it escaped for plotly, which reads tags in labels."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(plainly(item, change) for item in value)
    if isinstance(value, dict):
        return {plainly(key, change): plainly(item, change) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plainly(getattr(value, field.name), change) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


def policy(*scripts: str) -> str:
    """A content security policy: these scripts, by their hashes, and nothing from the network."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def plotly_js() -> str:
    """Plotly's bundle."""
    spec = find_spec("plotly")  # not imported: only its script is needed
    if spec is None or spec.origin is None:
        raise ValueError("the page needs plotly's script: pip install plotly")
    found = Path(spec.origin).with_name("package_data").joinpath("plotly.min.js").read_text(encoding="utf-8")
    assert "</script" not in found.lower()
    return found


def _asset(name: str) -> str:
    return files("dualtta.report").joinpath("assets", name).read_text(encoding="utf-8").strip()
