"""Accuracy over the stream: in windows of samples in the order of the stream, mean and deviation over seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dualtta.records.metrics import Column
from dualtta.report.comparisons import Comparison, Entry
from dualtta.report.figures.style import Panel, Series, axis, headline, in_panel, note, sheet, wrap

NAME, TITLE = "stream", "Accuracy over the stream"
CAPTION = (
    "Accuracy in windows of samples in the order of the stream; no window reaches over the end of a domain. Lines are means "
    "over seeds, bands their deviation."
)
A_PAGE = 4
WINDOWS = 24
MANY = 10  # lines of one panel
BAND = {"mode": "lines", "fill": "toself", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}


@dataclass(frozen=True)
class Line(Series):
    mean: Column  # of each window, in per cent
    deviation: Column | None  # None with one seed

    def band(self, part: slice) -> tuple[Column, Column]:
        """A deviation below and above the mean."""
        mean, deviation = self.mean[part], 0 if self.deviation is None else self.deviation[part]
        return np.clip(mean - deviation, 0, 100), np.clip(mean + deviation, 0, 100)


@dataclass(frozen=True)
class Course(Panel):
    middles: Column  # samples seen at the middle of each window
    segments: tuple[tuple[str, int], ...]  # domain and length; no names where the order differs between seeds
    lines: tuple[Line, ...]

    @cached_property
    def starts(self) -> list[int]:
        """Where each segment begins; last, where the stream ends."""
        return [0, *accumulate(length for _, length in self.segments)]

    @cached_property
    def parts(self) -> list[slice]:
        """The windows of each segment: lines do not go on from one domain to the next."""
        return [slice(a, b) for a, b in pairwise(np.searchsorted(self.middles, self.starts).tolist())]


def edges(lengths: Sequence[int], windows: int = WINDOWS) -> list[int]:
    """Where windows begin and end: each segment is cut evenly, into a number of windows in proportion to its length.

    >>> edges([10, 30], windows=4)
    [0, 10, 20, 30, 40]
    """
    total, cuts, start = sum(lengths), [0], 0
    for length in lengths:
        parts = min(length, max(1, round(windows * length / total)))
        cuts += [start + round(length * part / parts) for part in range(1, parts + 1)]
        start += length
    return cuts


def windowed(correct: Column, cuts: Sequence[int]) -> Column:
    """The accuracy between each cut and the next.

    >>> windowed(np.array([True, False, True, True]), [0, 2, 4]).tolist()
    [0.5, 1.0]
    """
    seen = np.concatenate([[0], np.cumsum(correct, dtype=np.int64)])[list(cuts)]
    means: Column = np.diff(seen) / np.diff(cuts)
    return means


def collect(comparisons: Sequence[Comparison]) -> Iterator[Course]:
    for comparison in comparisons:
        lengths = [length for _, length in comparison.runs[0].reduced.segments]
        alike = [e for e in comparison.entries if all([n for _, n in run.reduced.segments] == lengths for run in e.runs)]
        names = segment_names([{run.reduced.segments[i][0] for e in alike for run in e.runs} for i in range(len(lengths))])
        cuts, shown = edges(lengths), alike[-MANY:]  # the newest methods
        sizes = np.diff(cuts)
        size = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
        detail = f"{comparison.detail}; windows of {size} samples"
        if len(shown) < len(comparison.entries):
            detail += f", {len(shown)} of {len(comparison.entries)} settings shown"
        segments, lines = tuple(zip(names, lengths, strict=True)), tuple(_line(entry, cuts) for entry in shown)
        yield Course(comparison.title, detail, (np.array(cuts[:-1]) + cuts[1:]) / 2, segments, lines)


def segment_names(domains: Sequence[set[str]]) -> list[str]:
    """The names of a stream's segments, from the domains that the runs have there; a segment that repeats is a pass.

    >>> names = segment_names
    >>> names([{"photo"}, {"sketch"}]), names([{"mixed"}, {"mixed"}]), names([{"photo", "sketch"}, {"photo"}])
    (['photo', 'sketch'], ['pass 1', 'pass 2'], ['', 'photo'])
    """
    names = [next(iter(one)) if len(one) == 1 else "" for one in domains]
    again = len(names) > 1 and len(set(names)) == 1 and names[0]
    return [f"pass {number}" for number in range(1, len(names) + 1)] if again else names


def _line(entry: Entry, cuts: list[int]) -> Line:
    each = np.stack([windowed(run.reduced.correct, cuts) for run in entry.runs])
    deviation = 100 * each.std(0, ddof=1) if len(each) > 1 else None
    return Line(entry.label, entry.method, entry.style, 100 * each.mean(0), deviation)


def draw(panels: Sequence[Course]) -> Figure:
    figure, axes = sheet(len(panels), 1, 9.2, 3.9)
    for ax, panel in zip(axes, panels, strict=True):
        for number, (line, style) in enumerate(zip(panel.lines, in_panel(panel.lines), strict=True)):
            marks: dict[str, Any] = {"color": style.color, "linestyle": style.dash, "marker": style.marker, "ms": 4}
            marks["lw"] = 2.2 if line.method == panel.lines[-1].method else 1.4
            marks["markevery"] = (
                (number % 3, 3) if len(panel.middles) > 12 else 1
            )  # markers of different lines at different places
            for first, part in enumerate(panel.parts):
                x = panel.middles[part]
                ax.plot(x, line.mean[part], label=None if first else wrap(line.label, 26, 3), **marks)
                if line.deviation is not None:
                    ax.fill_between(x, *line.band(part), color=style.color, alpha=0.08, lw=0)
        several, many = len(panel.segments) > 1, len(panel.segments) > 8
        names: dict[str, Any] = {"rotation": 90, "fontsize": 7} if many else {"rotation": 0, "fontsize": 8}
        names |= {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top", "color": "#555555"}
        for (name, length), start in zip(panel.segments if several else (), panel.starts, strict=False):
            if start:
                ax.axvline(start, color="#999999", lw=0.8, ls=(0, (2, 3)))
            note(ax, name.replace("_", " "), (start + length / 2, 1.0), (0, -2), **names)
        ax.set_xlim(0, panel.starts[-1])
        low, high = (min(max(float(edge), 0.0), 101.0) for edge in ax.get_ylim())
        room = 0.3 if many else 0.12 if several else 0  # for the names of the domains
        ax.set(ylim=(low, high + (high - low) * room), xlabel="samples seen", ylabel="accuracy, %")
        ax.grid(axis="y")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2)
        headline(ax, panel.title, panel.detail, 90)
    return figure


def plot(panel: Course) -> dict[str, Any]:
    """For the page: a band and a line for each method and segment; those of a method share a place in the legend."""
    data: list[dict[str, Any]] = []
    for line, style in zip(panel.lines, in_panel(panel.lines), strict=True):
        common = {"type": "scatter", "legendgroup": line.label}
        width = 3 if line.method == panel.lines[-1].method else 1.8
        for first, part in enumerate(panel.parts):
            x, deviations = panel.middles[part].tolist(), [""] * len(panel.middles[part])
            if line.deviation is not None:
                deviations = [f" ± {value:.1f}" for value in line.deviation[part]]
                low, high = (edge.round(2).tolist() for edge in line.band(part))
                data.append({**common, **BAND, "x": [*x, *x[::-1]], "y": [*high, *low[::-1]], "fillcolor": faint(style.color)})
            data.append(
                {
                    **common,
                    "mode": "lines+markers",
                    "x": x,
                    "y": [round(value, 2) for value in line.mean[part].tolist()],
                    "customdata": deviations,
                    "name": line.label,
                    "showlegend": first == 0,
                    "line": {"color": style.color, "dash": style.line, "width": width},
                    "marker": {"symbol": style.symbol, "size": 6, "color": style.color},
                    "hovertemplate": "%{y:.1f}%{customdata} %<extra>%{fullData.name}</extra>",
                }
            )
    border = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dot", "color": "#999"}}
    name = {"y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False}
    named = panel.segments if 1 < len(panel.segments) <= 8 else ()
    layout = {
        "xaxis": axis("samples seen"),
        "yaxis": axis("accuracy, %"),
        "hovermode": "x unified",
        "shapes": [{**border, "x0": start, "x1": start} for start in panel.starts[1:-1]],
        "annotations": [
            {**name, "x": start + length / 2, "text": text} for (text, length), start in zip(named, panel.starts, strict=False)
        ],
        "height": 460,
    }
    return {"data": data, "layout": layout}


def faint(color: str) -> str:
    """The colour, nearly transparent.

    >>> faint("#0072b2")
    'rgba(0,114,178,0.1)'
    """
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.1)"
