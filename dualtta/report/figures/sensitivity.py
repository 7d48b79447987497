"""How accuracy depends on two settings of a method that were varied together: heat maps, beside the best other method."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from dualtta.report.comparisons import METRICS, Comparison, Entry
from dualtta.report.figures.style import WRONG, Panel, axis, headline, note, percent, sheet
from dualtta.report.methods import registry

NAME, TITLE = "sensitivity", "Sensitivity to two settings"
CAPTION = (
    "A method under each pair of two settings. Cells that are not above the reference, the best other method on the same data, "
    "are marked (a corner on paper, ▾ on the page); pairs without a finished run are empty."
)
A_PAGE = 4
FEWEST = 4  # pairs that make a grid


@dataclass(frozen=True)
class Heat(Panel):
    axes: tuple[str, ...]  # titles
    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[tuple[float | None, ...], ...]  # in per cent, by y, then x
    reference: float | None  # in per cent
    reference_label: str

    def not_above(self, value: float) -> bool:
        return self.reference is not None and value <= self.reference


@dataclass(frozen=True)
class Grid:
    """The entries of one method under pairs of two settings."""

    keys: tuple[str, str]
    at: dict[tuple[float, float], Entry]

    @property
    def default(self) -> Entry | None:
        """The entry with the method's default of both settings."""
        kind = registry().get(next(iter(self.at.values())).method)
        fields = getattr(kind, "__dataclass_fields__", {})
        if not all(key in fields for key in self.keys):
            return None
        return self.at.get((fields[self.keys[0]].default, fields[self.keys[1]].default))


def grid_of(comparison: Comparison) -> Grid | None:
    """The pairs of two numbers that one method was run under, where both vary and at least half of the grid is there."""
    for method in dict.fromkeys(entry.method for entry in comparison.entries):
        entries = [entry for entry in comparison.entries if entry.method == method]
        numbers = [{k: v for k, v in entry.settings.items() if type(v) in (int, float)} for entry in entries]
        varied = [key for key in sorted(set().union(*numbers)) if len({each[key] for each in numbers if key in each}) > 1]
        if len(varied) == 2:
            a, b = varied
            at = {(float(n[a]), float(n[b])): entry for n, entry in zip(numbers, entries, strict=True) if {a, b} <= {*n}}
            x, y = len({x for x, _ in at}), len({y for _, y in at})
            if min(x, y) > 1 and len(at) >= max(FEWEST, x * y / 2):
                return Grid((a, b), at)
    return None


def without_grid(comparison: Comparison) -> Comparison:
    """What the other figures show of a comparison with a grid: the method's default alone."""
    grid = grid_of(comparison)
    if grid is None:
        return comparison
    default, members = grid.default, [id(entry) for entry in grid.at.values()]
    kept = tuple(
        dataclasses.replace(entry, label=entry.about.title) if entry is default else entry
        for entry in comparison.entries
        if entry is default or id(entry) not in members
    )
    return dataclasses.replace(comparison, entries=kept) if kept else comparison


def collect(comparisons: Sequence[Comparison]) -> Iterator[Heat]:
    for comparison in comparisons:
        grid = grid_of(comparison)
        if grid is None:
            continue
        metric, members = comparison.metric, list(grid.at.values())
        found = {pair: spread for pair, entry in grid.at.items() if (spread := entry.over_seeds(metric))}
        x, y = (tuple(sorted({pair[axis] for pair in grid.at})) for axis in (0, 1))
        values = tuple(tuple(percent(found[a, b])[0] if (a, b) in found else None for a in x) for b in y)
        others = [entry for entry in comparison.entries if entry.about.learns and not any(entry is one for one in members)]
        known = [(spread, entry.label) for entry in others if (spread := entry.over_seeds(metric))]
        reference, label = max(known, key=lambda pair: pair[0].mean) if known else (None, "")
        runs = max(len(entry.runs) for entry in members)
        seeds = f"{runs} seed{'s' if runs > 1 else ''}"
        beside = f"; {label}: {reference.text()} %" if reference else "; no other method was run"
        detail = f"{members[0].about.title}, {METRICS[metric]}; {comparison.detail}, {seeds}{beside}"
        titles = tuple(key.replace("tau_", "τ_") for key in grid.keys)
        yield Heat(comparison.title, detail, titles, x, y, values, percent(reference)[0] if reference else None, label)


def draw(panels: Sequence[Heat]) -> Figure:
    figure, axes = sheet(len(panels), 2, 5.8, 4.8)
    for ax, panel in zip(axes, panels, strict=True):
        z = np.array(panel.values, dtype=float)
        known = [*z[np.isfinite(z)], *([] if panel.reference is None else [panel.reference])]
        norm = Normalize(min(known), max(*known, min(known) + 0.1))
        image = ax.imshow(z, cmap="cividis", norm=norm, origin="lower", aspect="auto")
        for (y, x), value in np.ndenumerate(z):
            if np.isnan(value):
                continue
            color = "white" if norm(value) < 0.55 else "#111111"
            note(ax, f"{value:.1f}", (x, y), ha="center", va="center", fontsize=7.5, color=color)
            if panel.not_above(value):
                ax.fill([x - 0.5, x - 0.5, x - 0.14], [y + 0.14, y + 0.5, y + 0.5], color=WRONG, ec="white", lw=0.6)
        ax.set_xticks(range(len(panel.x)), [f"{v:g}" for v in panel.x])
        ax.set_yticks(range(len(panel.y)), [f"{v:g}" for v in panel.y])
        ax.set(xlabel=panel.axes[0], ylabel=panel.axes[1])
        bar = figure.colorbar(image, ax=ax, shrink=0.9)
        bar.set_label("%")
        if panel.reference is not None:
            bar.ax.axhline(panel.reference, color="white", lw=3)
            bar.ax.axhline(panel.reference, color=WRONG, lw=1.6)
            text, at = f"{panel.reference_label} {panel.reference:.1f}", (0, panel.reference)
            style = {"xycoords": ("axes fraction", "data"), "rotation": 90, "fontsize": 7.5, "color": "#b34a00"}
            note(bar.ax, text, at, (-4, 0), ha="right", va="center", **style)
        headline(ax, panel.title, panel.detail, 60)
    return figure


def plot(panel: Heat) -> dict[str, Any]:
    """For the page."""
    x, y = panel.axes
    z = [[None if v is None else round(v, 2) for v in row] for row in panel.values]

    def text(value: float | None) -> str:
        return "" if value is None else f"{value:.1f}{' ▾' if panel.not_above(value) else ''}"

    def beside(value: float | None) -> str:
        if value is None or panel.reference is None:
            return ""
        return f"{value - panel.reference:+.2f} to {panel.reference_label} ({panel.reference:.2f})"

    heat = {
        "type": "heatmap",
        "x": [f"{v:g}" for v in panel.x],
        "y": [f"{v:g}" for v in panel.y],
        "z": z,
        "text": [[text(v) for v in row] for row in z],
        "texttemplate": "%{text}",
        "customdata": [[beside(v) for v in row] for row in z],
        "hovertemplate": f"{x} %{{x}}, {y} %{{y}}: %{{z:.2f}} %<br>%{{customdata}}<extra></extra>",
        "colorscale": "Cividis",
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"title": {"text": "%"}, "thickness": 12},
    }
    category: dict[str, Any] = {"type": "category", "showgrid": False}
    return {"data": [heat], "layout": {"xaxis": axis(x, **category), "yaxis": axis(y, **category), "height": 480}}
