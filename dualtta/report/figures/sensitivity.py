"""How accuracy depends on the two thresholds, DeYO for reference: heat maps of the experiment `sensitivity`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtta.report.comparisons import METRICS, Comparison, Entry, Spread
from dualtta.report.figures.look import headline, sheet
from dualtta.report.labels import name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TITLE = "sensitivity", "Sensitivity to the thresholds"
CAPTION = (
    "DualTTA under each pair of thresholds. Cells that are not above DeYO, the reference, are marked (a corner on paper, ▾ on "
    "the page); pairs without a finished run are empty."
)
A_PAGE = 4
USUAL = (0.4, 0.7)  # the method's own thresholds


@dataclass(frozen=True)
class Heat:
    title: str
    detail: str
    tau_sa: tuple[float, ...]
    tau_sp: tuple[float, ...]
    values: tuple[tuple[float | None, ...], ...]  # by tau_sp, then tau_sa
    deyo: Spread | None


def grid_of(comparison: Comparison) -> dict[tuple[float, float], Entry]:
    """The entries of a comparison that are DualTTA at thresholds of their own; empty where they make no grid."""
    at = {
        (float(entry.settings["tau_sa"]), float(entry.settings["tau_sp"])): entry
        for entry in comparison.entries
        if entry.method == "dualtta" and {"tau_sa", "tau_sp"} <= set(entry.settings)
    }
    both = [len({pair[axis] for pair in at}) > 1 for axis in (0, 1)]
    return at if all(both) and len(at) > 3 else {}


def without_grid(comparison: Comparison) -> Comparison:
    """What the other figures show of a comparison with a grid of thresholds: the method's own pair alone."""
    grid = grid_of(comparison)
    others = [entry for pair, entry in grid.items() if pair != USUAL]
    kept = tuple(
        dataclasses.replace(entry, label=name(entry.method)) if entry is grid.get(USUAL) else entry
        for entry in comparison.entries
        if entry not in others
    )
    return dataclasses.replace(comparison, entries=kept) if grid else comparison


def collect(comparisons: Sequence[Comparison]) -> list[Heat]:
    made = []
    for comparison in comparisons:
        grid = grid_of(comparison)
        if not grid:
            continue
        sa, sp = (tuple(sorted({pair[axis] for pair in grid})) for axis in (0, 1))
        deyo = next((entry.over_seeds(comparison.metric) for entry in comparison.entries if entry.method == "deyo"), None)
        values = tuple(tuple(_mean(grid.get((a, p)), comparison.metric) for a in sa) for p in sp)
        runs = max(len(entry.runs) for entry in grid.values())
        seeds = f"{runs} seed{'s' if runs > 1 else ''}"
        beside = f"; DeYO: {deyo.text()} %" if deyo else "; DeYO was not run"
        detail = f"{METRICS[comparison.metric]}; {comparison.detail}, {seeds}{beside}"
        made.append(Heat(comparison.title, detail, sa, sp, values, deyo))
    return made


def _mean(entry: Entry | None, metric: str) -> float | None:
    spread = entry.over_seeds(metric) if entry else None
    return spread.mean if spread else None


def draw(panels: Sequence[Heat]) -> "Figure":
    from matplotlib.colors import Normalize

    columns = min(2, len(panels))
    figure, axes = sheet(-(-len(panels) // columns), columns, 5.8, 4.8)
    for ax, panel in zip(axes, panels, strict=False):
        z = np.array([[np.nan if v is None else 100 * v for v in row] for row in panel.values])
        known = z[np.isfinite(z)]
        deyo = None if panel.deyo is None else 100 * panel.deyo.mean
        low, high = min([known.min(), *([] if deyo is None else [deyo])]), max([known.max(), *([] if deyo is None else [deyo])])
        norm = Normalize(low, max(high, low + 0.1))
        image = ax.imshow(z, cmap="cividis", norm=norm, origin="lower", aspect="auto")
        for (y, x), value in np.ndenumerate(z):
            if np.isnan(value):
                continue
            beaten = deyo is not None and value <= deyo
            color = "white" if norm(value) < 0.55 else "#111111"
            ax.annotate(f"{value:.1f}", (x, y), ha="center", va="center", fontsize=7.5, color=color)
            if beaten:
                ax.fill([x - 0.5, x - 0.5, x - 0.14], [y + 0.14, y + 0.5, y + 0.5], color="#d55e00", ec="white", lw=0.6)
        ax.set_xticks(range(len(panel.tau_sa)), [f"{v:g}" for v in panel.tau_sa])
        ax.set_yticks(range(len(panel.tau_sp)), [f"{v:g}" for v in panel.tau_sp])
        ax.set_xlabel("τ_sa, altering")
        ax.set_ylabel("τ_sp, preserving")
        bar = figure.colorbar(image, ax=ax, shrink=0.9)
        bar.set_label("%")
        if deyo is not None:
            bar.ax.axhline(deyo, color="white", lw=3)
            bar.ax.axhline(deyo, color="#d55e00", lw=1.6)
            bar.ax.annotate(
                f"DeYO {deyo:.1f}",
                (0, deyo),
                xycoords=("axes fraction", "data"),
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                rotation=90,
                fontsize=7.5,
                color="#b34a00",
            )
        headline(ax, panel.title, panel.detail, 60)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    return figure


def plot(panel: Heat) -> dict[str, Any]:
    """For the page."""
    deyo = None if panel.deyo is None else 100 * panel.deyo.mean
    z = [[None if v is None else round(100 * v, 2) for v in row] for row in panel.values]

    def beaten(value: float | None) -> bool:
        return value is not None and deyo is not None and value <= deyo

    def beside(value: float | None) -> str:
        return "" if value is None or deyo is None else f"{value - deyo:+.2f} to DeYO ({deyo:.2f})"

    heat = {
        "type": "heatmap",
        "x": [f"{v:g}" for v in panel.tau_sa],
        "y": [f"{v:g}" for v in panel.tau_sp],
        "z": z,
        "text": [["" if v is None else f"{v:.1f}{' ▾' if beaten(v) else ''}" for v in row] for row in z],
        "texttemplate": "%{text}",
        "customdata": [[beside(v) for v in row] for row in z],
        "hovertemplate": "τ_sa %{x}, τ_sp %{y}: %{z:.2f} %<br>%{customdata}<extra></extra>",
        "colorscale": "Cividis",
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"title": {"text": "%"}, "thickness": 12},
    }
    layout = {
        "xaxis": {"title": {"text": "τ_sa, altering"}, "type": "category", "showgrid": False},
        "yaxis": {"title": {"text": "τ_sp, preserving"}, "type": "category", "showgrid": False},
        "height": 480,
    }
    return {"data": [heat], "layout": layout}
