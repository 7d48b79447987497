"""Reliability diagrams: accuracy by confidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dualtta.report.comparisons import Comparison, Spread
from dualtta.report.figures.style import Panel, Series, axis, headline, in_panel, percents, sheet, wrap
from dualtta.report.outcomes import BINS

NAME, TITLE = "reliability", "Reliability"
CAPTION = (
    "Accuracy of the predictions in each of 15 bins of confidence, all seeds together; on the diagonal, confidence equals "
    "accuracy. A larger dot stands for more samples, a hollow one for fewer than 20. ECE, the expected calibration error, is "
    "the mean over seeds."
)
A_PAGE = 1
MANY = 12
FEW = 20  # samples: the accuracy of fewer is drawn hollow
TICKS = (0, 25, 50, 75, 100)
HOVER = "confidence %{x:.1f} %, accuracy %{y:.1f} %, %{customdata} samples<extra>%{fullData.name}</extra>"


@dataclass(frozen=True)
class Curve(Series):
    """Bins that hold a sample: mean confidence, accuracy, samples."""

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    samples: tuple[int, ...]
    error: Spread | None  # the expected calibration error


@dataclass(frozen=True)
class Reliability(Panel):
    curves: tuple[Curve, ...]


def collect(comparisons: Sequence[Comparison]) -> Iterator[Reliability]:
    for comparison in comparisons:
        curves = []
        for entry in comparison.entries[-MANY:]:
            bins = entry.pooled("reliability")
            count, confidence, hits = bins[bins[:, 0] > 0].T
            points = (tuple((confidence / count).tolist()), tuple((hits / count).tolist()), tuple(map(int, count)))
            curves.append(Curve(entry.label, entry.method, entry.style, *points, entry.over_seeds("calibration_error")))
        if curves:
            yield Reliability(comparison.title, comparison.detail, tuple(curves))


def draw(panels: Sequence[Reliability]) -> Figure:
    (panel,) = panels
    count = len(panel.curves)
    columns = min(5 if count > 9 else 3 if count in (3, 5, 6, 9) else 4, count)
    figure, axes = sheet(count, columns, 2.9, 2.9, sharex=True, sharey=True)
    whole: dict[str, Any] = {"zorder": 3, "clip_on": False}
    for ax, curve in zip(axes, panel.curves, strict=True):
        x, y = 100 * np.array(curve.confidence), 100 * np.array(curve.accuracy)
        share, ample = np.array(curve.samples) / sum(curve.samples), np.array(curve.samples) >= FEW
        color = curve.style.color
        ax.plot([0, 100], [0, 100], color="#aaaaaa", lw=1, ls="--")
        ax.bar(x, 100 * share, width=100 / BINS * 0.55, color="#dddddd", zorder=0)
        ax.plot(x[ample], y[ample], color=color, lw=1.6, ls=curve.style.dash)
        ax.scatter(x[ample], y[ample], s=14 + 160 * share[ample], color=color, edgecolor="white", lw=0.6, **whole)
        ax.scatter(x[~ample], y[~ample], s=12, facecolor="white", edgecolor=color, lw=0.8, **whole)
        ax.set(xlim=(0, 103), ylim=(0, 103), xticks=TICKS, yticks=TICKS, aspect="equal")
        ax.grid(True)
        headline(ax, curve.label, f"ECE {curve.error.text()} %" if curve.error else "", 28)
    for ax in axes[-columns:]:
        ax.tick_params(labelbottom=True)
    figure.supxlabel("confidence, %; grey bars: share of the samples", fontsize=9)
    figure.supylabel("accuracy, %", fontsize=9)
    figure.suptitle(wrap(f"{panel.title}: {panel.detail}", 40 * columns, 2), x=0.01, ha="left", fontsize=10)
    return figure


def plot(panel: Reliability) -> dict[str, Any]:
    """For the page: all methods in one diagram, to be switched on and off."""
    line = {"color": "#999", "dash": "dash", "width": 1}
    diagonal = {"mode": "lines", "x": [0, 100], "y": [0, 100], "showlegend": False, "hoverinfo": "skip", "line": line}
    data: list[dict[str, Any]] = [{"type": "scatter", **diagonal}]
    for curve, style in zip(panel.curves, in_panel(panel.curves), strict=True):
        sizes = [round(5 + 16 * (count / sum(curve.samples)) ** 0.5, 1) for count in curve.samples]
        symbols = ["circle" if count >= FEW else "circle-open" for count in curve.samples]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": curve.label if curve.error is None else f"{curve.label}, ECE {curve.error.text()} %",
                "x": percents(curve.confidence),
                "y": percents(curve.accuracy),
                "customdata": list(curve.samples),
                "hovertemplate": HOVER,
                "line": {"color": style.color, "dash": style.line, "width": 2},
                "marker": {"color": style.color, "symbol": symbols, "size": sizes},
            }
        )
    x, y = axis("confidence, %", range=[0, 101]), axis("accuracy, %", range=[0, 101])
    return {"data": data, "layout": {"xaxis": x, "yaxis": y, "height": 520}}
