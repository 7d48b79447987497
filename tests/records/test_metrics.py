"""Metrics against counting by hand, and against torchmetrics' idea of calibration."""

import math
from itertools import pairwise

import numpy as np
import pytest

from dualtta.records.metrics import by_name, calibration_error, quadrants, share, summarise

ROWS = {
    "label": np.array([0, 0, 1, 1, 2, 2]),
    "prediction": np.array([0, 1, 1, 1, 2, 0]),
    "domain": np.array([0, 0, 0, 1, 1, 1]),
    "group": np.array([0, 0, 1, 1, 1, 0]),
    "confidence": np.array([0.9, 0.6, 0.8, 0.7, 0.95, 0.5]),
    "entropy": np.array([0.1, 0.9, 0.3, 0.5, 0.05, 1.0]),
    "drop_alter": np.array([0.6, 0.1, 0.5, 0.1, 0.7, np.nan]),
    "drop_preserve": np.array([0.1, 0.8, 0.9, 0.2, 0.1, 0.3]),
    "plus": np.array([True, False, False, False, True, False]),
    "minus": np.array([False, True, False, False, False, False]),
}


def test_all_that_a_table_needs():
    got = summarise(ROWS, 3, ("a", "b"), ("g", "h"), {"tau_sa": 0.4, "tau_sp": 0.7})
    assert got["samples"] == 6
    assert got["accuracy"] == pytest.approx(4 / 6)
    assert got["domains"] == pytest.approx({"a": 2 / 3, "b": 2 / 3})
    assert got["groups"] == pytest.approx({"g": 1 / 3, "h": 1.0})
    assert got["mean_of_groups"] == pytest.approx(2 / 3)
    assert got["worst_group"] == pytest.approx(1 / 3)
    assert got["adapt"] == pytest.approx(3 / 6)
    assert got["corr_adapt"] == pytest.approx(3 / 6)  # two right ones in D+, a wrong one in D-
    assert got["plus"] == pytest.approx({"share": 2 / 6, "correct": 1.0})
    assert got["minus"] == pytest.approx({"share": 1 / 6, "correct": 0.0})
    assert got["low_entropy"] == pytest.approx(np.mean(ROWS["entropy"] < 0.4 * math.log(3)))
    assert got["quadrants"]["falls_holds"] == {"count": 2, "correct": 1.0}
    assert got["quadrants"]["falls_breaks"] == {"count": 1, "correct": 1.0}
    assert got["quadrants"]["stays_breaks"] == {"count": 1, "correct": 0.0}
    assert got["quadrants"]["stays_holds"] == {"count": 1, "correct": 1.0}


def test_without_groups_or_views_there_is_nothing_to_say_of_them():
    blind = {**ROWS, "drop_alter": np.full(6, np.nan), "drop_preserve": np.full(6, np.nan), "group": np.full(6, -1)}
    got = summarise(blind, 3, ("a", "b"), (), {})
    assert got["groups"] == {}
    assert got["mean_of_groups"] is None
    assert got["worst_group"] is None
    assert got["quadrants"] is None


def test_whoever_was_not_looked_at_is_in_no_quadrant():
    assert sum(corner["count"] for corner in quadrants(ROWS, 0.4, 0.7).values()) == 5


def test_domains_that_do_not_occur_have_no_accuracy():
    assert by_name(np.array([True]), np.array([1]), ("a", "b")) == {"b": 1.0}
    assert math.isnan(share(np.array([], bool)))


def test_calibration_error_is_the_gap_of_each_bin_by_its_share():
    rng = np.random.RandomState(0)
    confidence, correct = rng.uniform(0.1, 1, 500), rng.uniform(size=500) < 0.6
    edges = np.linspace(0, 1, 16)
    expected = 0.0
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            expected += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    assert calibration_error(confidence, correct) == pytest.approx(expected)
    assert calibration_error(np.array([1.0, 1.0]), np.array([True, True])) == 0
