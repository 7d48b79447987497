"""What all figures share: the styles of a panel, matplotlib's settings, titles, and saving.

A method has one colour, marker, dash and hatch in every figure (`dualtta.report.methods`); the last three tell methods apart in
grey.
"""

import io
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.files import write_bytes
from dualtta.report.comparisons import Spread
from dualtta.report.methods import DASHES, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


RIGHT, WRONG, UNUSED = "#009e73", "#d55e00", "#d9d9d9"
WHISKER: dict[str, Any] = {"color": "#222222", "capsize": 2, "lw": 0.9}
SHARE = ((0.0, "#f6f1e4"), (0.5, "#8fbcd9"), (1.0, "#00507d"))  # of correct predictions: from pale to deep
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


def in_panel(lines: Iterable[Any]) -> list[Style]:
    """The styles of what is in one panel, each with a `method` and a `style`: further settings of a method are paler, with
    another dash.

    >>> from types import SimpleNamespace as Line
    >>> one, other = Style.of("#0072b2", "o", "-"), Style.of("#e69f00", "^", "--")
    >>> lines = [Line(method="a", style=one), Line(method="b", style=other), Line(method="a", style=one)]
    >>> [(style.color, style.dash) for style in in_panel(lines)]
    [('#0072b2', '-'), ('#e69f00', '--'), ('#4a9bc8', '--')]
    """
    seen: dict[str, int] = {}
    made = []
    for line in lines:
        style, number = line.style, seen.get(line.method, 0)
        seen[line.method] = number + 1
        dashes = [*DASHES]
        dash = dashes[((dashes.index(style.dash) if style.dash in dashes else 0) + number) % len(dashes)]
        paler = min(0.29 * number, 0.58)
        color = "#" + "".join(f"{round(part + paler * (255 - part)):02x}" for part in bytes.fromhex(style.color[1:]))
        made.append(replace(style, color=color, dash=dash, line=DASHES[dash]) if number else style)
    return made


def wrap(text: str, width: int = 34, lines: int = 3) -> str:
    """Long names on several lines, and cut beyond them.

    >>> wrap("a_rather_long_name_of_a_dataset", 12, 2)
    'a_rather_\\nlong_name…'
    """
    spaced = text.replace("_", "_\u200b").replace("+", "+\u200b").replace("\u200b", " \u200b")
    found: list[str] = [""]
    for word in spaced.split(" "):
        glue = "" if word.startswith("\u200b") or not found[-1] else " "
        piece = word.lstrip("\u200b")
        if found[-1] and len(found[-1]) + len(glue) + len(piece) > width:
            found.append("")
            glue = ""
        found[-1] += glue + piece
    found = [part for line in found for part in (textwrap.wrap(line, width) or [line])]
    if len(found) > lines:
        found = [*found[: lines - 1], found[lines - 1].rstrip("_ ") + "…"]
    return "\n".join(found)


def percent(spread: Spread) -> tuple[float, float]:
    """Mean and deviation in per cent; a deviation of 0 where there is none.

    >>> percent(Spread(0.5, None, 1))
    (50.0, 0.0)
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
    import matplotlib

    with matplotlib.rc_context(PAPER):
        yield


def sheet(panels: int, columns: int, width: float, height: float, **options: Any) -> tuple["Figure", list["Axes"]]:
    """A figure of small multiples in at most so many columns, with inches for each panel; no window, no global state."""
    from matplotlib.figure import Figure

    columns = min(columns, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(width * columns, height * rows))
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for unused in axes[panels:]:
        unused.set_visible(False)
    return figure, axes[:panels]


def note(axes: "Axes", text: str, at: tuple[float, float], shift: tuple[float, float] = (0, 0), **options: Any) -> None:
    """Text at a point of the axes, moved by so many typographic points."""
    axes.annotate(text, at, xytext=shift, textcoords="offset points", **options)


def headline(axes: "Axes", title: str, detail: str = "", width: int = 44) -> None:
    """A panel's title, with the detail in a smaller line below it; neither widens the space between panels."""
    detail = wrap(detail, int(width * 1.4), 2)
    head = axes.set_title(wrap(title, width, 2) + ("\n" * (detail.count("\n") + 1) if detail else ""), pad=8)
    head.set_in_layout(not detail)  # its width must not count; the line below keeps its height
    if detail:
        lines = head.get_text().count("\n") + 1
        note = axes.annotate(
            detail, (0, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points", fontsize=7.5, color="#555555"
        )
        note.set_in_layout(False)
        axes.annotate("\n" * lines, (0, 1), xytext=(0, 8), xycoords="axes fraction", textcoords="offset points", fontsize=9)


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write as PNG and SVG, each whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

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
