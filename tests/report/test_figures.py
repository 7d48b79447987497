"""Figures by the numbers behind them; then that they are drawn, whole, for paper and for the page."""

import json
import signal
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dualtta import processes
from dualtta.methods import METHODS
from dualtta.records.reading import read_all
from dualtta.report import figures, read_results
from dualtta.report.comparisons import Comparison, comparisons
from dualtta.report.figures import (
    cost,
    domains,
    draw_all,
    kinds,
    quadrants,
    reliability,
    sample_use,
    sensitivity,
    sheets,
    stream,
)
from dualtta.report.methods import about
from dualtta.report.outcomes import Reducer
from dualtta.report.page_summary import standings


def compared(out: Path) -> list[Comparison]:
    frame, _ = read_results([out])
    assert not frame.notes
    return comparisons(frame)


@pytest.fixture(scope="module")
def out(tmp_path_factory, make) -> Path:
    """Two datasets: one of two domains under three methods and three seeds, one with groups under two methods and one seed."""
    out = tmp_path_factory.mktemp("results")
    for method, accuracy in (("source", 0.5), ("deyo", 0.7), ("dualtta", 0.8)):
        for seed in (1, 2, 3):
            make(out, method, seed, accuracy=accuracy, domains=("fog", "snow"))
    for method, accuracy in (("source", 0.6), ("dualtta", 0.7)):
        make(out, method, 1, dataset="other", groups=("left", "right"), accuracy=accuracy)
    return out


@pytest.fixture(scope="module")
def both(out) -> list[Comparison]:
    return compared(out)


def summaries(out: Path, dataset: str, method: str) -> list[dict]:
    found, _ = read_all(out)
    mine = [r for r in found if (r.cell["cell"]["dataset"]["name"], r.cell["cell"]["method"]["name"]) == (dataset, method)]
    return [r.summary for r in sorted(mine, key=lambda r: r.cell["cell"]["seed"])]


def test_records_on_the_same_data_are_compared_and_those_of_other_data_are_not(both):
    assert [(c.title, [e.label for e in c.entries]) for c in both] == [
        ("made", ["No adapt", "DeYO", "DualTTA"]),
        ("other", ["No adapt", "DualTTA"]),
    ]
    assert [len(e.runs) for e in both[0].entries] == [3, 3, 3]
    assert [c.metric for c in both] == ["accuracy", "mean_of_groups"]


def test_sample_use_is_that_of_the_summaries_and_leaves_out_who_selects_nobody(both, out):
    made = next(sample_use.collect(both))
    assert [bar.label for bar in made.bars] == ["DeYO", "DualTTA"]
    bar, of = made.bars[1], summaries(out, "made", "dualtta")
    assert bar.right.mean == pytest.approx(np.mean([s["corr_adapt"] for s in of]))
    assert bar.wrong.deviation == pytest.approx(np.std([s["adapt"] - s["corr_adapt"] for s in of], ddof=1))
    assert bar.right.mean + bar.wrong.mean == pytest.approx(bar.used.mean)


def test_quadrants_are_summed_over_seeds_and_say_which_drop_and_thresholds_are_in_force(both, out):
    made = next(quadrants.collect(both))
    of = [s["quadrants"]["falls_holds"] for s in summaries(out, "made", "dualtta")]
    assert made.corners["falls_holds"].count == sum(q["count"] for q in of)
    assert made.corners["falls_holds"].share == pytest.approx(
        sum(q["count"] * q["correct"] for q in of) / sum(q["count"] for q in of)
    )
    counts = {name: sum(s["quadrants"][name]["count"] for s in summaries(out, "made", "dualtta")) for name in made.corners}
    assert {name: corner.count for name, corner in made.corners.items()} == counts
    assert made.detail == "absolute drops, τ_sa = 0.4, τ_sp = 0.7; 1,200 samples, 3 seeds"


def test_an_empty_quadrant_has_no_share(tmp_path, make, rows_of):
    rows = rows_of(100, 1)
    rows["drop_alter"][:] = 0.9
    rows["drop_preserve"][:] = 0.0
    rows["plus"][:], rows["minus"][:] = True, False
    make(tmp_path, rows=rows)
    made = next(quadrants.collect(compared(tmp_path)))
    assert made.corners["stays_breaks"].share is None
    assert quadrants.plot(made)["data"][0]["z"][0][0] is None


