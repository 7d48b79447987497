"""Calibrations of difficulty and the paths of constant difficulty."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualtta.data.ccc.calibration import BY_SEVERITY, GRID, Calibration, from_dict, read_calibration, shipped
from dualtta.data.ccc.path import LEVELS, STEP, TARGETS, alone, path, target_cost, walk
from dualtta.data.datasets.ccc import IMAGENET_MODEL
from dualtta.data.published import CORRUPTIONS


def made(seed=0, hardest=4.0):
    """A calibration of drawn accuracies, in which every corruption reaches a cost of about `hardest`."""
    rng = np.random.default_rng(seed)
    single = {name: tuple(0.7 * math.exp(-hardest * rng.uniform(0.8, 1.2) * s / 5) for s in GRID) for name in CORRUPTIONS}
    pairs = {f"{a}+{b}": float(rng.uniform(-0.5, 1)) for a, b in itertools.combinations(sorted(CORRUPTIONS), 2)}
    return Calibration("drawn", 10_000, 0.7, single, pairs)


def test_a_cost_is_zero_without_corruption_and_never_falls():
    base = made()
    bumpy = Calibration("bumpy", 100, 0.7, {**base.single, "fog": (0.6, 0.65, 0.5, 0.4, 0.45, 0.3, 0.2, 0.1, 0.0, 0.05)})
    costs = [bumpy.cost("fog", severity) for severity in LEVELS]
    assert costs[0] == 0
    assert (np.diff(costs) >= 0).all()
    assert math.isfinite(costs[-1])


def test_one_corruption_of_a_pair_at_zero_leaves_the_cost_of_the_other():
    base = made()
    assert base.pair_cost("fog", 2.0, "snow", 0.0) == base.cost("fog", 2.0)
    assert base.accuracy("fog", 0.0, "snow", 0.0) == pytest.approx(0.7)
    assert base.pair_cost("fog", 2, "snow", 3) == base.pair_cost("snow", 3, "fog", 2)


def test_a_calibration_is_the_same_after_a_file(tmp_path):
    made().save(tmp_path / "mine.json")
    assert read_calibration(tmp_path / "mine.json") == made()


def test_files_that_are_no_calibration_are_named(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    for name, says in (("bad.json", "bad.json"), ("none.json", "there is no calibration")):
        with pytest.raises(ValueError, match=says):
            read_calibration(tmp_path / name)
    with pytest.raises(ValueError, match="it lacks 'single'"):
        from_dict({"model": "m"})
    with pytest.raises(ValueError, match="10 accuracies for each of the 15"):
        from_dict({**made().to_dict(), "single": {"fog": [0.5]}})
    with pytest.raises(ValueError, match="there is no calibration 'resnet'"):
        shipped("resnet")


@given(st.integers(0, 50), st.sampled_from(list(TARGETS)), st.permutations(CORRUPTIONS))
@settings(max_examples=20, deadline=None)
def test_a_walk_goes_from_one_corruption_alone_to_the_other_in_single_steps(seed, difficulty, names):
    points = walk(made(seed), names[0], names[1], target_cost(difficulty))
    severities = np.array([(point.severity, point.other) for point in points])
    assert severities[0, 1] == severities[-1, 0] == 0
    moves = np.diff(severities, axis=0)
    assert set(moves[:, 0]) <= {-STEP, 0.0}
    assert set(moves[:, 1]) <= {0.0, STEP}
    assert moves.any(axis=1).all()


@pytest.mark.parametrize("difficulty", TARGETS)
def test_neighbouring_points_of_a_path_differ_by_at_most_one_step(difficulty):
    points = path(made(), difficulty, seed=3, steps=800)
    assert len(points) == 800
    for before, after in itertools.pairwise(points):
        one, other = ({p.first: p.severity, p.second: p.other} for p in (before, after))
        assert all(abs(one.get(name, 0) - other.get(name, 0)) <= STEP for name in {*one, *other})


def test_every_corruption_comes_before_any_comes_again():
    points = path(made(), "easy", seed=5, steps=600)
    order = [name for name, _ in itertools.groupby(point.first for point in points)]
    assert set(order[:15]) == set(CORRUPTIONS)
    assert all(a != b for a, b in itertools.pairwise(order))


@pytest.mark.parametrize("difficulty", TARGETS)
@pytest.mark.parametrize("name", ["drawn", IMAGENET_MODEL])
def test_the_expected_accuracy_of_a_path_is_near_its_target(name, difficulty):
    calibration = made() if name == "drawn" else shipped(name)
    points = path(calibration, difficulty, seed=1, steps=600)
    found = [calibration.accuracy(p.first, p.severity, p.second, p.other) / calibration.clean for p in points]
    assert np.mean(found) == pytest.approx(TARGETS[difficulty], abs=0.03)
    assert np.median(found) == pytest.approx(TARGETS[difficulty], abs=0.03)


def test_corruptions_that_are_weak_alone_come_and_go_beside_a_stronger_one():
    base = made()
    weak = Calibration("weak", 10_000, 0.7, {**base.single, "brightness": tuple(0.7 - 0.01 * s for s in GRID)}, base.pairs)
    points = path(weak, "medium", seed=2, steps=600)
    assert all(point.first != "brightness" for point in points)
    visited = [point.other for point in points if point.second == "brightness"]
    assert max(visited) == LEVELS[-1]
    assert visited[0] == 0
    assert {point.first for point in points} | {point.second for point in points} == set(CORRUPTIONS)


def test_without_any_strong_corruption_all_are_taken():
    faint = made(hardest=0.2)
    assert {point.first for point in path(faint, "hard", seed=2, steps=900)} == set(CORRUPTIONS)


def test_seed_and_difficulty_determine_a_path():
    one, again, other, hard = (path(made(), *args, 50) for args in (("easy", 1), ("easy", 1), ("easy", 2), ("hard", 1)))
    assert one == again
    assert one != other
    assert one != hard


def test_a_target_out_of_reach_is_the_highest_severity():
    assert alone(made(hardest=1.0), "fog", target_cost("hard")) == len(LEVELS) - 1
    with pytest.raises(ValueError, match="there is no difficulty 'hrad'; did you mean 'hard'"):
        target_cost("hrad")


def test_without_a_model_the_sum_of_severities_is_constant():
    points = path(shipped(BY_SEVERITY), "medium", seed=1, steps=100)
    assert {point.severity + point.other for point in points} == {3.75}
