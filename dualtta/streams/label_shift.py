"""The imbalanced-label order of SAR (https://arxiv.org/abs/2302.12400): one class dominates, then another.

Reproduces the published orders exactly (ImageNet: 1,000 classes of 50 images, 100 draws per class, with replacement).
"""

import random
from collections.abc import Sequence

import numpy as np

from dualtta.data.datasets.base import Ints

RATIOS = (1, 1000, 2000, 3000, 4000, 5000, 500000)  # the published ones; the class order is reshuffled once for each
DRAWS_SEED = 2022  # the published orders differ by seed only in the order of the classes, not in the draws


def label_shift(counts: Sequence[int], seed: int, ratio: float, slot: int | None = None) -> Ints:
    """The order, as positions in the images sorted by class; class c has `counts[c]` images.

    Each class dominates one slot, in which it is `ratio` times as likely as any other class. `slot` is the number of draws per
    slot; by default the order is twice as long as there are images, as published. A class without images is never drawn.

    >>> label_shift([5, 5], seed=0, ratio=500000, slot=4)
    array([3, 3, 0, 3, 5, 8, 5, 5])
    """
    present = np.flatnonzero(np.asarray(counts) > 0)
    if not len(present):
        raise ValueError("there are no images to draw from")
    if not ratio >= 1:
        raise ValueError(f"the imbalance ratio must be at least 1 (all classes equally likely), not {ratio}")
    slot = max(1, round(2 * sum(counts) / len(present))) if slot is None else slot
    if slot < 1:
        raise ValueError(f"a class's slot must hold at least one draw, not {slot}")
    classes = shuffled_classes(len(present), seed, ratio)
    draws = np.random.RandomState(DRAWS_SEED)
    labels = np.concatenate([draw_labels(draws, slot, dominant, len(present), ratio) for dominant in classes])
    starts = np.concatenate([[0], np.cumsum(counts)])
    order = np.empty(len(labels), np.int64)
    for number, label in enumerate(present):
        positions = np.flatnonzero(labels == number)
        order[positions] = starts[label] + draws.randint(0, counts[int(label)], len(positions))
    return order


def shuffled_classes(classes: int, seed: int, ratio: float) -> list[int]:
    """The classes in the order of their slots: the last of as many shuffles as there are published ratios up to this one."""
    generator = random.Random(seed)
    order: list[int] = []
    for _ in [*(r for r in RATIOS if r < ratio), ratio]:
        order = list(range(classes))
        generator.shuffle(order)
    return order


def draw_labels(draws: np.random.RandomState, slot: int, dominant: int, classes: int, ratio: float) -> Ints:
    """Labels of one slot: the same numbers as `slot` calls of `choice(classes, 1, p=q)`."""
    q = np.full(classes, 1 / (ratio + classes - 1))
    q[dominant] = ratio / (ratio + classes - 1)
    cdf = q.cumsum()
    drawn: Ints = (cdf / cdf[-1]).searchsorted(draws.random_sample(slot), side="right")
    return drawn