def test_the_course_over_the_stream_averages_to_the_accuracy_and_stops_at_domains(both, out):
    course, other = stream.collect(both)
    assert course.segments == (("fog", 200), ("snow", 200))
    line = course.lines[-1]
    assert line.label == "DualTTA"
    assert len(line.mean) == len(course.middles) == 24
    accuracies = [s["accuracy"] for s in summaries(out, "made", "dualtta")]
    widths = np.diff(stream.edges([200, 200]))
    assert np.average(line.mean, weights=widths) == pytest.approx(100 * np.mean(accuracies))
    assert [len(range(*part.indices(24))) for part in course.parts] == [12, 12]
    assert line.deviation is not None
    assert other.lines[0].deviation is None  # one seed


def test_windows_are_cut_within_segments_and_count_every_sample_once():
    cuts = stream.edges([7, 100, 1], windows=10)
    assert cuts[0] == 0
    assert cuts[-1] == 108
    assert {7, 107} <= set(cuts)
    assert all(a < b for a, b in pairwise(cuts))


def test_bars_by_domain_are_the_summaries(both, out):
    (made,) = domains.collect(both)
    assert made.domains == ("fog", "snow")
    values = [s["domains"]["snow"] for s in summaries(out, "made", "deyo")]
    row = made.rows[1]
    assert (row.label, row.accuracy["snow"].seeds) == ("DeYO", 3)
    assert row.accuracy["snow"].mean == pytest.approx(np.mean(values))


def test_runs_on_one_corruption_each_come_together_in_the_published_order(tmp_path, make):
    for corruption in ("snow", "gaussian_noise", "fog"):
        make(tmp_path, choices={"corruptions": [corruption], "severities": [5]}, domains=(f"{corruption}_5",))
    (made,) = domains.collect(compared(tmp_path))
    assert made.domains == ("gaussian_noise", "snow", "fog")


def test_each_bar_stands_at_its_own_label_though_a_panel_lacks_a_method(tmp_path, make):
    levels = {"source": 0.3, "deyo": 0.5, "dualtta": 0.7}
    for corruption in ("fog", "snow"):
        for method, accuracy in levels.items():
            if (corruption, method) != ("snow", "deyo"):
                make(tmp_path, method, choices={"corruptions": [corruption], "severities": [5]}, accuracy=accuracy)
    (made,) = domains.collect(compared(tmp_path))
    snow, fog = (ax for ax in domains.draw([made]).axes if ax.get_visible())
    labels = [text.get_text() for text in snow.get_yticklabels()]
    assert labels == ["No adapt", "DeYO", "DualTTA"]
    for ax, missing in ((snow, "DeYO"), (fog, None)):
        shown = {labels[round(bar.get_y() + bar.get_height() / 2)]: bar.get_width() for bar in ax.patches}
        wanted = {"No adapt": 30, "DeYO": 50, "DualTTA": 70}
        assert shown == pytest.approx({label: value for label, value in wanted.items() if label != missing}, abs=10)


def test_settings_of_a_method_are_in_one_order_everywhere_and_no_two_of_them_look_alike(tmp_path, make):
    for seed in (1, 2):  # another order of folders
        out = tmp_path / str(seed)
        for lam in (1.0, 0.25, 0.0, 0.5):
            make(out, seed=seed, settings={"lam": lam})
        (one,) = compared(out)
        assert [entry.label for entry in one.entries] == [
            *(f"DualTTA, lam {lam}" for lam in ("0.25", "0.5", "1")),
            "DualTTA, without D-",
        ]
        drawn = [trace for trace in stream.plot(next(stream.collect([one])))["data"] if trace.get("showlegend")]
        assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in drawn}) == 4


