"""Accuracy against cost: forwards a sample, which is the same everywhere, and images a second, which depends on the machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dualtta.report.comparisons import METRICS, Comparison, Spread
from dualtta.report.figures.style import Panel, Series, axis, headline, in_panel, percent, sheet, wrap

NAME, TITLE = "cost", "Accuracy against cost"
CAPTION = (
    "Forwards a sample count every pass of a sample through the model, views included, backward passes not. Images a second "
    "are those of the run itself, on the device named; other work on the machine may have slowed it. Methods of the same "
    "number of forwards are drawn side by side."
)
A_PAGE = 3
FORWARDS, SPEED = "forwards a sample", "images a second"
MANY = 12


@dataclass(frozen=True)
class Dot(Series):
    accuracy: Spread
    forwards: float  # a sample
    speed: Spread | None  # images a second


@dataclass(frozen=True)
class Cost(Panel):
    metric: str
    dots: tuple[Dot, ...]


def collect(comparisons: Sequence[Comparison]) -> Iterator[Cost]:
    for comparison in comparisons:
        dots = []
        for entry in comparison.entries[-MANY:]:
            if accuracy := entry.over_seeds(comparison.metric):
                forwards = float(np.mean([run.forwards / run.samples for run in entry.runs]))
                speed = entry.over_seeds("images_per_second") if all(entry.each("images_per_second")) else None
                dots.append(Dot(entry.label, entry.method, entry.style, accuracy, forwards, speed))
        if len(dots) > 1:
            machines = sorted({_machine(run) for run in comparison.runs})
            detail = f"{comparison.detail}; on {' and on '.join(machines)}"
            yield Cost(comparison.title, detail, METRICS[comparison.metric], tuple(dots))


def _machine(run: Any) -> str:
    machine = run.machine if isinstance(run.machine, dict) else {}
    if str(run.device).startswith("cuda") and machine.get("gpu"):
        return str(machine["gpu"])
    return f"{run.threads or 1} thread of a {machine.get('processor', 'CPU')} CPU"


def dodge(values: Sequence[float], step: float = 0.09) -> list[float]:
    """How far to move dots sideways that would cover each other.

    >>> dodge([1.0, 1.0, 2.0], step=0.1)
    [-0.05, 0.05, 0.0]
    """
    rounded = [round(value, 1) for value in values]
    return [step * (rounded[:i].count(value) - (rounded.count(value) - 1) / 2) for i, value in enumerate(rounded)]


def draw(panels: Sequence[Cost]) -> Figure:
    figure, axes = sheet(2 * len(panels), 2, 4.6, 3.7, sharey="row")
    for panel, left, right in zip(panels, axes[::2], axes[1::2], strict=True):
        shifts = dodge([dot.forwards for dot in panel.dots])
        for dot, style, shift in zip(panel.dots, in_panel(panel.dots), shifts, strict=True):
            marks: dict[str, Any] = {"color": style.color, "marker": style.marker, "ms": 7, "ls": "none", "capsize": 2, "lw": 1}
            y, deviation = percent(dot.accuracy)
            left.errorbar(dot.forwards + shift, y, yerr=deviation, label=wrap(dot.label, 26, 3), **marks)
            if dot.speed:
                right.errorbar(dot.speed.mean, y, yerr=deviation, xerr=dot.speed.deviation or 0, **marks)
        most = max(dot.forwards for dot in panel.dots)
        fastest = max([1.0, *(dot.speed.mean + (dot.speed.deviation or 0) for dot in panel.dots if dot.speed)])
        left.set(xlim=(0, max(3.2, 1.1 * most)), xlabel=FORWARDS, ylabel=f"{panel.metric}, %")
        right.set(xlim=(0, 1.08 * fastest), xlabel=SPEED)
        right.tick_params(labelleft=False)
        for ax in (left, right):
            ax.grid(True)
            ax.margins(y=0.1)
        right.legend(*left.get_legend_handles_labels(), loc="center left", bbox_to_anchor=(1.02, 0.5))
        headline(left, panel.title, panel.detail, 70)
    return figure


def plot(panel: Cost) -> dict[str, Any]:
    """For the page: forwards at the left, images a second at the right."""
    data = []
    shifts = dodge([dot.forwards for dot in panel.dots], 0.06)
    for dot, style, shift in zip(panel.dots, in_panel(panel.dots), shifts, strict=True):
        mean, deviation = percent(dot.accuracy)
        common: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "name": dot.label,
            "legendgroup": dot.label,
            "y": [round(mean, 2)],
            "error_y": {"type": "data", "array": [deviation], "thickness": 1, "width": 3, "color": style.color},
            "customdata": [[dot.accuracy.text(), round(dot.forwards, 2)]],
            "marker": {"color": style.color, "symbol": style.symbol, "size": 12, "line": {"width": 2, "color": style.color}},
        }
        hover = "%{customdata[0]} % at %{customdata[1]} forwards a sample<extra>%{fullData.name}</extra>"
        data.append({**common, "x": [round(dot.forwards + shift, 3)], "hovertemplate": hover})
        if dot.speed:
            hover = "%{customdata[0]} % at %{x:.0f} images/s<extra>%{fullData.name}</extra>"
            right = {"xaxis": "x2", "yaxis": "y2", "showlegend": False, "hovertemplate": hover}
            data.append({**common, **right, "x": [round(dot.speed.mean, 1)]})
    layout = {
        "grid": {"rows": 1, "columns": 2, "pattern": "independent", "xgap": 0.08},
        "xaxis": axis(FORWARDS, rangemode="tozero"),
        "xaxis2": axis(SPEED, rangemode="tozero"),
        "yaxis": axis(f"{panel.metric}, %"),
        "yaxis2": {"matches": "y", "showticklabels": False},
        "height": 440,
    }
    return {"data": data, "layout": layout}
