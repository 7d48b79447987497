"""How everything is drawn: one colour, marker, dash and hatch a method, the same in every figure, on paper and on the page.

The colours are those of Okabe and Ito, that colour-blind people can tell apart, and a few between them; whoever prints in grey
has the markers, dashes and hatches.
"""

import io
import textwrap
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.files import write_bytes
from dualtta.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Ink:
    """A method's looks: of matplotlib, and by plotly's names for the same."""

    color: str
    marker: str
    dash: str
    hatch: str
    symbol: str  # plotly's marker
    line: str  # plotly's dash


DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}  # matplotlib's, plotly's
SYMBOLS = {  # plotly's names of matplotlib's markers
    "x": "x-thin-open",
    "v": "triangle-down",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "<": "triangle-left",
    "P": "cross",
    ">": "triangle-right",
    "o": "circle",
    "h": "hexagon",
    "*": "star",
    "p": "pentagon",
}
OTHERS = (
    Ink("#b8a000", "h", ":", "oo", "hexagon", "dot"),
    Ink("#8c564b", "*", "-.", "**", "star", "dashdot"),
    Ink("#5b8a9a", "p", "--", "++", "pentagon", "dash"),
)
RIGHT, WRONG, UNUSED = "#009e73", "#d55e00", "#d9d9d9"
SHARE = ((0.0, "#f6f1e4"), (0.5, "#8fbcd9"), (1.0, "#00507d"))  # of right predictions: from pale to deep
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
    "text.parse_math": False,  # a dataset may be called anything, "$" included
}


def ink(method: str) -> Ink:
    """A method's looks; one that this package does not know gets one of a few by its name.

    >>> ink("dualtta").color, ink("mine") == ink("mine")
    ('#0072b2', True)
    """
    look = vars(METHODS[method]).get("appearance") if method in METHODS else None
    if look is None:
        return OTHERS[zlib.crc32(method.encode()) % len(OTHERS)]
    return Ink(look.color, look.marker, look.dash, look.hatch, look.symbol or SYMBOLS[look.marker], DASHES[look.dash])


def inks(methods: Iterable[str]) -> list[Ink]:
    """Looks of what stands in one panel: further settings of a method are paler, each with a dash of its own.

    >>> [(look.color, look.dash) for look in inks(["dualtta", "tent", "dualtta"])]
    [('#0072b2', '-'), ('#e69f00', '--'), ('#4a9bc8', '--')]
    """
    seen: dict[str, int] = {}
    made = []
    for method in methods:
        look, number = ink(method), seen.get(method, 0)
        seen[method] = number + 1
        dash = [*DASHES][([*DASHES].index(look.dash) + number) % len(DASHES)]
        paler = min(0.29 * number, 0.58)
        color = "#" + "".join(f"{round(part + paler * (255 - part)):02x}" for part in bytes.fromhex(look.color[1:]))
        made.append(replace(look, color=color, dash=dash, line=DASHES[dash]) if number else look)
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


@contextmanager
def paper() -> Iterator[None]:
    """Draw without a window, by the settings above; the caller's own settings come back."""
    import matplotlib

    with matplotlib.rc_context(PAPER):
        yield


def sheet(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple["Figure", list["Axes"]]:
    """A figure of small multiples, with inches for each; no window, no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows))
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def headline(axes: "Axes", title: str, detail: str = "", width: int = 44) -> None:
    """A panel's title, and what it is about in a smaller line below it; neither pushes the panels apart."""
    detail = wrap(detail, int(width * 1.4), 2)
    head = axes.set_title(wrap(title, width, 2) + ("\n" * (detail.count("\n") + 1) if detail else ""), pad=8)
    head.set_in_layout(not detail)  # else its width would count; the room above is kept by the line below
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
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)  # a name in letters that the font has not is shown as boxes
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for both files
        figure.savefig(written["png"], format="png", metadata={"Software": None})
        figure.savefig(written["svg"], format="svg", metadata={"Date": None, "Creator": None})
    made = []
    for kind, buffer in written.items():
        write_bytes(folder / f"{name}.{kind}", buffer.getvalue())
        made.append(folder / f"{name}.{kind}")
    return made