def test_reliability_pools_the_seeds_and_keeps_each_seeds_error(both, out):
    made = next(reliability.collect(both))
    curve = made.curves[-1]
    of = summaries(out, "made", "dualtta")
    assert sum(curve.samples) == 1200
    hits = sum(n * a for n, a in zip(curve.samples, curve.accuracy, strict=True))
    assert hits == pytest.approx(sum(s["accuracy"] * s["samples"] for s in of))
    assert curve.error is not None
    assert curve.error.mean == pytest.approx(np.mean([s["calibration_error"] for s in of]))


def test_cost_counts_forwards_a_sample_and_names_the_machine(both):
    made = next(cost.collect(both))
    assert {dot.label: dot.forwards for dot in made.dots} == {"No adapt": 1, "DeYO": 2, "DualTTA": 3}
    assert made.dots[-1].speed is not None
    assert made.dots[-1].speed.mean == pytest.approx(1000)
    assert "1 thread of a x86_64 CPU" in made.detail


def test_dots_that_would_hide_each_other_are_set_aside():
    aside = cost.dodge([1.0, 1.01, 3.0])
    assert aside[0] < 0 < aside[1]
    assert aside[2] == 0


@pytest.fixture(scope="module")
def grid(tmp_path_factory, make) -> list[Comparison]:
    out = tmp_path_factory.mktemp("grid")
    for sa in (0.2, 0.4):
        for sp in (0.5, 0.7):
            if (sa, sp) != (0.2, 0.5):  # not finished
                make(out, settings={"tau_sa": sa, "tau_sp": sp}, accuracy=0.6 + sa / 10)
    make(out, settings={"tau_sa": 0.9, "tau_sp": 0.7}, accuracy=0.3)
    make(out, "deyo", accuracy=0.5)
    return compared(out)


def test_the_heat_map_has_a_hole_where_a_pair_was_not_run_and_deyo_beside_it(grid):
    (heat,) = sensitivity.collect(grid)
    assert heat.x == (0.2, 0.4, 0.9)
    assert heat.y == (0.5, 0.7)
    assert heat.values[0][0] is None
    assert heat.reference is not None
    assert heat.values[1][2] is not None
    assert heat.values[1][2] < heat.reference
    (shown,) = sensitivity.plot(heat)["data"]
    assert [[text.endswith("▾") for text in row] for row in shown["text"]] == [[False, False, False], [False, False, True]]
    assert shown["text"][0][0] == ""


def test_other_figures_show_the_methods_own_thresholds_of_a_grid_alone(grid):
    (one,) = [sensitivity.without_grid(comparison) for comparison in grid]
    assert [entry.label for entry in one.entries] == ["DeYO", "DualTTA"]
    assert one.entries[1].settings == {"tau_sa": 0.4, "tau_sp": 0.7}


def test_methods_are_level_with_the_best_unless_the_paired_interval_tells_them_apart(tmp_path, make, rows_of):
    for method, accuracies in {"source": (0.2,) * 4, "tent": (0.7, 0.9, 0.8, 0.8), "eata": (0.78, 0.8, 0.79, 0.79)}.items():
        for seed, accuracy in enumerate(accuracies):
            rows = rows_of(100, seed, looks=False)
            rows["prediction"] = np.where(np.arange(100) < 100 * accuracy, rows["label"], (rows["label"] + 1) % 4)
            make(tmp_path, method, seed, rows=rows, subset=True)
    (standing,) = standings(compared(tmp_path))
    assert [(entry.label, value.level) for entry, value in standing.places] == [
        ("Tent", True),
        ("EATA", True),
        ("No adapt", False),
    ]
    assert standing.notes == ["a subset of the data"]


def test_a_higher_mean_of_fewer_seeds_is_not_called_the_best(tmp_path, make):
    for method, accuracy, seeds in (("tent", 0.6, (1, 2)), ("eata", 0.5, (1, 2)), ("deyo", 0.95, (1,))):
        for seed in seeds:
            make(tmp_path, method, seed, accuracy=accuracy)
    (standing,) = standings(compared(tmp_path))
    assert [entry.label for entry, _ in standing.places] == ["Tent", "EATA", "DeYO"]
    assert not standing.places[2][1].level
    assert standing.notes == ["on fewer seeds or samples, so not ranked: DeYO"]


