"""Sample use: how many samples each method adapts on, and how many of them in the right direction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from dualtta.report.comparisons import Comparison, Spread
from dualtta.report.figures.style import WHISKER, WRONG, Panel, axis, headline, note, percent, percents, sheet, wrap

NAME, TITLE = "sample-use", "Sample use"
CAPTION = (
    "How many samples each method adapts on. Rightly used: a correct prediction whose entropy is minimised (D+) or an "
    "incorrect one whose entropy is maximised (D-). Mean and deviation over seeds; methods that select no samples are left out."
)
A_PAGE = 6
RIGHT, UNUSED = "#009e73", "#d9d9d9"
TEXTURE = {"shape": "/", "fgcolor": WRONG, "bgcolor": "rgba(213,94,0,.18)", "size": 6}


@dataclass(frozen=True)
class Bar:
    """Shares of all samples."""

    label: str
    right: Spread
    wrong: Spread
    used: Spread


@dataclass(frozen=True)
class Use(Panel):
    bars: tuple[Bar, ...]


def collect(comparisons: Sequence[Comparison]) -> Iterator[Use]:
    for comparison in comparisons:
        bars = []
        for entry in comparison.entries:
            used, right = entry.over_seeds("adapt"), entry.over_seeds("corr_adapt")
            if entry.about.learns and used and right:
                wrong = Spread.of([run.adapt - run.corr_adapt for run in entry.runs])
                bars.append(Bar(entry.label, right, wrong, used))
        if bars:
            yield Use(comparison.title, comparison.detail, tuple(bars))


def draw(panels: Sequence[Use]) -> Figure:
    tallest = max(len(panel.bars) for panel in panels)
    figure, axes = sheet(len(panels), 2, 5.6, 1.3 + 0.34 * tallest)
    for ax, panel in zip(axes, panels, strict=True):
        for y, bar in enumerate(panel.bars):
            (right, deviation), (wrong, _), (used, _) = map(percent, (bar.right, bar.wrong, bar.used))
            names = (None, None) if y else ("used rightly", "used wrongly")
            ax.barh(y, 100, 0.62, color="none", edgecolor=UNUSED, linewidth=0.8)
            ax.barh(y, right, 0.62, color=RIGHT, label=names[0])
            ax.barh(y, wrong, 0.62, right, color="#fbe3d3", edgecolor=WRONG, hatch="/////", label=names[1])
            ax.errorbar(right, y, xerr=deviation, **WHISKER)
            note(ax, f"{right:.1f} of {used:.1f}", (100, y), (5, 0), va="center", fontsize=8, annotation_clip=False)
        ax.set_yticks(range(len(panel.bars)), [wrap(bar.label, 26, 2) for bar in panel.bars])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set(xlim=(0, 100), ylim=(tallest - 0.4, -0.6), xlabel="share of the samples, %; at the right: rightly of all used")
        headline(ax, panel.title, panel.detail, 52)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def plot(panel: Use) -> dict[str, Any]:
    """For the page."""
    labels = [bar.label for bar in panel.bars]

    def part(name: str, spreads: list[Spread], **marker: Any) -> dict[str, Any]:
        hover = "%{y}<br>" + name + ": %{customdata} %<extra></extra>"
        numbers = {"x": percents([s.mean for s in spreads], 3), "y": labels, "customdata": [s.text() for s in spreads]}
        return {"type": "bar", "orientation": "h", "name": name, **numbers, "hovertemplate": hover, "marker": marker}

    right = part("used rightly", [bar.right for bar in panel.bars], color=RIGHT)
    edge = {"color": WRONG, "width": 1}
    wrong = part("used wrongly", [bar.wrong for bar in panel.bars], color=WRONG, pattern=TEXTURE, line=edge)
    layout = {
        "barmode": "stack",
        "xaxis": axis("share of the samples, %", range=[0, 100]),
        "yaxis": {"autorange": "reversed", "automargin": True},
        "height": 150 + 34 * len(labels),
    }
    return {"data": [right, wrong], "layout": layout}
