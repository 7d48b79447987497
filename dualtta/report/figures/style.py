"""What all figures share: the styles of a panel, matplotlib's settings, titles, and saving.

A method has one colour, marker, dash and hatch in every figure (`dualtta.report.methods`); the last three tell methods apart in
grey.
"""

import io
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from dualtta.files import write_bytes
from dualtta.report.comparisons import Spread
from dualtta.report.methods import DASHES, Style

WRONG = "#d55e00"
WHISKER: dict[str, Any] = {"color": "#222222", "capsize": 2, "lw": 0.9}
PAPER: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.8,
    "axes.grid": False,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "dualtta",  # the same file for the same records
    "svg.fonttype": "path",
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
    "text.parse_math": False,  # names may hold "$"
}


@dataclass(frozen=True)
class Panel:
    """One diagram."""

    title: str
    detail: str


@dataclass(frozen=True)
class Series:
    """What a panel shows of one method under one setting."""

    label: str
    method: str
    style: Style


def in_panel(series: Iterable[Series]) -> list[Style]:
    """The styles of the series of one panel: further settings of a method are paler, with another dash.

    >>> one, other = Style.of("#0072b2", "o", "-"), Style.of("#e69f00", "^", "--")
    >>> series = [Series("A, x 1", "a", one), Series("B", "b", other), Series("A, x 2", "a", one)]
    >>> [(style.color, style.dash) for style in in_panel(series)]
    [('#0072b2', '-'), ('#e69f00', '--'), ('#4a9bc8', '--')]
    """
    seen: Counter[str] = Counter()
    dashes, made = [*DASHES], []
    for one in series:
        style, number = one.style, seen[one.method]
        seen[one.method] += 1
        dash = dashes[((dashes.index(style.dash) if style.dash in dashes else 0) + number) % len(dashes)]
        paler = min(0.29 * number, 0.58)
        color = "#" + "".join(f"{round(part + paler * (255 - part)):02x}" for part in bytes.fromhex(style.color[1:]))
        made.append(replace(style, color=color, dash=dash, line=DASHES[dash]) if number else style)
    return made


def wrap(text: str, width: int, lines: int) -> str:
    """Long names on several lines, also broken after "_" and "+", and cut beyond them.

    >>> wrap("a_rather_long_name_of_a_dataset", 12, 2)
    'a_rather_\\nlong_name…'
    """
    wrapper = textwrap.TextWrapper(width)
    wrapper.wordsep_re = re.compile(r"(\s+|[^\s_+]*[_+]+)")
    found = wrapper.wrap(text)
    return "\n".join(found if len(found) <= lines else [*found[: lines - 1], found[lines - 1].rstrip("_ ") + "…"])


def percent(spread: Spread) -> tuple[float, float]:
    """Mean and deviation in per cent; a deviation of 0 where there is none.

    >>> percent(Spread(0.5, None, 1))
    (50.0, 0)
    """
    return 100 * spread.mean, 100 * (spread.deviation or 0)


def percents(values: Iterable[float | None], digits: int = 2) -> list[float | None]:
    """Fractions in per cent, rounded for the page."""
    return [None if value is None else round(100 * value, digits) for value in values]


def axis(title: str, **options: Any) -> dict[str, Any]:
    """An axis of a plotly figure."""
    return {"title": {"text": title}, **options}


@contextmanager
def paper() -> Iterator[None]:
    """Draw with the settings above; the caller's settings are restored."""
    with matplotlib.rc_context(PAPER):
        yield


def sheet(panels: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of small multiples in at most so many columns, with inches for each panel; no window, no global state."""
    columns = min(columns, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(width * columns, height * rows))
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for unused in axes[panels:]:
        unused.set_visible(False)
    return figure, axes[:panels]


def note(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float] = (0, 0), **options: Any) -> Text:
    """Text at a point of the axes, moved by so many typographic points."""
    return axes.annotate(text, at, xytext=shift, textcoords="offset points", **options)


def headline(axes: Axes, title: str, detail: str, width: int) -> None:
    """A panel's title, with the detail in a smaller line below it; neither widens the space between panels."""
    detail = wrap(detail, int(width * 1.4), 2)
    head = axes.set_title(wrap(title, width, 2) + ("\n" * (detail.count("\n") + 1) if detail else ""), pad=8)
    head.set_in_layout(not detail)  # its width must not count; the line below keeps its height
    if detail:
        below = note(axes, detail, (0, 1), (0, 6), xycoords="axes fraction", fontsize=7.5, color="#555555")
        below.set_in_layout(False)
        note(axes, "\n" * (head.get_text().count("\n") + 1), (0, 1), (0, 8), xycoords="axes fraction", fontsize=9)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write as PNG and SVG, each whole or not at all."""
    FigureCanvasAgg(figure)
    folder.mkdir(parents=True, exist_ok=True)
    written = {"png": io.BytesIO(), "svg": io.BytesIO()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)  # characters that the font lacks are drawn as boxes
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for both files
        figure.savefig(written["png"], format="png", metadata={"Software": None})
        figure.savefig(written["svg"], format="svg", metadata={"Date": None, "Creator": None})
    made = []
    for kind, buffer in written.items():
        write_bytes(folder / f"{name}.{kind}", buffer.getvalue())
        made.append(folder / f"{name}.{kind}")
    return made
