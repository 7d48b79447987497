"""One figure over all benchmarks, for a README: the points of accuracy that each method gains over a reference method."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from dualtta.report.figures.style import paper, save, sheet
from dualtta.report.methods import About
from dualtta.report.overview import Benchmark
from dualtta.report.paired import Interval
from dualtta.report.statistics import compare_cells

REFERENCE = "source"  # no adaptation
WIDEST = 1.05  # times the largest gain, to both sides


Gains = dict[str, dict[str, Interval]]  # by benchmark and method: paired difference to the reference, low, high, in points


def collect(benchmarks: Sequence[Benchmark], reference: str = REFERENCE) -> tuple[Gains, dict[str, About]]:
    """The gains, and what is known of the methods; a ValueError where no benchmark has the reference."""
    gains, methods = Gains(), dict[str, About]()
    for bench in benchmarks:
        cells = dict(iter(bench.cells.groupby("method", sort=False)))
        if reference not in cells:
            continue
        against = cells.pop(reference)
        compared = {method: compare_cells(some, against, bench.metrics[0]) for method, some in cells.items()}
        gains[bench.title] = {method: found for method, found in compared.items() if found}
        methods |= {method: some["about"].iloc[0] for method, some in cells.items()}
    if not methods:
        raise ValueError(f"no benchmark has records of {reference!r} and of another method: run both")
    return gains, dict(sorted(methods.items(), key=lambda item: item[1].order))


def draw(gains: Gains, methods: dict[str, About]) -> Figure:
    """A line a benchmark: markers are the methods' gains, whiskers the intervals, zero is the reference."""
    figure, (axes,) = sheet(1, 1, 8.2, 1.2 + 0.42 * len(gains))
    for line in range(0, len(gains), 2):
        axes.axhspan(line - 0.5, line + 0.5, color="#f6f6f6", linewidth=0)
    axes.axvline(0, color="#555555", linewidth=1)
    edge = WIDEST * max(1.0, *(points for of in gains.values() for points, _, _ in of.values()))
    for number, (method, about) in enumerate(methods.items()):
        shift, style = 0.7 * ((number + 0.5) / len(methods) - 0.5), about.style
        found = [(i + shift, of[method]) for i, of in enumerate(gains.values()) if method in of]
        y, x = [at for at, _ in found], [max(points, -edge) for _, (points, _, _) in found]
        ends = [[points - low for _, (points, low, _) in found], [high - points for _, (points, _, high) in found]]
        axes.errorbar(x, y, xerr=ends, fmt=style.marker, color=style.color, markersize=5, elinewidth=1, label=about.title)
        for at, (points, _, _) in found:
            if points < -edge:  # a larger loss stands at the edge, with its number
                beside = (6 + 20 * (number % 2), 0)
                axes.annotate(f"{points:.0f}", (-edge, at), beside, textcoords="offset points", va="center", fontsize=7)
    axes.set_xlim(-1.05 * edge, 1.05 * edge)  # an interval over few seeds may leave the figure
    axes.set_yticks(range(len(gains)), list(gains))
    axes.set_ylim(len(gains) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("points of accuracy gained over no adaptation")
    axes.grid(axis="x")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def write(path: Path, benchmarks: Sequence[Benchmark]) -> list[Path]:
    """Write the figure as PNG and SVG beside each other."""
    gains, methods = collect(benchmarks)
    with paper():
        return save(draw(gains, methods), path.parent, path.stem)
