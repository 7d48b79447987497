"""Reliability diagrams: accuracy by confidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtta.report.comparisons import Comparison, Spread
from dualtta.report.figures.style import headline, in_panel, sheet, wrap
from dualtta.report.methods import Style
from dualtta.report.outcomes import BINS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TITLE = "reliability", "Reliability"
CAPTION = (
    "Accuracy of the predictions in each of 15 bins of confidence, all seeds together; on the diagonal, confidence equals "
    "accuracy. A larger dot stands for more samples, a hollow one for fewer than 20. ECE, the expected calibration error, is "
    "the mean over seeds."
)
A_PAGE = 1
MANY = 12
FEW = 20  # samples: the accuracy of fewer is drawn hollow


@dataclass(frozen=True)
class Curve:
    """Bins that hold a sample: mean confidence, accuracy, samples."""

    label: str
    method: str
    style: Style
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    samples: tuple[int, ...]
    error: Spread | None  # the expected calibration error


@dataclass(frozen=True)
class Reliability:
    title: str
    detail: str
    curves: tuple[Curve, ...]


def collect(comparisons: Sequence[Comparison]) -> list[Reliability]:
    made = []
    for comparison in comparisons:
        curves = []
        for entry in comparison.entries[-MANY:]:
            bins = entry.pooled("reliability")
            count, confidence, hits = bins[bins[:, 0] > 0].T
            points = (tuple((confidence / count).tolist()), tuple((hits / count).tolist()), tuple(map(int, count)))
            curves.append(Curve(entry.label, entry.method, entry.style, *points, entry.over_seeds("calibration_error")))
        if curves:
            made.append(Reliability(comparison.title, comparison.detail, tuple(curves)))
    return made


def draw(panels: Sequence[Reliability]) -> "Figure":
    (panel,) = panels
    columns = min(5 if len(panel.curves) > 9 else 3 if len(panel.curves) in (3, 5, 6, 9) else 4, len(panel.curves))
    figure, axes = sheet(-(-len(panel.curves) // columns), columns, 2.9, 2.9, sharex=True, sharey=True)
    for number, (ax, curve) in enumerate(zip(axes, panel.curves, strict=False)):
        style, share = curve.style, np.array(curve.samples) / sum(curve.samples)
        ax.plot([0, 100], [0, 100], color="#aaaaaa", lw=1, ls="--")
        x, y = 100 * np.array(curve.confidence), 100 * np.array(curve.accuracy)
        ax.bar(x, 100 * share, width=100 / BINS * 0.55, color="#dddddd", zorder=0)
        ample = np.array(curve.samples) >= FEW
        ax.plot(x[ample], y[ample], color=style.color, lw=1.6, ls=style.dash)
        whole: dict[str, Any] = {"zorder": 3, "clip_on": False}
        ax.scatter(x[ample], y[ample], s=14 + 160 * share[ample], color=style.color, edgecolor="white", lw=0.6, **whole)
        ax.scatter(x[~ample], y[~ample], s=12, facecolor="white", edgecolor=style.color, lw=0.8, **whole)
        ax.set_xlim(0, 103)
        ax.set_ylim(0, 103)
        ax.set_xticks([0, 25, 50, 75, 100])
        ax.set_yticks([0, 25, 50, 75, 100])
        ax.set_aspect("equal")
        ax.grid(True)
        if number + columns >= len(panel.curves):
            ax.tick_params(labelbottom=True)
        headline(ax, curve.label, f"ECE {curve.error.text()} %" if curve.error else " ", 28)
    for ax in axes[len(panel.curves) :]:
        ax.set_visible(False)
    figure.supxlabel("confidence, %; grey bars: share of the samples", fontsize=9)
    figure.supylabel("accuracy, %", fontsize=9)
    figure.suptitle(wrap(f"{panel.title}: {panel.detail}", 40 * columns, 2), x=0.01, ha="left", fontsize=10)
    return figure


def plot(panel: Reliability) -> dict[str, Any]:
    """For the page: all methods in one diagram, to be switched on and off."""
    diagonal = {"type": "scatter", "x": [0, 100], "y": [0, 100], "mode": "lines", "showlegend": False, "hoverinfo": "skip"}
    data: list[dict[str, Any]] = [{**diagonal, "line": {"color": "#999", "dash": "dash", "width": 1}}]
    for curve, style in zip(panel.curves, in_panel(panel.curves), strict=True):
        total = sum(curve.samples)
        error = "" if curve.error is None else f", ECE {curve.error.text()} %"
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"{curve.label}{error}",
                "x": [round(100 * value, 2) for value in curve.confidence],
                "y": [round(100 * value, 2) for value in curve.accuracy],
                "customdata": list(curve.samples),
                "hovertemplate": "confidence %{x:.1f} %, accuracy %{y:.1f} %, %{customdata} samples"
                "<extra>%{fullData.name}</extra>",
                "line": {"color": style.color, "dash": style.line, "width": 2},
                "marker": {
                    "symbol": ["circle" if n >= FEW else "circle-open" for n in curve.samples],
                    "color": style.color,
                    "size": [round(5 + 16 * (n / total) ** 0.5, 1) for n in curve.samples],
                },
            }
        )
    axis = {"range": [0, 101]}
    layout = {
        "xaxis": {"title": {"text": "confidence, %"}, **axis},
        "yaxis": {"title": {"text": "accuracy, %"}, **axis},
        "height": 520,
    }
    return {"data": data, "layout": layout}
