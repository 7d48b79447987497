"""Sample use: how many samples each method adapts on, and how many of them in the right direction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dualtta.report.comparisons import Comparison, Spread
from dualtta.report.figures.style import RIGHT, UNUSED, WRONG, headline, sheet, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TITLE = "sample-use", "Sample use"
CAPTION = (
    "How many samples each method adapts on. Rightly used: a correct prediction whose entropy is minimised (D+) or an "
    "incorrect one whose entropy is maximised (D-). Mean and deviation over seeds; methods that select no samples are left out."
)
A_PAGE = 6


@dataclass(frozen=True)
class Bar:
    """Shares of all samples."""

    label: str
    method: str
    right: Spread
    wrong: Spread
    used: Spread


@dataclass(frozen=True)
class Use:
    title: str
    detail: str
    bars: tuple[Bar, ...]


def collect(comparisons: Sequence[Comparison]) -> list[Use]:
    made = []
    for comparison in comparisons:
        bars = []
        for entry in comparison.entries:
            used, right = entry.over_seeds("adapt"), entry.over_seeds("corr_adapt")
            if not entry.about.learns or used is None or right is None:
                continue
            wrong = Spread.of([run.adapt - run.corr_adapt for run in entry.runs])
            bars.append(Bar(entry.label, entry.method, right, wrong, used))
        if bars:
            made.append(Use(comparison.title, comparison.detail, tuple(bars)))
    return made


def draw(panels: Sequence[Use]) -> "Figure":
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    tallest = max(len(panel.bars) for panel in panels)
    figure, axes = sheet(rows, columns, 5.6, 1.3 + 0.34 * tallest)
    for ax, panel in zip(axes, panels, strict=False):
        for y, bar in enumerate(panel.bars):
            right, wrong = 100 * bar.right.mean, 100 * bar.wrong.mean
            ax.barh(y, 100, color="none", edgecolor=UNUSED, linewidth=0.8, height=0.62)
            ax.barh(y, right, color=RIGHT, height=0.62, label="used rightly" if y == 0 else None)
            ax.barh(
                y,
                wrong,
                left=right,
                color="#fbe3d3",
                edgecolor=WRONG,
                hatch="/////",
                height=0.62,
                label="used wrongly" if y == 0 else None,
            )
            ax.errorbar(right, y, xerr=100 * (bar.right.deviation or 0), color="#222222", capsize=2, lw=0.9)
            ax.annotate(
                f"{right:.1f} of {100 * bar.used.mean:.1f}",
                (100, y),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                annotation_clip=False,
            )
        ax.set_yticks(range(len(panel.bars)), [wrap(bar.label, 26, 2) for bar in panel.bars])
        ax.set_ylim(tallest - 0.4, -0.6)
        ax.set_xlim(0, 100)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("share of the samples, %; at the right: rightly of all used")
        headline(ax, panel.title, panel.detail, 52)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def plot(panel: Use) -> dict[str, Any]:
    """For the page."""
    labels = [bar.label for bar in panel.bars]

    def part(name: str, key: str, marker: dict[str, Any]) -> dict[str, Any]:
        spreads: list[Spread] = [getattr(bar, key) for bar in panel.bars]
        return {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": labels,
            "x": [round(100 * s.mean, 3) for s in spreads],
            "customdata": [s.text() for s in spreads],
            "hovertemplate": "%{y}<br>" + name + ": %{customdata} %<extra></extra>",
            "marker": marker,
        }

    pattern = {"shape": "/", "fgcolor": WRONG, "bgcolor": "rgba(213,94,0,.18)", "size": 6}
    return {
        "data": [
            part("used rightly", "right", {"color": RIGHT}),
            part("used wrongly", "wrong", {"color": WRONG, "pattern": pattern, "line": {"color": WRONG, "width": 1}}),
        ],
        "layout": {
            "barmode": "stack",
            "xaxis": {"title": {"text": "share of the samples, %"}, "range": [0, 100]},
            "yaxis": {"autorange": "reversed", "automargin": True},
            "height": 150 + 34 * len(labels),
        },
    }
