"""Watching for collapse: the adapted model's predictions concentrate on few classes where the source model's do not.

Concentration alone is no alarm: a stream may be sorted by class. So while the predictions of the last samples are concentrated,
the source model is asked now and then, on the same samples, what it would have said.
"""

import math

import torch
from torch import Tensor

from dualtta.method import Memory

WINDOW = 128  # samples over which the present is averaged
ENOUGH = 32  # samples before anything is said
CHECK_EVERY = 4  # batches, while there is a suspicion: what it costs is a quarter of a forward
LOST = 0.35  # of the source's spread: below this it is a collapse


class CollapseWarning(UserWarning):
    """The adapted model's predictions are collapsing."""


ADVICE = (
    "the adapted model predicts few classes where the source model predicts many: the adaptation is collapsing. Call "
    "adapter.reset() to return to the source model, then use a smaller lr, larger batches, reduction='mean', or a method with "
    "a filter against it (eata, sar)"
)


def spread(shares: Tensor) -> float:
    """Over how many classes predictions are spread, less one: exp of the entropy of their shares, minus 1.

    >>> round(spread(torch.tensor([0.5, 0.5, 0.0])), 3), round(spread(torch.tensor([1.0, 0.0, 0.0])), 3)
    (1.0, 0.0)
    """
    return math.exp(torch.special.entr(shares).sum().item()) - 1


def watch(memory: Memory, predictions: Tensor, classes: int) -> Memory:
    """What of the memory changes when this batch's predictions (B,) count among those of the present."""
    return _average(memory, "watch", predictions, classes)


def suspicious(memory: Memory) -> bool:
    """Whether the present predictions are concentrated enough to ask the source model about them."""
    classes = len(memory["watch.shares"])
    return memory["watch.seen"].item() > ENOUGH and spread(memory["watch.shares"]) < 0.5 * (min(classes, WINDOW // 2) - 1)


def compare(memory: Memory, adapted: Tensor, source: Tensor) -> Memory:
    """What changes when it counts what the adapted and the source model predict for the same samples, (B,) each."""
    classes = len(memory["watch.shares"])
    return {**_average(memory, "watch.adapted", adapted, classes), **_average(memory, "watch.source", source, classes)}


def collapsing(memory: Memory) -> bool:
    """Whether the adapted model's predictions are spread over far fewer classes than the source's on the same samples."""
    if "watch.source.seen" not in memory or memory["watch.source.seen"].item() < ENOUGH or not suspicious(memory):
        return False
    there, here = spread(memory["watch.source.shares"]), spread(memory["watch.adapted.shares"])
    return there > min(1.0, 0.5 * (len(memory["watch.shares"]) - 1)) and here < LOST * there


def _add(shares: Tensor, predictions: Tensor, share: float) -> Tensor:
    """Add these predictions' shares in place, of `share` together. Not by bincount, for which the host would wait."""
    size = len(predictions)
    return shares.index_add_(0, predictions, shares.new_ones(size), alpha=share / size)


def _average(memory: Memory, key: str, predictions: Tensor, classes: int) -> Memory:
    """A plain mean until the window is full, an exponential one from then on."""
    size = len(predictions)
    if f"{key}.seen" not in memory:
        nobody = torch.zeros(classes, device=predictions.device)
        return {f"{key}.seen": torch.tensor(float(size)), f"{key}.shares": _add(nobody, predictions, 1.0)}
    seen = memory[f"{key}.seen"] + size  # on the host, which needs it
    pace = min(1.0, size / min(seen.item(), WINDOW))
    return {f"{key}.seen": seen, f"{key}.shares": _add(memory[f"{key}.shares"] * (1 - pace), predictions, pace)}
