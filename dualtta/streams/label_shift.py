"""The imbalanced-label order of SAR (https://arxiv.org/abs/2302.12400): one class dominates, then another.

The published orders (ImageNet: 1,000 classes of 50 images, 100 draws a class, with replacement) come out exactly:

    dualtta conformance DIR        # compares every DIR/label_shift_seed<S>_ir<R>.npy
"""

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dualtta.conformance import Verdict
    from dualtta.data.datasets.base import Ints

RATIOS = (1, 1000, 2000, 3000, 4000, 5000, 500000)  # those published; each costs the class order one more shuffle
DRAWS_SEED = 2022  # the published orders differ by seed in their classes' order only, never in their draws
FILES = "label_shift_*.npy"


def label_shift(counts: Sequence[int], seed: int, ratio: float, slot: int | None = None) -> "Ints":
    """The order, as positions in the images sorted by class, of which class c has `counts[c]`.

    Every class has its slot, in which it is `ratio` times as likely as any other. A slot is as long as to make the order
    twice the number of images, as it was published, unless told. A class without images is never drawn.

    >>> label_shift([5, 5], seed=0, ratio=500000, slot=4)
    array([3, 3, 0, 3, 5, 8, 5, 5])
    """
    present = np.flatnonzero(np.asarray(counts) > 0)
    if not len(present):
        raise ValueError("there are no images to draw from")
    if not ratio >= 1:
        raise ValueError(f"the imbalance ratio must be at least 1 (every class as likely), not {ratio}")
    slot = max(1, round(2 * sum(counts) / len(present))) if slot is None else slot
    if slot < 1:
        raise ValueError(f"a class's slot must hold at least one draw, not {slot}")
    classes = shuffled_classes(len(present), seed, ratio)
    draws = np.random.RandomState(DRAWS_SEED)
    labels = np.concatenate([draw_labels(draws, slot, favourite, len(present), ratio) for favourite in classes])
    starts = np.concatenate([[0], np.cumsum(counts)])
    order = np.empty(len(labels), np.int64)
    for number, label in enumerate(present):
        places = np.flatnonzero(labels == number)
        order[places] = starts[label] + draws.randint(0, counts[int(label)], len(places))
    return order


def shuffled_classes(classes: int, seed: int, ratio: float) -> list[int]:
    """The order of the classes' slots: the last of one shuffle for every published ratio up to this one."""
    generator = random.Random(seed)
    order: list[int] = []
    for _ in [*(r for r in RATIOS if r < ratio), ratio]:
        order = list(range(classes))
        generator.shuffle(order)
    return order


def draw_labels(draws: np.random.RandomState, slot: int, favourite: int, classes: int, ratio: float) -> "Ints":
    """What `choice(classes, 1, p=q)` draws `slot` times, drawn at once."""
    q = np.full(classes, 1 / (ratio + classes - 1))
    q[favourite] = ratio / (ratio + classes - 1)
    cdf = q.cumsum()
    drawn: Ints = (cdf / cdf[-1]).searchsorted(draws.random_sample(slot), side="right")
    return drawn


def check(folder: Path, progress: Callable[[list[Any]], Any] = iter) -> list["Verdict"]:
    """A verdict on every recorded order of the folder."""
    return [check_order(path) for path in progress(sorted(folder.glob(FILES)))]


def check_order(path: Path) -> "Verdict":
    """Regenerate one recorded order; `worst` is the number of places that differ."""
    from dualtta.conformance import Verdict

    found = re.fullmatch(r"label_shift_seed(\d+)_ir(\d+)", path.stem)
    if not found:
        return Verdict(path.stem, False, None, "its name is not label_shift_seed<S>_ir<R>.npy")
    try:
        with path.open("rb") as file:
            golden = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # npy and its header each fail in ways of their own
        return Verdict(path.stem, False, None, f"not readable: {error}")
    try:
        ours = label_shift([50] * 1000, seed=int(found[1]), ratio=int(found[2]))
    except ValueError as error:
        return Verdict(path.stem, False, None, str(error))
    if golden.shape != ours.shape:
        return Verdict(path.stem, False, None, f"has shape {golden.shape}, not {ours.shape}")
    off = int((golden != ours).sum())
    return Verdict(path.stem, not off, float(off), f"{off} of {len(ours)} places differ" if off else "")
