"""Two runs on the same samples: the difference of their accuracies with its 95 % interval. Functions of arrays.

One run against one other: Tango's score interval for the difference of two paired proportions (Statistics in Medicine 17,
1998), which is valid for few samples and for runs that never disagree. With n samples, b that only A predicts correctly and c
that only B does, it contains every d with |z(d)| <= 1.96,

    z(d) = (b - c - n d) / sqrt(n (2 q + d (1 - d))),  q = (sqrt(B^2 - 4 A C) - B) / (2 A),
    A = 2 n,  B = -b - c + (2 n - b + c) d,  C = -c d (1 - d).

Several runs: the mean of the differences. Samples and seeds are both random, and the interval reaches sqrt(s^2 + r^2) to both
sides:

    s = 1.96 standard errors over samples. The same sample in several runs (seeds, corruptions, pairs with one target) is one
        draw: its residuals are summed over its runs before they are squared.
    r = Student's t (97.5 %, S - 1) times the deviation of the S seeds' differences / sqrt(S). With one seed r is 0, and the
        variation over seeds is not in the interval.

Variation that depends on both is counted in both: the interval is rather too wide than too narrow.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualtta.records.metrics import Column

Z = 1.959963984540054  # of 95 %
POINTS = 100.0
RESAMPLES = 2000
Interval = tuple[float, float, float]  # difference, low, high


def paired_difference(correct_a: Column, correct_b: Column) -> Interval:
    """Accuracy of A minus that of B on the same samples, with the ends of its 95 % interval, in points.

    >>> a, b = np.array([1, 1, 1, 0, 1] * 20, bool), np.array([1, 0, 1, 1, 0] * 20, bool)
    >>> [round(x, 2) for x in paired_difference(a, b)]
    [20.0, 4.91, 34.1]
    """
    a, b = np.asarray(correct_a, bool), np.asarray(correct_b, bool)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(f"paired runs have one outcome for each sample and at least one; these have {a.shape} and {b.shape}")
    only_a, only_b, n = int((a & ~b).sum()), int((~a & b).sum()), len(a)
    low, high = tango(only_a, only_b, n)
    return POINTS * (only_a - only_b) / n, POINTS * low, POINTS * high


def tango(only_a: int, only_b: int, n: int) -> tuple[float, float]:
    """The score interval of the difference, as shares; without disagreement it is +-z^2 / (n + z^2).

    >>> [round(x, 4) for x in tango(0, 0, 100)]
    [-0.037, 0.037]
    """
    d = (only_a - only_b) / n

    def z(at: float) -> float:
        a, b, c = 2.0 * n, -only_a - only_b + (2 * n - only_a + only_b) * at, -only_b * at * (1 - at)
        q = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
        spread = n * (2 * q + at * (1 - at))
        gap = only_a - only_b - n * at
        return gap / math.sqrt(spread) if spread > 0 else math.copysign(math.inf, gap) if gap else 0.0

    low = -1.0 if z(-1 + 1e-12) <= Z else _root(lambda at: z(at) - Z, -1 + 1e-12, d)
    high = 1.0 if z(1 - 1e-12) >= -Z else _root(lambda at: z(at) + Z, d, 1 - 1e-12)
    return low, high


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is zero, by halving."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Pair:
    """Two runs over the same samples; all columns have shape (samples,)."""

    task: str  # what both runs share, but for the seed
    seed: int
    correct_a: Column
    correct_b: Column
    sample: Column  # index into the dataset
    group: Column  # -1 where there are no groups
    dataset: str = ""

    def where(self, mask: Column) -> "Pair":
        """The samples of a mask."""
        columns = {name: getattr(self, name)[mask] for name in ("correct_a", "correct_b", "sample", "group")}
        return replace(self, **columns)

    @property
    def difference(self) -> Column:
        difference: Column = self.correct_a.astype(float) - self.correct_b.astype(float)
        return difference


def combined_difference(pairs: Sequence[Pair], by_group: bool = False) -> Interval:
    """The mean over tasks of the mean over their seeds, in points, with its interval over samples and seeds.

    `by_group`: of the mean over groups of a run's accuracies, instead of its accuracy.
    """
    if len(pairs) == 1 and not by_group:
        return paired_difference(pairs[0].correct_a, pairs[0].correct_b)
    tasks = [pair.task for pair in pairs]
    datasets = list(dict.fromkeys(pair.dataset for pair in pairs))
    total, residuals, samples = 0.0, [], []
    for pair in pairs:
        share = 1 / (len(set(tasks)) * tasks.count(pair.task))
        strata = pair.group if by_group else np.zeros(len(pair.sample), int)
        _, stratum = np.unique(strata, return_inverse=True)
        counts = np.bincount(stratum)
        means = np.bincount(stratum, pair.difference) / counts
        total += share * float(means.mean())
        residuals.append(share / len(counts) * (pair.difference - means[stratum]) / counts[stratum])
        samples.append(pair.sample.astype(np.int64) + (datasets.index(pair.dataset) << 40))  # no dataset is as large as that
    _, cluster = np.unique(np.concatenate(samples), return_inverse=True)
    sums = np.bincount(cluster, np.concatenate(residuals))
    n = len(sums)
    error = math.sqrt(float((sums**2).sum()) * n / max(n - 1, 1))
    over_samples = Z * error if error > 0 else tango(0, 0, n)[1]  # no disagreement at all
    reach = math.hypot(over_samples, reach_over_seeds(difference_by_seed(pairs, by_group)) / POINTS)
    return POINTS * total, POINTS * max(total - reach, -1.0), POINTS * min(total + reach, 1.0)


def difference(pairs: Sequence[Pair]) -> Interval:
    """The same by what tables show: the mean over groups where there are groups, else accuracy."""
    return combined_difference(pairs, by_group=all((pair.group >= 0).all() for pair in pairs))


def difference_by_seed(pairs: Sequence[Pair], by_group: bool = False) -> dict[int, float]:
    """The difference seed by seed, in points, each averaged over tasks; only seeds that every task has."""
    seeds = [{pair.seed for pair in pairs if pair.task == task} for task in {pair.task for pair in pairs}]
    return {
        seed: POINTS * float(np.mean([_mean(pair, by_group) for pair in pairs if pair.seed == seed]))
        for seed in sorted(set.intersection(*seeds))
    }


def _mean(pair: Pair, by_group: bool) -> float:
    if not by_group:
        return float(pair.difference.mean())
    return float(np.mean([pair.difference[pair.group == group].mean() for group in np.unique(pair.group)]))


def reach_over_seeds(each: Mapping[int, float]) -> float:
    """Half of Student's 95 % interval of the mean over seeds; 0 with one seed.

    >>> round(reach_over_seeds({2024: 1.0, 2025: 2.0, 2026: 3.0}), 3)
    2.484
    """
    if len(each) < 2:
        return 0.0
    from scipy.special import stdtrit  # Student's t; scipy.stats takes a second to import

    values = np.array(list(each.values()))
    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / math.sqrt(len(values)))


def worst_group_difference(pairs: Sequence[Pair]) -> Interval | None:
    """Worst group of A minus worst group of B, the mean over seeds of one task, with a bootstrap over its samples.

    The worst group may differ between runs, so there is no formula: the samples of each group are drawn again, with all their
    runs, and s reaches to the 2.5th and 97.5th percentile of 2,000 such draws (generator 0); r is as above.
    None where the samples differ between seeds.
    """
    first = pairs[0]
    order = [np.argsort(pair.sample, kind="stable") for pair in pairs]
    same = all(
        np.array_equal(getattr(pair, column)[o], getattr(first, column)[order[0]])
        for pair, o in zip(pairs, order, strict=True)
        for column in ("sample", "group")
    )
    if not same or len({pair.task for pair in pairs}) > 1 or (first.group < 0).any():
        return None
    group = first.group[order[0]]
    runs: list[Any] = []
    for pair, o in zip(pairs, order, strict=True):
        runs += [pair.correct_a[o], pair.correct_b[o]]
    right = np.stack(runs, 1)  # (samples, 2 a seed): A, B, A, B, ...
    rng = np.random.default_rng(0)
    found, drawn = [], []
    for g in np.unique(group):
        patterns, counts = np.unique(right[group == g], axis=0, return_counts=True)
        size = int(counts.sum())
        found.append(counts @ patterns / size)
        drawn.append(rng.multinomial(size, counts / size, RESAMPLES) @ patterns / size)
    each = _worst(np.stack(found))  # by seed
    difference = float(each.mean())
    low, high = np.percentile(_worst(np.stack(drawn)).mean(-1), [2.5, 97.5])
    below, above = difference - float(low), float(high) - difference
    if not (right[:, 0::2] != right[:, 1::2]).any():  # no disagreement at all
        below = above = tango(0, 0, min(int((group == g).sum()) for g in np.unique(group)))[1]
    seeds = reach_over_seeds(dict(enumerate(each.tolist())))
    return (
        POINTS * difference,
        POINTS * (difference - math.hypot(below, seeds)),
        POINTS * (difference + math.hypot(above, seeds)),
    )


def _worst(accuracy: Column) -> Column:
    """(groups, ..., 2 a seed) -> (..., seeds): the difference of the worst groups."""
    worst = accuracy.min(0)
    difference: Column = worst[..., 0::2] - worst[..., 1::2]
    return difference
