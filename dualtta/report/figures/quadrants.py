"""Quadrants of (Diff_sa, Diff_sp): how many samples are in each, and how many of them are predicted correctly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dualtta.report.comparisons import Comparison, Entry
from dualtta.report.figures.style import Panel, axis, headline, note, percents, sheet

NAME, TITLE = "quadrants", "Quadrants of the two drops"
CAPTION = (
    "A prediction falls when its probability drops by more than τ_sa under alteration, and breaks when it drops by more than "
    "τ_sp under restyling. D+ falls and holds, D- stays and breaks. Counts are summed over seeds; samples of which a drop is "
    "not known are in no quadrant."
)
A_PAGE = 6
# by row and column: breaks above holds, stays left of falls, as the axes go
CORNERS = (("stays_breaks", "falls_breaks"), ("stays_holds", "falls_holds"))
NAMES = {"stays_breaks": "D-", "falls_breaks": "", "stays_holds": "", "falls_holds": "D+"}
SHARE = ((0.0, "#f6f1e4"), (0.5, "#8fbcd9"), (1.0, "#00507d"))  # of correct predictions: from pale to deep
ALTERED, RESTYLED = "under alteration (Diff_sa)", "under restyling (Diff_sp)"


@dataclass(frozen=True)
class Corner:
    name: str
    count: int
    right: int

    @property
    def share(self) -> float | None:
        return self.right / self.count if self.count else None

    @property
    def text(self) -> str:
        return "no sample" if self.share is None else f"{100 * self.share:.1f} % right"


@dataclass(frozen=True)
class Quadrants(Panel):
    corners: dict[str, Corner]


def collect(comparisons: Sequence[Comparison]) -> Iterator[Quadrants]:
    for comparison in comparisons:
        for entry in comparison.entries:
            if all(isinstance(run.quadrants, dict) for run in entry.runs):
                yield _quadrants(comparison, entry)


def _quadrants(comparison: Comparison, entry: Entry) -> Quadrants:
    corners = {}
    for key, name in NAMES.items():
        parts = [run.quadrants[key] for run in entry.runs]
        right = sum(round(part["count"] * (part["correct"] or 0)) for part in parts)
        corners[key] = Corner(name, sum(part["count"] for part in parts), right)
    method, seeds = entry.runs[0].hyperparameters, len(entry.runs)
    filters = [name for key, name in (("filter_sa", "altering"), ("filter_sp", "preserving")) if method.get(key) is False]
    off = f", without the {' and '.join(filters)} filter" if filters else ""
    force = f"{method.get('drop', 'absolute')} drops, τ_sa = {method['tau_sa']:g}, τ_sp = {method['tau_sp']:g}{off}"
    detail = f"{force}; {entry.samples:,} samples, {seeds} seed{'s' if seeds > 1 else ''}"
    return Quadrants(f"{comparison.title}, {entry.label}", detail, corners)


def draw(panels: Sequence[Quadrants]) -> Figure:
    figure, axes = sheet(len(panels), 3, 4.2, 4.1)
    scale = LinearSegmentedColormap.from_list("share", SHARE)
    for ax, panel in zip(axes, panels, strict=True):
        for x, y, key in ((x, 1 - row, key) for row, keys in enumerate(CORNERS) for x, key in enumerate(keys)):
            corner, middle = panel.corners[key], (x + 0.5, y + 0.5)
            color = "#f4f4f4" if corner.share is None else scale(corner.share)
            text = "white" if (corner.share or 0) > 0.6 else "#111111"
            ax.add_patch(Rectangle((x, y), 1, 1, facecolor=color, edgecolor="white", linewidth=3))
            note(ax, corner.text, middle, (0, 2), ha="center", fontsize=11, color=text)
            note(ax, f"{corner.count:,}", middle, (0, -13), ha="center", fontsize=9, color=text)
            note(ax, corner.name, (x + 0.06, y + 0.86), fontsize=13, fontweight="bold", color=text, va="center")
        ax.set_xticks([0.5, 1.5], ["stays", "falls"])
        ax.set_yticks([0.5, 1.5], ["holds", "breaks"], rotation=90, va="center")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set(xlim=(0, 2), ylim=(0, 2), xlabel=ALTERED, ylabel=RESTYLED, aspect="equal")
        headline(ax, panel.title, panel.detail, 38)
    return figure


def plot(panel: Quadrants) -> dict[str, Any]:
    """For the page: a two by two heat map of the share that is right."""
    rows = [[panel.corners[key] for key in keys] for keys in CORNERS]
    heat = {
        "type": "heatmap",
        "x": ["stays", "falls"],
        "y": ["breaks", "holds"],
        "z": [percents(corner.share for corner in row) for row in rows],
        "text": [[_words(corner) for corner in row] for row in rows],
        "texttemplate": "%{text}",
        "textfont": {"size": 14},
        "hovertemplate": "%{x} under alteration, %{y} under restyling<br>%{text}<extra></extra>",
        "colorscale": [list(stop) for stop in SHARE],
        "zmin": 0,
        "zmax": 100,
        "xgap": 4,
        "ygap": 4,
        "colorbar": {"title": {"text": "% right"}, "thickness": 12},
    }
    y = axis(RESTYLED, showgrid=False, autorange="reversed")
    return {"data": [heat], "layout": {"xaxis": axis(ALTERED, showgrid=False), "yaxis": y, "height": 420}}


def _words(corner: Corner) -> str:
    head = f"<b>{corner.name}</b><br>" if corner.name else ""
    return f"{head}{corner.text}<br>{corner.count:,}"