def test_with_one_seed_the_missing_deviation_is_said(both):
    standing = standings(both)[1]
    assert standing.ahead is (not standing.level)
    assert "one seed: no deviation" in standing.notes


def test_a_method_looks_the_same_everywhere_and_no_two_look_alike():
    looks = [about(name).style for name in METHODS]
    assert len({(look.color, look.marker) for look in looks}) == len(looks)
    assert about("of another package") == about("of another package")


def test_rows_are_reduced_to_counts_that_add_up(out):
    found, _ = read_all(out)
    record = next(r for r in found if r.cell["cell"]["method"]["name"] == "dualtta")
    rows = record.rows()
    made = Reducer()(record, rows)
    assert made.tally.sum() == record.summary["samples"]
    right = rows["prediction"] == rows["label"]
    assert made.tally[:, 0, 1].sum() == (rows["plus"] & right).sum()
    assert np.array_equal(made.correct, right)
    assert made.reliability[:, 0].sum() == len(right)


def test_many_points_are_sampled_by_a_fixed_seed_and_counted_whole(tmp_path, make):
    make(tmp_path, samples=9000)
    found, _ = read_all(tmp_path)
    once, again = (Reducer()(found[0], found[0].rows()) for _ in range(2))
    assert once.points is not None
    assert again.points is not None
    assert once.points.total == 9000
    assert len(once.points.columns["index"]) == 4000
    assert np.array_equal(once.points.columns["index"], again.points.columns["index"])
    assert once.tally.sum() == 9000


def test_every_figure_is_drawn_as_png_and_svg_and_the_same_again(both, grid, tmp_path):
    found = kinds([*both, *grid])
    assert [kind.name for kind in found] == [
        "sample-use",
        "quadrants",
        "stream",
        "domains",
        "reliability",
        "cost",
        "sensitivity",
    ]
    few = [kind for kind in found if kind.name in ("quadrants", "sensitivity")]
    made = draw_all(few, tmp_path / "once")
    assert sorted(path.name for path in made) == ["quadrants.png", "quadrants.svg", "sensitivity.png", "sensitivity.svg"]
    again = draw_all(few, tmp_path / "again")
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in again]


@pytest.mark.slow
def test_several_processes_draw_the_same_in_the_same_order(both, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FEW", 1)
    monkeypatch.setattr(processes, "signal", SimpleNamespace(SIGINT=signal.SIGINT))  # as on Windows, which cannot block signals
    few = [kind for kind in kinds(both) if kind.name in ("sample-use", "cost")]
    heard: list[int] = []
    made, apart = draw_all(few, tmp_path / "here"), draw_all(few, tmp_path / "there", heard.append, workers=2)
    assert [path.name for path in made] == [path.name for path in apart]
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in apart]
    assert heard == [1, 2]


@pytest.mark.parametrize("name", ["sample-use", "stream", "domains", "reliability", "cost"])
def test_hostile_and_long_names_can_be_drawn(name, tmp_path, make):
    for method in ("source", "dualtta"):
        for seed in (1, 2):
            make(tmp_path, method, seed, dataset="$x_1$ <b>&" * 20, domains=("a_long_name_" * 9, "$\\frac$"), samples=60)
    kind = next(kind for kind in kinds(compared(tmp_path)) if kind.name == name)
    drawn = draw_all([kind], tmp_path / "figures")
    assert all(path.stat().st_size > 1000 for path in drawn)


def test_many_panels_go_on_several_sheets(tmp_path, make):
    for number in range(7):
        make(tmp_path, dataset=f"set {number}", samples=50)
    names = [name for name, _, panels in sheets(kinds(compared(tmp_path))) if name.startswith("sample-use")]
    assert names == ["sample-use-1", "sample-use-2"]


def test_what_goes_to_the_page_is_json_that_plotly_takes(both, grid):
    go = pytest.importorskip("plotly.graph_objects")
    for kind in kinds([*both, *grid]):
        for panel in kind.panels:
            spec = kind.plot(panel)
            json.dumps(spec, allow_nan=False)
            go.Figure(spec)  # refuses what plotly does not know
