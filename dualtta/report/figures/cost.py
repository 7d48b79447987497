"""Accuracy against cost: forwards a sample, which is arithmetic, and images a second, which is a machine's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dualtta.report.comparisons import METRICS, Comparison, Spread
from dualtta.report.cost import measured
from dualtta.report.figures.look import headline, inks, sheet, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TITLE = "cost", "Accuracy against cost"
CAPTION = (
    "Forwards a sample count every pass of a sample through the model, views included, backward passes not. Images a second "
    "are those of the run itself, on the device named; other work on the machine may have slowed it. Methods of the same "
    "number of forwards are drawn side by side."
)
A_PAGE = 3
MANY = 12


@dataclass(frozen=True)
class Dot:
    label: str
    method: str
    accuracy: Spread
    forwards: float  # a sample
    speed: Spread | None  # images a second


@dataclass(frozen=True)
class Cost:
    title: str
    detail: str
    metric: str
    dots: tuple[Dot, ...]


def collect(comparisons: Sequence[Comparison]) -> list[Cost]:
    made = []
    for comparison in comparisons:
        dots = []
        for entry in comparison.entries[-MANY:]:
            accuracy = entry.over_seeds(comparison.metric)
            forwards = [run.summary.get("forwards") for run in entry.runs]
            speeds = [measured(run.cost, "images_per_second") for run in entry.runs]
            if accuracy is None or None in forwards:
                continue
            each = [
                count / run.summary["samples"] for count, run in zip(forwards, entry.runs, strict=True) if count is not None
            ]
            known = [speed for speed in speeds if speed]
            speed = Spread.of(known) if known and len(known) == len(speeds) else None
            dots.append(Dot(entry.label, entry.method, accuracy, sum(each) / len(each), speed))
        if len(dots) > 1:
            machines = sorted({_machine(run.cell, run.cost) for entry in comparison.entries for run in entry.runs})
            detail = f"{comparison.detail}; on {' and on '.join(machines)}"
            made.append(Cost(comparison.title, detail, METRICS[comparison.metric], tuple(dots)))
    return made


def _machine(cell: dict[str, Any], cost: dict[str, Any]) -> str:
    provenance = cell.get("provenance")
    machine = provenance.get("machine") if isinstance(provenance, dict) else None
    machine = machine if isinstance(machine, dict) else {}
    if str(cost.get("device", "")).startswith("cuda") and machine.get("gpu"):
        return str(machine["gpu"])
    return f"{cell.get('threads', 1)} thread of a {machine.get('processor', 'CPU')} CPU"


def dodge(values: Sequence[float], step: float = 0.09) -> list[float]:
    """How far to set dots aside that would lie on each other.

    >>> dodge([1.0, 1.0, 2.0], step=0.1)
    [-0.05, 0.05, 0.0]
    """
    places = [round(value, 1) for value in values]
    return [step * (places[:i].count(place) - (places.count(place) - 1) / 2) for i, place in enumerate(places)]


def draw(panels: Sequence[Cost]) -> "Figure":
    figure, axes = sheet(len(panels), 2, 4.6, 3.7, sharey="row")
    for row, panel in enumerate(panels):
        left, right = axes[2 * row : 2 * row + 2]
        looks, asides = inks(dot.method for dot in panel.dots), dodge([dot.forwards for dot in panel.dots])
        for dot, look, aside in zip(panel.dots, looks, asides, strict=True):
            style: dict[str, Any] = {"color": look.color, "marker": look.marker, "ms": 7, "ls": "none", "capsize": 2, "lw": 1}
            y, deviation = 100 * dot.accuracy.mean, 100 * (dot.accuracy.deviation or 0)
            left.errorbar(dot.forwards + aside, y, yerr=deviation, label=wrap(dot.label, 26, 3), **style)
            if dot.speed:
                right.errorbar(dot.speed.mean, y, yerr=deviation, xerr=dot.speed.deviation or 0, **style)
        left.set_xlabel("forwards a sample")
        right.set_xlabel("images a second")
        left.set_ylabel(f"{panel.metric}, %")
        left.set_xlim(0, max(3.2, 1.1 * max(dot.forwards for dot in panel.dots)))
        right.set_xlim(0, 1.08 * max([1.0, *(dot.speed.mean + (dot.speed.deviation or 0) for dot in panel.dots if dot.speed)]))
        right.tick_params(labelleft=False)
        for ax in (left, right):
            ax.grid(True)
            ax.margins(y=0.1)
        handles, labels = left.get_legend_handles_labels()
        right.legend(handles, labels, loc="center left", bbox_to_anchor=(1.02, 0.5))
        headline(left, panel.title, panel.detail, 70)
    return figure


def plot(panel: Cost) -> dict[str, Any]:
    """For the page: forwards at the left, images a second at the right."""
    data = []
    looks, asides = inks(dot.method for dot in panel.dots), dodge([dot.forwards for dot in panel.dots], 0.06)
    for dot, look, aside in zip(panel.dots, looks, asides, strict=True):
        bars = {"type": "data", "array": [100 * (dot.accuracy.deviation or 0)], "thickness": 1, "width": 3, "color": look.color}
        common: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "name": dot.label,
            "legendgroup": dot.label,
            "y": [round(100 * dot.accuracy.mean, 2)],
            "error_y": bars,
            "customdata": [[dot.accuracy.text(), round(dot.forwards, 2)]],
            "marker": {"color": look.color, "symbol": look.symbol, "size": 12, "line": {"width": 2, "color": look.color}},
        }
        named = "<extra>%{fullData.name}</extra>"
        forwards = "%{customdata[0]} % at %{customdata[1]} forwards a sample" + named
        data.append({**common, "x": [round(dot.forwards + aside, 3)], "hovertemplate": forwards})
        if dot.speed:
            speed: dict[str, Any] = {"x": [round(dot.speed.mean, 1)], "xaxis": "x2", "yaxis": "y2", "showlegend": False}
            data.append({**common, **speed, "hovertemplate": "%{customdata[0]} % at %{x:.0f} images/s" + named})
    layout = {
        "grid": {"rows": 1, "columns": 2, "pattern": "independent", "xgap": 0.08},
        "xaxis": {"title": {"text": "forwards a sample"}, "rangemode": "tozero"},
        "xaxis2": {"title": {"text": "images a second"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": f"{panel.metric}, %"}},
        "yaxis2": {"matches": "y", "showticklabels": False},
        "height": 440,
    }
    return {"data": data, "layout": layout}
