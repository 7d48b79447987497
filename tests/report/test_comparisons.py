"""Paired comparisons: intervals against computations that share nothing with ours, and errors that say what has no partner."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import Cell
from dualtta.paper.experiments import benchmarks
from dualtta.report.matching import match, pair_up, parse_side
from dualtta.report.paired import (
    Pair,
    combined_difference,
    difference_by_seed,
    paired_difference,
    reach_over_seeds,
    tango,
    worst_group_difference,
)

GROUPS = ("0 red", "0 green", "1 red", "1 green")
DEMO = Path(__file__).parents[1] / "recorded" / "demo"


def outcomes(both: int, only_a: int, only_b: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    a = np.repeat([1, 1, 0, 0], [both, only_a, only_b, neither]).astype(bool)
    b = np.repeat([1, 0, 1, 0], [both, only_a, only_b, neither]).astype(bool)
    return a, b


def score(d: float, only_a: int, only_b: int, n: int) -> float:
    """The score statistic with the nuisance parameter found by numerical maximum likelihood instead of the formula."""

    def minus_log_likelihood(q: float) -> float:  # P(only B) = q, P(only A) = q + d
        cells = ((only_a, q + d), (only_b, q), (n - only_a - only_b, 1 - 2 * q - d))
        return -sum(count * np.log(max(p, 1e-300)) for count, p in cells if count)

    low, high = max(0.0, -d), (1 - d) / 2
    best = optimize.minimize_scalar(minus_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
    return (only_a - only_b - n * d) / np.sqrt(n * (2 * best + d - d**2))


@pytest.mark.parametrize(("only_a", "only_b", "n"), [(12, 2, 50), (40, 20, 100), (3, 9, 30), (150, 141, 5000)])
def test_the_interval_ends_where_the_score_test_rejects(only_a, only_b, n):
    low, high = tango(only_a, only_b, n)
    z = stats.norm.ppf(0.975)
    assert score(low, only_a, only_b, n) == pytest.approx(z, abs=1e-4)
    assert score(high, only_a, only_b, n) == pytest.approx(-z, abs=1e-4)


def test_with_many_samples_it_is_the_textbook_interval():
    a, b = outcomes(40_000, 6_000, 5_000, 49_000)
    d = a.astype(float) - b
    textbook = stats.norm.interval(0.95, d.mean(), d.std() / np.sqrt(len(d)))
    assert paired_difference(a, b)[1:] == pytest.approx([100 * end for end in textbook], abs=2e-3)


def test_it_covers_the_truth_in_95_of_100_small_experiments():
    rng, hits = np.random.default_rng(0), 0
    for _ in range(2000):
        both, only_a, only_b, neither = rng.multinomial(40, [0.5, 0.15, 0.05, 0.3])
        _, low, high = paired_difference(*outcomes(both, only_a, only_b, neither))
        hits += low <= 10 <= high
    assert 0.93 < hits / 2000 < 0.98


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_swapping_the_sides_turns_the_interval_round(pairs):
    a, b = (np.array(side, bool) for side in zip(*pairs, strict=True))
    difference, low, high = paired_difference(a, b)
    assert -100 <= low <= difference <= high <= 100
    assert low < high
    assert paired_difference(b, a) == pytest.approx((-difference, -high, -low), abs=1e-6)


def test_other_shapes_and_no_samples_are_refused():
    for a, b in (([], []), ([True], [True, False])):
        with pytest.raises(ValueError, match="one outcome for each sample"):
            paired_difference(np.array(a, bool), np.array(b, bool))


def pair(seed: int, a: np.ndarray, b: np.ndarray, place: str = "x", group: np.ndarray | None = None, **more) -> Pair:
    return Pair(place, seed, a, b, np.arange(len(a)), np.full(len(a), -1) if group is None else group, **more)


def draws(seeds: int, n: int = 400, p: float = 0.7) -> list[tuple[np.ndarray, np.ndarray]]:
    """Runs on the same samples: some samples are hard for all seeds."""
    rng = np.random.default_rng(1)
    hard = rng.random(n)
    return [(hard + rng.normal(0, 0.1, n) < p, hard + rng.normal(0, 0.1, n) < p - 0.05) for _ in range(seeds)]


def test_seeds_on_the_same_samples_are_clustered_by_sample():
    runs = draws(3)
    pairs = [pair(seed, a, b) for seed, (a, b) in enumerate(runs)]
    difference, low, high = combined_difference(pairs)
    by_sample = np.mean([a.astype(float) - b for a, b in runs], 0)  # a sample's mean over its runs
    over_samples = 1.959964 * stats.sem(by_sample)
    by_run = [(a.astype(float) - b).mean() for a, b in runs]
    over_seeds = np.mean(by_run) - stats.t.interval(0.95, 2, np.mean(by_run), stats.sem(by_run))[0]
    assert difference == pytest.approx(100 * by_sample.mean())
    assert (high - low) / 2 == pytest.approx(100 * np.hypot(over_samples, over_seeds), rel=1e-6)
    assert reach_over_seeds(difference_by_seed(pairs)) == pytest.approx(100 * over_seeds)


def test_seeds_do_not_count_as_more_samples():
    a, b = draws(1)[0]
    once, thrice = combined_difference([pair(0, a, b)]), combined_difference([pair(seed, a, b) for seed in range(3)])
    assert once[0] == pytest.approx(thrice[0])
    assert thrice[2] - thrice[1] == pytest.approx(once[2] - once[1], rel=0.05)


def test_other_datasets_are_other_samples():
    (a, b), (c, d) = draws(2)
    apart = combined_difference([pair(0, a, b, "x", dataset="one"), pair(0, c, d, "y", dataset="two")])
    together = combined_difference([pair(0, a, b, "x", dataset="one"), pair(0, c, d, "y", dataset="one")])
    alone = [100 * 1.959964 * stats.sem(one.astype(float) - other) for one, other in ((a, b), (c, d))]
    assert (apart[2] - apart[1]) / 2 == pytest.approx(np.hypot(*alone) / 2, rel=0.01)
    assert together[0] == pytest.approx(apart[0])
    assert together[2] - together[1] != pytest.approx(apart[2] - apart[1], rel=0.01)


def test_the_mean_of_groups_agrees_with_a_bootstrap():
    rng = np.random.default_rng(2)
    a, b = draws(1, 600)[0]
    group = rng.choice(3, 600, p=[0.7, 0.2, 0.1])
    difference, low, high = combined_difference([pair(0, a, b, group=group)], by_group=True)
    d = a.astype(float) - b
    assert difference == pytest.approx(100 * np.mean([d[group == g].mean() for g in range(3)]))
    drawn = [np.mean([rng.choice(d[group == g], (group == g).sum()).mean() for g in range(3)]) for _ in range(3000)]
    assert (high - low) / 2 == pytest.approx(100 * 1.96 * np.std(drawn), rel=0.06)


def test_the_worst_group_agrees_with_a_bootstrap_of_samples():
    rng = np.random.default_rng(3)
    a, b = draws(1, 500)[0]
    group = rng.choice(3, 500)
    difference, low, high = worst_group_difference([pair(0, a, b, group=group)])
    worst = [min(side[group == g].mean() for g in range(3)) for side in (a, b)]
    assert difference == pytest.approx(100 * (worst[0] - worst[1]))
    drawn = []
    for _ in range(2000):
        chosen = [rng.choice(np.flatnonzero(group == g), (group == g).sum()) for g in range(3)]
        drawn.append(min(a[c].mean() for c in chosen) - min(b[c].mean() for c in chosen))
    assert [low, high] == pytest.approx(100 * np.percentile(drawn, [2.5, 97.5]), abs=1.2)


def test_the_worst_group_needs_seeds_on_the_same_samples():
    a, b = draws(1)[0]
    group = np.arange(len(a)) % 2
    shifted = replace(pair(1, a, b, group=group), sample=np.arange(len(a)) + 1)
    regrouped = pair(1, a, b, group=1 - group)
    assert worst_group_difference([pair(0, a, b, group=group), pair(1, a, b, group=group)]) is not None
    assert worst_group_difference([pair(0, a, b, group=group), shifted]) is None
    assert worst_group_difference([pair(0, a, b, group=group), regrouped]) is None


# which runs belong together


def cells(*methods: str, seeds=(1, 2), **options) -> list[Cell]:
    found = benchmarks(Options(datasets=("colored_mnist",), methods=methods, seeds=seeds, **options))
    assert isinstance(found, list)
    return found


@pytest.fixture
def out(tmp_path, write_plan) -> Path:
    write_plan(tmp_path / "runs", cells("tent", "deyo"), {"tent": 0.5, "deyo": 0.6})
    return tmp_path / "runs"


def dualtta(*args: str, capsys) -> tuple[int, str, str]:
    from dualtta.cli import main

    code = main(list(args))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_methods_are_compared_seed_by_seed_on_the_same_rows(out, capsys):
    code, text, _ = dualtta("compare", f"{out}:deyo", f"{out}:tent", "--json", capsys=capsys)
    found = json.loads(text)
    line = found["lines"][0]
    assert code == 0
    assert line["difference"] == pytest.approx(10)
    assert line["low"] < 10 < line["high"]
    assert line["seeds"] == [1, 2]
    assert line["only_a"] - line["only_b"] == 20
    assert found["by_seed"] == {"1": pytest.approx(10), "2": pytest.approx(10)}
    _, shown, _ = dualtta("compare", f"{out}:deyo", f"{out}:tent", capsys=capsys)
    assert "+10.00" in shown
    assert "accuracy seed by seed: 1: +10.00, 2: +10.00" in shown


def test_two_cells_are_compared_with_mcnemars_test(tmp_path, capsys, make_rows, write_record):
    one, other = cells("tent", "deyo", seeds=(1,))
    a, b = (write_record(tmp_path, cell, make_rows(share, 80, 4, 1), GROUPS) for cell, share in ((one, 0.6), (other, 0.5)))
    _, text, _ = dualtta("compare", str(a), str(b), "--json", capsys=capsys)
    found = json.loads(text)["lines"]
    line = found[0]
    assert line["p_value"] == pytest.approx(stats.binomtest(line["only_a"], line["only_a"] + line["only_b"]).pvalue)
    assert [line["measure"] for line in found] == ["accuracy", "mean of groups", "worst group"]
    _, shown, _ = dualtta("compare", str(a), str(b), capsys=capsys)
    assert "one seed: the interval is over samples" in shown
    assert "McNemar's exact test: p = " in shown


def test_two_folders_are_matched_cell_by_cell(out, tmp_path, capsys, write_plan):
    write_plan(tmp_path / "later", cells("tent", "deyo"), {"tent": 0.55, "deyo": 0.6}, threads=4)
    _, text, _ = dualtta("compare", str(tmp_path / "later"), str(out), "--json", capsys=capsys)
    by_method = {line["where"]: line["difference"] for line in json.loads(text)["lines"] if line["measure"] == "accuracy"}
    assert by_method == {
        "colored_mnist, resnet18, mild: DeYO": pytest.approx(0),
        "colored_mnist, resnet18, mild: Tent": pytest.approx(5),
        "mean of all 2": pytest.approx(2.5),
    }


def test_settings_choose_among_runs_of_one_method(out, capsys, write_plan):
    write_plan(out, [replace(c, settings={**c.settings, "lr": 0.01}) for c in cells("deyo")], {"deyo": 0.8})
    code, _, err = dualtta("compare", f"{out}:deyo", f"{out}:tent", capsys=capsys)
    assert code == 2
    assert "holds several runs of one cell" in err
    assert "say which with FOLDER:method,key=value" in err
    _, text, _ = dualtta("compare", f"{out}:deyo,lr=0.01", f"{out}:tent", "--json", capsys=capsys)
    assert json.loads(text)["lines"][0]["difference"] == pytest.approx(30)


def test_a_cell_without_a_partner_is_an_error_that_names_it(out, capsys, write_plan):
    write_plan(out, cells("tent", seeds=(3,)), {"tent": 0.5})
    code, _, err = dualtta("compare", f"{out}:deyo", f"{out}:tent", capsys=capsys)
    assert code == 2
    assert "on colored_mnist, resnet18, mild, seed 3 is in" in err
    assert "--common" in err
    code, text, _ = dualtta("compare", f"{out}:deyo", f"{out}:tent", "--common", "--json", capsys=capsys)
    assert code == 0
    assert "seed 3" in json.loads(text)["notes"][0]


def test_rows_in_another_order_are_paired_by_sample(tmp_path, make_rows, write_record):
    one, other = cells("tent", "deyo", seeds=(1,))
    rows = make_rows(0.5, 50, 4, 1)
    order = np.random.default_rng(0).permutation(50)
    a = write_record(tmp_path, one, rows, GROUPS)
    b = write_record(tmp_path, other, {name: column[order] for name, column in rows.items()}, GROUPS)
    found = pair_up(*match(parse_side(str(a)), parse_side(str(b)))[0][0])
    assert np.array_equal(found.correct_a, found.correct_b)
    assert np.array_equal(found.sample, np.arange(50))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: {**rows, "index": rows["index"] + 3}, "3 samples are in the first alone, such as 0, 1, 2"),
        (lambda rows: {k: v[:-5] for k, v in rows.items()}, "5 samples are in the first alone, such as 45, 46, 47"),
        (lambda rows: {**rows, "label": 1 - rows["label"]}, "sample 0 has another label in each"),
        (
            lambda rows: {**rows, "index": np.where(rows["index"] == 9, 8, rows["index"])},
            "1 samples are in the first alone, such as 9",
        ),
    ],
)
def test_samples_that_cannot_be_paired_are_named(change, says, tmp_path, capsys, make_rows, write_record):
    one, other = cells("tent", "deyo", seeds=(1,))
    rows = make_rows(0.5, 50, 4, 1)
    a = write_record(tmp_path, one, rows, GROUPS)
    b = write_record(tmp_path, other, change(rows), GROUPS)
    code, _, err = dualtta("compare", str(a), str(b), capsys=capsys)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_repeated_samples_in_another_order_cannot_be_paired(tmp_path, capsys, make_rows, write_record):
    one, other = cells("tent", "deyo", seeds=(1,))
    rows = make_rows(0.5, 50, 4, 1)
    rows["index"] = rows["index"] // 2
    a = write_record(tmp_path, one, rows, GROUPS)
    b = write_record(tmp_path, other, {name: column[::-1] for name, column in rows.items()}, GROUPS)
    code, _, err = dualtta("compare", str(a), str(b), capsys=capsys)
    assert code == 2
    assert "samples repeat and their order differs from position 0 on" in err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("nowhere", "nowhere"), "there is no folder nowhere"),
        ((f"{DEMO}:tennt", f"{DEMO}:deyo"), "has results of: deyo, dualtta, source, tent"),
        ((f"{DEMO}:tent,lr", f"{DEMO}:deyo"), "is not FOLDER:method"),
    ],
)
def test_bad_names_are_one_line(args, says, capsys):
    code, _, err = dualtta("compare", *args, capsys=capsys)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_a_damaged_cell_is_not_compared(out, capsys):
    cell = next((out / "cells").iterdir())
    (cell / "rows.npz").write_bytes(b"")
    code, _, err = dualtta("compare", str(cell), str(cell), capsys=capsys)
    assert code == 2
    assert "rows.npz cannot be read" in err


def test_the_committed_records_are_compared(capsys):
    _, text, _ = dualtta("compare", f"{DEMO}:dualtta", f"{DEMO}:deyo", "--json", capsys=capsys)
    lines = {(line["where"].split(",")[0], line["measure"]): line for line in json.loads(text)["lines"]}
    assert lines["colored_digits", "accuracy"]["difference"] == pytest.approx(8.06, abs=0.01)
    assert lines["colored_digits", "accuracy"]["low"] == pytest.approx(3.88, abs=0.01)


def test_folders_are_left_as_they_were(out, tmp_path, capsys):
    shutil.copytree(out, tmp_path / "copy")
    dualtta("compare", f"{out}:deyo", f"{out}:tent", capsys=capsys)
    assert sorted(p.relative_to(out) for p in out.rglob("*")) == sorted(
        p.relative_to(tmp_path / "copy") for p in (tmp_path / "copy").rglob("*")
    )
