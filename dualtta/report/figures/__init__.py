"""Figures, one a file: `collect` makes numbers of comparisons, `draw` is for matplotlib, `plot` for plotly on the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dualtta.processes import run, stopping
from dualtta.report.comparisons import Comparison
from dualtta.report.figures import cost, domains, quadrants, reliability, sample_use, sensitivity, stream
from dualtta.report.figures.style import Panel, paper, save

FEW = 4  # sheets: to draw so many takes no longer than to start a process
MOST = 60  # processes: Windows supports no more


@dataclass(frozen=True)
class Kind:
    """A kind of figure, with a panel for each thing it shows."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    draw: Callable[[Sequence[Any]], Any]
    plot: Callable[[Any], dict[str, Any]]
    a_page: int  # panels on one sheet


FILES: tuple[ModuleType, ...] = (sample_use, quadrants, stream, domains, reliability, cost, sensitivity)


def kinds(comparisons: Sequence[Comparison]) -> list[Kind]:
    """Every kind of figure that the records have numbers for."""
    plain = [sensitivity.without_grid(comparison) for comparison in comparisons]
    found = [(file, tuple(file.collect(comparisons if file is sensitivity else plain))) for file in FILES]
    return [
        Kind(file.NAME, file.TITLE, file.CAPTION, panels, file.draw, file.plot, file.A_PAGE) for file, panels in found if panels
    ]


def draw_all(
    found: Sequence[Kind], folder: Path, progress: Callable[[int], None] = lambda done: None, workers: int = 1
) -> list[Path]:
    """Draw every sheet of every kind as PNG and SVG, in so many processes; `progress` is called with the sheets done."""
    made: dict[str, list[Path]] = {}

    def done(drawn: tuple[str, list[Path]]) -> None:
        made.update([drawn])
        progress(len(made))

    wanted = sheets(found)
    run(draw_sheet, ((folder, *sheet) for sheet in wanted), max(1, min(workers, len(wanted) // FEW, MOST)), done)
    return [path for name, *_ in wanted for path in made[name]]


def draw_sheet(folder: Path, name: str, draw: Callable[[Sequence[Any]], Any], panels: Sequence[Any]) -> tuple[str, list[Path]]:
    """The name of the sheet and its files; none where the drawing was interrupted."""
    if stopping():
        return name, []
    with paper():
        return name, save(draw(panels), folder, name)


def sheets(found: Sequence[Kind]) -> list[tuple[str, Callable[[Sequence[Any]], Any], tuple[Any, ...]]]:
    """The files to draw: their stems, and the panels on each."""
    made = []
    for kind in found:
        cut = [kind.panels[i : i + kind.a_page] for i in range(0, len(kind.panels), kind.a_page)]
        made += [(f"{kind.name}-{n}" if len(cut) > 1 else kind.name, kind.draw, part) for n, part in enumerate(cut, 1)]
    return made
