"""Paths of constant difficulty: from one corruption to the next, in small steps of both severities.

A walk starts with the first corruption alone, at the severity whose cost is nearest to the target, and ends with the second
alone. In between one severity falls, the other rises, or both, by one step at a time. Of all such walks it is the one whose
costs differ least from the target, by dynamic programming. The next walk starts where it ends, with another corruption. One
that is too weak to be alone rises beside the first to its highest severity, and falls again.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dualtta.data.ccc.calibration import Calibration
from dualtta.data.published import CORRUPTIONS, DIFFICULTIES
from dualtta.plugins import nearest

STEP = 0.25  # of severity
LEVELS = tuple(number * STEP for number in range(int(5 / STEP) + 1))
TARGETS = dict(zip(DIFFICULTIES, (1 / 2, 1 / 4, 1 / 40), strict=True))  # of the accuracy on clean images
ENOUGH = 0.7  # of the target, as the cost of a corruption alone
SPEEDS = (1000, 2000, 5000)  # images for each step


@dataclass(frozen=True)
class Point:
    """Two corruptions, in the order in which they are applied, and their severities."""

    first: str
    severity: float
    second: str
    other: float


def target_cost(difficulty: str) -> float:
    """The cost that a path keeps to."""
    if difficulty not in TARGETS:
        raise ValueError(f"there is no difficulty {difficulty!r}; {nearest(difficulty, TARGETS)}")
    return -math.log(TARGETS[difficulty])


def alone(calibration: Calibration, name: str, target: float) -> int:
    """The level of one corruption alone whose cost is nearest to the target: the highest where it is not reached."""
    costs = np.array([calibration.cost(name, severity) for severity in LEVELS])
    distance = np.abs(costs - target)
    distance[0] = np.inf  # a corruption that does nothing is none
    return int(np.flatnonzero(distance == distance.min())[0])


def walk(calibration: Calibration, first: str, second: str, target: float) -> list[Point]:
    """From the first corruption alone to the second alone."""
    high, end = alone(calibration, first, target), alone(calibration, second, target)
    cost = costs(calibration, first, high, second, end)
    return [Point(first, LEVELS[high - i], second, LEVELS[j]) for i, j in cheapest(np.abs(cost - target), (high, end))]


def visit(calibration: Calibration, first: str, second: str, target: float) -> list[Point]:
    """From the first corruption alone to its pair with the second at the highest severity, and the same way back."""
    high, end = alone(calibration, first, target), len(LEVELS) - 1
    distance = np.abs(costs(calibration, first, high, second, end) - target)
    steps = cheapest(distance, (int(distance[:, end].argmin()), end))
    return [Point(first, LEVELS[high - i], second, LEVELS[j]) for i, j in [*steps, *steps[-2::-1]]]


def costs(calibration: Calibration, first: str, high: int, second: str, end: int) -> NDArray[np.float64]:
    """The costs of all pairs of severities: row i has the first `i` levels below `high`, column j the second at level j."""
    rows = [
        [calibration.pair_cost(first, LEVELS[high - i], second, LEVELS[j]) for j in range(end + 1)] for i in range(high + 1)
    ]
    return np.array(rows)


def cheapest(distance: NDArray[np.float64], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The cells from (0, 0) to `end` with the lowest sum, by steps of one down, one to the right, or both."""
    total = np.full((end[0] + 1, end[1] + 1), np.inf)
    origin: dict[tuple[int, int], tuple[int, int]] = {}
    total[0, 0] = distance[0, 0]
    for i, j in np.ndindex(*total.shape):
        before = [at for at in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if min(at) >= 0]
        if before:
            origin[i, j] = min(before, key=lambda at: float(total[at]))
            total[i, j] = distance[i, j] + total[origin[i, j]]
    found = [end]
    while found[-1] in origin:
        found.append(origin[found[-1]])
    return found[::-1]


def path(calibration: Calibration, difficulty: str, seed: int, steps: int) -> list[Point]:
    """So many points, through the corruptions in random order; each comes again only after all others.

    A walk to a corruption that is too weak alone would end far from the target: it comes and goes beside a stronger one.
    """
    target, rng = target_cost(difficulty), np.random.RandomState(seed)
    strong = {name for name in CORRUPTIONS if calibration.cost(name, LEVELS[-1]) >= ENOUGH * target} or set(CORRUPTIONS)
    order = [str(name) for name in rng.permutation(CORRUPTIONS)]
    current = next(name for name in order if name in strong)
    order.remove(current)
    points: list[Point] = []
    while len(points) < steps:
        if not order:
            order = [str(name) for name in rng.permutation([name for name in CORRUPTIONS if name != current])]
        name = order.pop(0)
        there = walk if name in strong else visit
        points += there(calibration, current, name, target)[:-1]  # the end is the start of the next
        current = name if name in strong else current
    return points[:steps]
