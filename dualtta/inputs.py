"""What is refused or warned of at the door: batches that are not finite, models that return probabilities."""

import cmath
from functools import cache

import torch
from torch import Tensor

PROBABILITIES = (
    "the model returns probabilities, not logits: their softmax is nearly flat, and what adapts learns nothing true from it. "
    "Leave out the model's last softmax, or pass logits=lambda p: p.clamp_min(1e-12).log()"
)


def are_shares(logits: Tensor) -> bool:
    """Whether every row is one of shares that add up to one, which logits hardly ever do."""
    return bool((logits >= 0).all() and ((logits.sum(1) - 1).abs() < 1e-2).all())


class Sound:
    """Whether a batch is finite; what can be told without looking into it is said at once.

    A GPU is asked while it forwards the batch, beside it, so that neither waits for the other.
    """

    def __init__(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.ndim < 2:
            what = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"the input must be a batch, a tensor (B, ...), not {what}")
        if not len(x):
            raise ValueError(f"the batch is empty: shape {tuple(x.shape)}")
        self._x = x.detach() if x.requires_grad else x
        self._there = torch.cuda.current_stream(x.device).record_event() if x.is_cuda else None
        self._sound = False
        if not x.is_cuda:
            self.insist()

    def insist(self) -> None:
        if self._sound:
            return
        if self._there is None:
            self._sound = self._finite()
        else:
            aside = beside(self._x.device)
            aside.wait_event(self._there)
            with torch.cuda.stream(aside):
                self._sound = self._finite()
        if not self._sound:
            raise ValueError("the input holds NaN or Inf: leave such samples out, or repair them before they are normalised")

    def _finite(self) -> bool:
        # of finite numbers too a sum may overflow, but seldom
        return cmath.isfinite(self._x.sum().item()) or bool(self._x.isfinite().all())


@cache
def beside(device: torch.device) -> torch.cuda.Stream:
    """A stream for what need not wait for the work that a device has."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
