"""Figures of a diagnosis. Groups differ in colour (Okabe and Ito's palette) and in marker, for print."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtta.paper.theory.findings import ENOUGH, GROUPS, group_masks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dualtta.paper.theory.diagnose import Diagnosis

COLORS = {"D+": "#0072B2", "D-": "#D55E00", "rest": "#8C8C8C"}
MARKERS = {"D+": "o", "D-": "^", "rest": "x"}
LINES = {"gap": ("#0072B2", "o", "-"), "probability": ("#D55E00", "^", "--"), "loss": ("#009E73", "s", ":")}
NAMES = {"gap": "$s_y - s_k$", "probability": "$p_y$", "loss": "the loss"}
DRAWN = ("rest", "D+", "D-")  # the smallest group on top
SIZE = r"\|\Delta\mu\| + \|\Delta\sigma\|"
STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "svg.hashsalt": "dualtta",  # the same figure, the same bytes
    "svg.fonttype": "none",
}


def draw(diagnosis: "Diagnosis") -> dict[str, bytes]:
    """Every figure as PNG and SVG, by file name."""
    with _drawing():
        figures = {
            "margins": margins(diagnosis),
            "style": style_sensitivity(diagnosis),
            "first_order": first_order(diagnosis),
        }
        return {f"{name}.{kind}": _bytes(figure, kind) for name, figure in figures.items() for kind in ("png", "svg")}


@contextmanager
def _drawing() -> Iterator[None]:
    import matplotlib

    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **STYLE, "backend": "agg"}
    with matplotlib.rc_context(settings):  # independent of the user's defaults
        yield


def _figure(panels: int) -> tuple["Figure", list["Axes"]]:
    from matplotlib.figure import Figure  # not pyplot: nothing global, no window

    figure = Figure(figsize=(3.6 * panels, 3.6), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, panels)))


def _bytes(figure: "Figure", kind: str) -> bytes:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()


def margins(diagnosis: "Diagnosis") -> "Figure":
    """Left: margins against the perturbation that flips them. Right: against Theorem 1's bound, violated above the line."""
    columns, flipped = diagnosis.columns, diagnosis.columns["flip_class"] >= 0
    figure, (left, right) = _figure(2)
    censored = columns["directed"] & ~flipped
    hollow: dict[str, Any] = {"s": 16, "marker": ">", "facecolors": "none", "edgecolors": "#BBBBBB", "linewidths": 0.6}
    reached = diagnosis.about["reach"] * columns["size"][censored]
    left.scatter(reached, columns["margin"][censored], label=f"no flip ({censored.sum()})", **hollow)
    masks = group_masks(columns)
    for name in DRAWN:
        here = masks[name] & flipped
        look = _look(name, 18)
        left.scatter(columns["flip_size"][here], columns["margin"][here], label=f"{name} ({here.sum()})", **look)
        right.scatter(columns["bound"][here], columns["margin"][here], **look)
    left.set(xlabel=f"flipping size ${SIZE}$", ylabel="margin $m(x)$", title="Margin and flip")
    right.set(xlabel=f"$K\\,({SIZE})$ at the flip", ylabel="margin $m(x)$", title="Theorem 1's bound")
    if columns["directed"].any():
        _log(left)
    else:
        _nothing(left, "no direction to perturb in")
    if flipped.any():
        _log(right)
        ends = np.array([*right.get_xlim(), *right.get_ylim()])
        line = [ends.min(), ends.max()]
        right.plot(line, line, color="black", linewidth=0.8, scalex=False, scaley=False)
        respected = diagnosis.summary["bound"]["respected"]
        right.set_title(f"Theorem 1: {respected} of {flipped.sum()} flips below the line")
    else:
        _nothing(right, "no sample flips")
    _legend(figure, left)
    return figure


