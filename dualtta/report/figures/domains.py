"""Accuracy by corruption or domain: a panel for each, a bar a method."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from dualtta.report.comparisons import Comparison, Entry, Spread
from dualtta.report.figures.style import WHISKER, Panel, Series, axis, headline, in_panel, note, percent, percents, sheet, wrap
from dualtta.report.labels import by_number

NAME, TITLE = "domains", "Accuracy by domain"
CAPTION = "Accuracy over the samples of each corruption, domain or pair of domains; mean and deviation over seeds."
A_PAGE = 1
MANY = 10  # bars of one panel


@dataclass(frozen=True)
class Row(Series):
    accuracy: dict[str, Spread]  # by domain


@dataclass(frozen=True)
class Domains(Panel):
    domains: tuple[str, ...]
    rows: tuple[Row, ...]  # in the order of the tables


def collect(comparisons: Sequence[Comparison]) -> list[Domains]:
    """A figure for each task with several domains, and one for the tasks of a benchmark, where each is one domain."""
    made = []
    families: dict[tuple[str, str, str], dict[str, Comparison]] = {}
    for comparison in comparisons:
        if comparison.unit:
            key = (comparison.dataset, comparison.model, comparison.scenario)
            families.setdefault(key, {})[comparison.unit] = comparison
        else:
            found = [
                (name, entry, _over_seeds(entry, name)) for name in comparison.domains for entry in comparison.entries[-MANY:]
            ]
            made.append(_domains(comparison.title, comparison.detail, comparison.domains, found))
    for (dataset, model, scenario), family in families.items():
        subset = ", a subset" if any(comparison.subset for comparison in family.values()) else ""
        found = [(name, entry, entry.over_seeds("accuracy")) for name, one in family.items() for entry in one.entries[-MANY:]]
        made.append(_domains(dataset, f"{model}, {scenario}{subset}", family, found))
    return sorted((panel for panel in made if len(panel.domains) > 1), key=lambda panel: (panel.title, panel.detail))


def _over_seeds(entry: Entry, domain: str) -> Spread | None:
    """None where a run lacks the domain."""
    values = [run.domain_accuracy.get(domain) for run in entry.runs]
    return None if None in values else Spread.of(values)


def _domains(title: str, detail: str, domains: Iterable[str], found: Iterable[tuple[str, Entry, Spread | None]]) -> Domains:
    rows: dict[str, tuple[Entry, dict[str, Spread]]] = {}
    for domain, entry, spread in found:
        if spread:
            rows.setdefault(entry.label, (entry, {}))[1][domain] = spread
    ordered = sorted(rows.values(), key=lambda row: (row[0].about.order, by_number(row[0].label)))
    return Domains(title, detail, tuple(domains), tuple(Row(e.label, e.method, e.style, spreads) for e, spreads in ordered))


def draw(panels: Sequence[Domains]) -> Figure:
    (panel,) = panels
    tallest, columns = len(panel.rows), min(5 if len(panel.domains) > 9 else 3, len(panel.domains))
    figure, axes = sheet(len(panel.domains), columns, 3.3 if columns > 3 else 4.0, 0.9 + 0.27 * tallest)
    for number, (ax, domain) in enumerate(zip(axes, panel.domains, strict=True)):
        for y, row in enumerate(panel.rows):
            if domain in row.accuracy:
                value, deviation = percent(row.accuracy[domain])
                ax.barh(y, value, 0.74, color=row.style.color, edgecolor="white", hatch=row.style.hatch, lw=0)
                ax.errorbar(value, y, xerr=deviation, **WHISKER)
                note(ax, f"{value:.1f}", (value + deviation, y), (4, 0), va="center", fontsize=7.5)
        # labels are written once for a row of panels
        ax.set_yticks(range(tallest), ["" if number % columns else wrap(row.label, 26, 2) for row in panel.rows])
        ax.set(xlim=(0, 113), ylim=(tallest - 0.4, -0.6), xticks=(0, 25, 50, 75, 100))
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x")
        headline(ax, domain.replace("_", " "), "", 30)
    figure.supxlabel("accuracy, %", fontsize=9)
    figure.suptitle(f"{panel.title}: {panel.detail}", x=0.01, ha="left", fontsize=10)
    return figure


def plot(panel: Domains) -> dict[str, Any]:
    """For the page: grouped bars, a colour a method."""
    data = []
    for row, style in zip(panel.rows, in_panel(panel.rows), strict=True):
        spreads = row.accuracy.values()
        data.append(
            {
                "type": "bar",
                "name": row.label,
                "x": list(row.accuracy),
                "y": percents(spread.mean for spread in spreads),
                "error_y": {"type": "data", "array": [percent(spread)[1] for spread in spreads], "thickness": 1, "width": 2},
                "customdata": [spread.text() for spread in spreads],
                "hovertemplate": "%{x}: %{customdata} %<extra>%{fullData.name}</extra>",
                "marker": {"color": style.color},
            }
        )
    layout = {"barmode": "group", "yaxis": axis("accuracy, %", range=[0, 100]), "height": 460}
    return {"data": data, "layout": {**layout, "xaxis": {"type": "category", "automargin": True}}}
