"""The smallest perturbation that changes the predicted class, along one direction per sample."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

STEPS, HALVINGS = 24, 20


@dataclass(frozen=True)
class Flips:
    """Each sample's first flip: the scale along its direction and the new class; NaN and -1 without a flip."""

    scale: Tensor
    label: Tensor


def first_flips(predict: Callable[[Tensor], Tensor], labels: Tensor, reach: float, dtype: torch.dtype) -> Flips:
    """Search up to `reach` in steps that start small, then bisect the step in which the class changed.

    `predict` takes each sample's scale (B,) and gives the classes there. The scale that is returned is on the far side of the
    change. A class that changes and changes back within one step goes unseen.

    >>> at = torch.tensor([0.3, 5.0, 9.0])
    >>> flips = first_flips(lambda t: (t > at).long(), torch.zeros(3, dtype=torch.long), 8.0, torch.float64)
    >>> [round(scale, 4) for scale in flips.scale.tolist()], flips.label.tolist()
    ([0.3, 5.0, nan], [1, 1, -1])
    """
    low = torch.zeros(len(labels), dtype=dtype, device=labels.device)
    high = torch.full_like(low, reach)
    found = torch.zeros_like(labels, dtype=torch.bool)
    for step in range(1, STEPS + 1):
        here = torch.full_like(low, reach * (step / STEPS) ** 2)
        new = (predict(here) != labels) & ~found
        high = torch.where(new, here, high)
        found |= new
        if found.all():
            break
        low = torch.where(found, low, here)
    for _ in range(HALVINGS if found.any() else 0):
        middle = (low + high) / 2
        beyond = predict(middle) != labels
        low, high = torch.where(beyond, low, middle), torch.where(beyond, middle, high)
    return Flips(torch.where(found, high, torch.nan), torch.where(found, predict(high), -1))
