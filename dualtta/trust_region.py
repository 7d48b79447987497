"""A trust region on predictions: a step may change what the model says by so much and no more, on any model."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dualtta.model.parameters import Weights
from dualtta.probe import LOWEST, Probe

FULL = 64  # samples; a smaller batch says less about the stream, and its bound is proportionally smaller
FEW = 16  # samples that the divergence is measured on, where samples are independent
TRIES = 6  # lengths of one step
LEAST = 1e-6  # of the scale, so that it can recover


@dataclass
class TrustRegion:
    """Shortens a step until the mean KL divergence of the batch's predictions, before and after it, is at most `bound` nats.

    The rate of a step is then set by what it does to the predictions, whatever the model and the learning rate: the learning
    rate is a ceiling. `scale` is the share of the full step at which the search begins; it follows the steps that were taken.
    """

    bound: float
    scale: float = 1.0
    divergence: float = 0.0  # of the last step
    tries: int = 0  # forwards for it

    def shorten(self, probe: Probe, weights: Weights, before: Mapping[str, Tensor], publish: Callable[[], None]) -> bool:
        """Move the weights back towards `before`; False where no step of `TRIES` lengths keeps to the bound."""
        masters = list(weights.masters.values())
        full, origin = [master.detach().clone() for master in masters], [before[name] for name in weights.masters]
        scale, bound = self.scale, self.bound * min(1.0, len(probe.entropy) / FULL)
        for self.tries in range(1, TRIES + 1):
            torch._foreach_copy_(masters, torch._foreach_lerp(origin, full, scale))
            publish()
            found = divergence(*probe.now(FEW)).mean().item()
            self.divergence = max(found, 0.0) if math.isfinite(found) else math.inf  # rounding may make it negative
            ratio = math.sqrt(bound / max(self.divergence, 1e-12))  # the divergence grows with the square of the step
            if self.divergence <= bound:
                self.scale = min(1.0, max(LEAST, scale * min(2.0, 0.9 * ratio)))
                return True
            scale *= max(0.1, 0.9 * ratio)
        self.scale = max(LEAST, scale)
        return False


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p || q) (B,) of log-probabilities (B, C).

    >>> divergence(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.5, 0.5]]).log())
    tensor([0.])
    """
    return (log_p.exp() * (log_p.clamp_min(LOWEST) - log_q.clamp_min(LOWEST))).sum(1)