def style_sensitivity(diagnosis: "Diagnosis") -> "Figure":
    """The style-Jacobian's norm and the style share of the gradient, by group: every sample, quartiles, median."""
    columns = diagnosis.columns
    figure, axes = _figure(2)
    titles = {"jacobian": r"Style-Jacobian $\|J_s\|$", "share": r"Style share $\|g_s\| / \|\nabla L\|$"}
    for panel, (key, title) in zip(axes, titles.items(), strict=True):
        masks = group_masks(columns)
        values = [columns[key][mask & np.isfinite(columns[key])] for mask in masks.values()]
        scatter = np.random.default_rng(0)
        for at, (name, these) in enumerate(zip(GROUPS, values, strict=True)):
            spread = at + scatter.uniform(-0.28, 0.28, len(these))
            panel.scatter(spread, these, **_look(name, 14))
            if len(these) >= ENOUGH:  # fewer give no meaningful quartiles
                low, middle, high = np.quantile(these, (0.25, 0.5, 0.75))
                panel.vlines(at, low, high, color="black", linewidth=1.2)
                panel.hlines(middle, at - 0.34, at + 0.34, color="black", linewidth=2.2)
        labels = [f"{name}\n({len(these)})" for name, these in zip(GROUPS, values, strict=True)]
        panel.set_xticks(range(len(GROUPS)), labels)
        panel.set(title=title, xlim=(-0.6, len(GROUPS) - 0.4))
        measured = np.concatenate(values)
        if not len(measured):
            _nothing(panel, "not measured", sideways=False)
        elif key == "jacobian" and (measured > 0).any():
            panel.set_yscale("log")
        else:
            panel.set_ylim(bottom=0)
    return figure


def first_order(diagnosis: "Diagnosis") -> "Figure":
    """Predicted against actual change of p_y and of the loss at the scale nearest to the draw, and the error by scale."""
    figure, (left, middle, right) = _figure(3)
    at = int(np.abs(np.log(diagnosis.scales)).argmin())
    masks, directed = group_masks(diagnosis.columns), diagnosis.columns["directed"]
    for panel, name in ((left, "probability"), (middle, "loss")):
        predicted, actual = diagnosis.predicted[name][:, at], diagnosis.actual[name][:, at]
        for group in DRAWN:
            here = masks[group] & directed
            panel.scatter(predicted[here], actual[here], label=f"{group} ({here.sum()})", **_look(group, 16))
        if directed.any():
            panel.axline((0, 0), slope=1, color="black", linewidth=0.8)
        else:
            _nothing(panel, "no direction to perturb in")
        title = f"Change of {NAMES[name]} at {diagnosis.scales[at]:g} x the draw"
        panel.set(xlabel="predicted by first order", ylabel="actual", title=title)
        _most(panel, predicted[directed])
    _legend(figure, left)
    for name, (color, marker, line) in LINES.items():
        missed = [(row["scale"], 100 * row[name]["missed"]) for row in diagnosis.summary["scales"] if row[name]["missed"]]
        if missed:
            right.plot(*zip(*missed, strict=True), color=color, marker=marker, linestyle=line, markersize=4, label=NAMES[name])
    if right.lines:
        _log(right)
        right.axhline(100, color="black", linewidth=0.6)
        right.legend(loc="best")
    else:
        _nothing(right, "nothing is missed" if directed.any() else "no direction to perturb in")
    right.set(xlabel="multiple of the draw", ylabel="% of the change", title="Missed by first order")
    return figure


def _look(group: str, size: float) -> dict[str, Any]:
    """D- has a black edge, to stand out in grey too."""
    look = {"s": size, "color": COLORS[group], "marker": MARKERS[group], "linewidths": 0.8, "alpha": 0.6}
    return look | {"edgecolors": "black", "alpha": 1.0} if group == "D-" else look


def _nothing(axes: "Axes", words: str, sideways: bool = True) -> None:
    """An empty panel: a reason, no axes."""
    axes.text(0.5, 0.5, words, ha="center", transform=axes.transAxes)
    axes.set_yticks([])
    if sideways:
        axes.set_xticks([])


def _legend(figure: "Figure", axes: "Axes") -> None:
    """A legend below the panels."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, handletextpad=0.2)


def _log(axes: "Axes") -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")


def _most(axes: "Axes", predicted: Any) -> None:
    """Cut outliers, which would compress the rest to a dot, and count them in the label."""
    if len(predicted) < 20:
        return
    low, high = np.quantile(predicted, (0.01, 0.99))
    room = 0.1 * max(high - low, 1e-12)
    outside = int(((predicted < low - room) | (predicted > high + room)).sum())
    if outside:
        axes.set_xlim(low - room, high + room)
        axes.set_xlabel(f"predicted by first order ({outside} further out)")
