"""Accuracy by corruption or domain: a panel for each, a bar a method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dualtta.report.comparisons import Comparison, Spread
from dualtta.report.figures.style import headline, in_panel, sheet, wrap
from dualtta.report.labels import by_number
from dualtta.report.methods import About, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TITLE = "domains", "Accuracy by domain"
CAPTION = "Accuracy over the samples of each corruption, domain or pair of domains; mean and deviation over seeds."
A_PAGE = 1
MANY = 10  # bars of one panel


@dataclass(frozen=True)
class Bar:
    label: str
    method: str
    about: About
    accuracy: Spread

    @property
    def style(self) -> Style:
        return self.about.style


@dataclass(frozen=True)
class Domains:
    title: str
    detail: str
    bars: dict[str, tuple[Bar, ...]]  # by domain


def collect(comparisons: Sequence[Comparison]) -> list[Domains]:
    """A figure for each task with several domains, and one for the tasks of a benchmark, where each is one domain."""
    made = []
    families: dict[tuple[str, str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.unit:
            families.setdefault((comparison.dataset, comparison.model, comparison.scenario), []).append(comparison)
        elif len(comparison.domains) > 1:
            made.append(
                Domains(comparison.title, comparison.detail, {name: _bars(comparison, name) for name in comparison.domains})
            )
    for (dataset, model, scenario), family in families.items():
        bars = {comparison.unit: _whole(comparison) for comparison in family}
        if len(bars) > 1:
            subset = ", a subset" if any(comparison.subset for comparison in family) else ""
            made.append(Domains(dataset, f"{model}, {scenario}{subset}", bars))
    return sorted(made, key=lambda panel: (panel.title, panel.detail))


def _bars(comparison: Comparison, domain: str) -> tuple[Bar, ...]:
    """Of the methods that have the domain in all their runs."""
    found = []
    for entry in comparison.entries[-MANY:]:
        values = [run.domain_accuracy.get(domain) for run in entry.runs]
        if None not in values:
            found.append(Bar(entry.label, entry.method, entry.about, Spread.of(values)))
    return tuple(found)


def _whole(comparison: Comparison) -> tuple[Bar, ...]:
    found = [(entry, entry.over_seeds("accuracy")) for entry in comparison.entries[-MANY:]]
    return tuple(Bar(entry.label, entry.method, entry.about, spread) for entry, spread in found if spread)


def rows_of(panel: Domains) -> dict[str, Bar]:
    """A bar of each label of any domain, in the order of the tables."""
    rows = {bar.label: bar for bars in panel.bars.values() for bar in bars}
    return dict(sorted(rows.items(), key=lambda item: (item[1].about.order, by_number(item[0]))))


def draw(panels: Sequence[Domains]) -> "Figure":
    (panel,) = panels
    columns = min(5 if len(panel.bars) > 9 else 3, len(panel.bars))
    rows = -(-len(panel.bars) // columns)
    labels = list(rows_of(panel))  # written once for a row of panels
    tallest = len(labels)
    figure, axes = sheet(rows, columns, 3.3 if columns > 3 else 4.0, 0.9 + 0.27 * tallest)
    for number, (ax, (domain, bars)) in enumerate(zip(axes, panel.bars.items(), strict=False)):
        for bar in bars:
            y, style, value = labels.index(bar.label), bar.style, 100 * bar.accuracy.mean
            deviation = 100 * (bar.accuracy.deviation or 0)
            ax.barh(y, value, color=style.color, edgecolor="white", hatch=style.hatch, height=0.74, lw=0)
            ax.errorbar(value, y, xerr=deviation, color="#222222", capsize=2, lw=0.9)
            ax.annotate(
                f"{value:.1f}", (value + deviation, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7.5
            )
        ax.set_yticks(range(tallest), [wrap(label, 26, 2) if number % columns == 0 else "" for label in labels])
        ax.set_ylim(tallest - 0.4, -0.6)
        ax.set_xlim(0, 113)
        ax.set_xticks([0, 25, 50, 75, 100])
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x")
        headline(ax, domain.replace("_", " "), "", 30)
    for ax in axes[len(panel.bars) :]:
        ax.set_visible(False)
    figure.supxlabel("accuracy, %", fontsize=9)
    figure.suptitle(f"{panel.title}: {panel.detail}", x=0.01, ha="left", fontsize=10)
    return figure


def plot(panel: Domains) -> dict[str, Any]:
    """For the page: grouped bars, a colour a method."""
    rows = rows_of(panel)
    data = []
    for label, style in zip(rows, in_panel(rows.values()), strict=True):
        found = [(domain, bar.accuracy) for domain, bars in panel.bars.items() for bar in bars if bar.label == label]
        data.append(
            {
                "type": "bar",
                "name": label,
                "x": [domain for domain, _ in found],
                "y": [round(100 * spread.mean, 2) for _, spread in found],
                "error_y": {"type": "data", "array": [100 * (s.deviation or 0) for _, s in found], "thickness": 1, "width": 2},
                "customdata": [spread.text() for _, spread in found],
                "hovertemplate": "%{x}: %{customdata} %<extra>%{fullData.name}</extra>",
                "marker": {"color": style.color},
            }
        )
    layout = {"barmode": "group", "yaxis": {"title": {"text": "accuracy, %"}, "range": [0, 100]}, "height": 460}
    return {"data": data, "layout": {**layout, "xaxis": {"type": "category", "automargin": True}}}
