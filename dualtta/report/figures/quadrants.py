"""Quadrants of (Diff_sa, Diff_sp): how many samples are in each, and how many of them are predicted correctly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dualtta.report.comparisons import Comparison, Entry
from dualtta.report.figures.style import SHARE, headline, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@dataclass(frozen=True)
class Corner:
    count: int
    right: int

    @property
    def share(self) -> float | None:
        return self.right / self.count if self.count else None


@dataclass(frozen=True)
class Quadrants:
    title: str
    detail: str  # which drop and thresholds are in force
    corners: dict[str, Corner]
    outside: int  # samples of which a drop is not known, or is just at its threshold


def collect(comparisons: Sequence[Comparison]) -> list[Quadrants]:
    return [
        _quadrants(comparison, entry)
        for comparison in comparisons
        for entry in comparison.entries
        if all(isinstance(run.quadrants, dict) for run in entry.runs)
    ]


def _quadrants(comparison: Comparison, entry: Entry) -> Quadrants:
    corners = {}
    for name in NAMES:
        parts = [run.quadrants[name] for run in entry.runs]
        right = sum(round(part["count"] * (part["correct"] or 0)) for part in parts)
        corners[name] = Corner(sum(part["count"] for part in parts), right)
    samples = entry.samples
    method, seeds = entry.runs[0].hyperparameters, len(entry.runs)
    filters = [name for key, name in (("filter_sa", "altering"), ("filter_sp", "preserving")) if method.get(key) is False]
    off = f", without the {' and '.join(filters)} filter" if filters else ""
    force = f"{method.get('drop', 'absolute')} drops, τ_sa = {method['tau_sa']:g}, τ_sp = {method['tau_sp']:g}{off}"
    over = f"{seeds} seed{'s' if seeds > 1 else ''}"
    inside = sum(corner.count for corner in corners.values())
    return Quadrants(f"{comparison.title}, {entry.label}", f"{force}; {samples:,} samples, {over}", corners, samples - inside)


def draw(panels: Sequence[Quadrants]) -> "Figure":
    from matplotlib.colors import LinearSegmentedColormap

    columns = min(3, len(panels))
    figure, axes = sheet(-(-len(panels) // columns), columns, 4.2, 4.1)
    scale = LinearSegmentedColormap.from_list("share", SHARE)
    for ax, panel in zip(axes, panels, strict=False):
        for row, names in enumerate(CORNERS):
            for column, name in enumerate(names):
                corner = panel.corners[name]
                color = "#f4f4f4" if corner.share is None else scale(corner.share)
                dark = corner.share is not None and corner.share > 0.6
                head = NAMES[name]
                ax.add_patch(_box(column, 1 - row, color))
                share = "no sample" if corner.share is None else f"{100 * corner.share:.1f} % right"
                text = "white" if dark else "#111111"
                at = (column + 0.5, 1.5 - row)
                ax.annotate(share, at, xytext=(0, 2), textcoords="offset points", ha="center", fontsize=11, color=text)
                ax.annotate(
                    f"{corner.count:,}", at, xytext=(0, -13), textcoords="offset points", ha="center", fontsize=9, color=text
                )
                if head:
                    ax.annotate(
                        head, (column + 0.06, 1.86 - row), fontsize=13, fontweight="bold", color=text, ha="left", va="center"
                    )
        ax.set_xlim(0, 2)
        ax.set_ylim(0, 2)
        ax.set_xticks([0.5, 1.5], ["stays", "falls"])
        ax.set_yticks([0.5, 1.5], ["holds", "breaks"], rotation=90, va="center")
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_xlabel("under alteration (Diff_sa)")
        ax.set_ylabel("under restyling (Diff_sp)")
        ax.set_aspect("equal")
        headline(ax, panel.title, panel.detail, 38)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    return figure


def _box(x: float, y: float, color: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 1, 1, facecolor=color, edgecolor="white", linewidth=3)


def plot(panel: Quadrants) -> dict[str, Any]:
    """For the page: a two by two heat map of the share that is right."""
    shares = [[panel.corners[name].share for name in names] for names in CORNERS]
    words = [[_words(name, panel.corners[name]) for name in names] for names in CORNERS]
    heat = {
        "type": "heatmap",
        "x": ["stays", "falls"],
        "y": ["breaks", "holds"],
        "z": [[None if share is None else round(100 * share, 2) for share in row] for row in shares],
        "text": words,
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
    layout = {
        "xaxis": {"title": {"text": "under alteration (Diff_sa)"}, "showgrid": False},
        "yaxis": {"title": {"text": "under restyling (Diff_sp)"}, "showgrid": False, "autorange": "reversed"},
        "height": 420,
    }
    return {"data": [heat], "layout": layout}


def _words(name: str, corner: Corner) -> str:
    head = f"<b>{NAMES[name]}</b><br>" if NAMES[name] else ""
    share = "no sample" if corner.share is None else f"{100 * corner.share:.1f} % right"
    return f"{head}{share}<br>{corner.count:,}"
