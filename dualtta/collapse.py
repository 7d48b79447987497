"""Watching for collapse: predictions that concentrate on few classes while their entropy leaves where it was.

Either alone is no alarm: a stream sorted by label concentrates, and good adaptation lowers the entropy.
"""

import math

import torch
from torch import Tensor

from dualtta.core import Memory, Probe

REFERENCE = 32  # samples of the stream's beginning that tell how the source model behaves
WINDOW = 128  # samples over which the present is averaged


class CollapseWarning(UserWarning):
    """The adapted model's predictions are collapsing."""


ADVICE = (
    "the predictions concentrate on few classes and their entropy has left where it began: the adaptation is collapsing. "
    "Call adapter.reset() to return to the source model, then use a smaller lr, larger batches, reduction='mean', or a "
    "method with a filter against it (eata, sar)"
)


def effective_classes(shares: Tensor) -> float:
    """exp of the entropy of the shares: how many classes the predictions are spread over.

    >>> round(effective_classes(torch.tensor([0.5, 0.5, 0.0])), 3)
    2.0
    """
    return math.exp(torch.special.entr(shares).sum().item())


def watch(memory: Memory, probe: Probe) -> Memory:
    """Count this batch into the averages of the beginning and of the present."""
    size, classes = probe.probs.shape
    shares = torch.bincount(probe.prediction, minlength=classes).to(probe.entropy) / size
    batch = torch.cat([shares, probe.entropy.mean()[None]])  # (C + 1,): class shares, entropy
    zero = torch.zeros((), dtype=batch.dtype, device=batch.device)
    seen = memory.get("watch.seen", zero)
    begun, now = memory.get("watch.begun", batch), memory.get("watch.now", batch)
    if seen < REFERENCE:
        begun = begun + (batch - begun) * size / (seen + size)
    pace = torch.clamp(size / torch.clamp(seen + size, max=WINDOW), max=1.0)  # a plain mean until the window is full
    return {**memory, "watch.seen": seen + size, "watch.begun": begun, "watch.now": now + (batch - now) * pace}


def collapsing(memory: Memory) -> bool:
    """Whether what `watch` has counted looks like a collapse."""
    if "watch.seen" not in memory or memory["watch.seen"] <= REFERENCE:
        return False
    begun, now = memory["watch.begun"], memory["watch.now"]
    classes, highest = len(now) - 1, math.log(len(now) - 1)
    spread_then, spread_now = effective_classes(begun[:-1]) - 1, effective_classes(now[:-1]) - 1
    concentrated = spread_now < max(0.5 * spread_then, 0.1 * (min(classes, WINDOW) - 1))
    h_then, h_now = begun[-1].item(), now[-1].item()
    sharp = h_now < 0.25 * h_then
    flat = h_then < 0.9 * highest and highest - h_now < 0.25 * (highest - h_then)
    return concentrated and (sharp or flat)
