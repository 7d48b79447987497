"""How an objective is descended: a plain step, one that leans back to the source, or one that first climbs to the sharpest
point nearby (SAM)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from dualtta.method import Probe, Selection
from dualtta.model.momentum import Momentum
from dualtta.model.parameters import Weights


@dataclass(frozen=True)
class Look:
    """What a method makes of a batch at the weights of one moment."""

    probe: Probe
    selection: Selection
    loss: Tensor


Again = Callable[[Selection], Look]  # look at the same batch by the same draws, now, among those selected before


class Update(ABC):
    """A rule that moves the weights by one look at a batch."""

    @abstractmethod
    def apply(self, look: Look, again: Again, weights: Weights, optimizer: Momentum) -> Look:
        """Move the weights, under no_grad, and return the look that the step was taken on.

        Where that look selects nobody, or something is not finite (NonFinite is raised), the caller puts the weights back.
        """


@dataclass(frozen=True)
class Descend(Update):
    """One step down the gradient."""

    def apply(self, look: Look, again: Again, weights: Weights, optimizer: Momentum) -> Look:
        weights.backward(look.loss)
        optimizer.step()
        weights.publish()
        return look


@dataclass(frozen=True)
class Anchored(Update):
    """One step down the gradient, then a share of the way back to the source: theta <- theta + share (theta_source - theta)."""

    share: float | Callable[[Probe], float] = 0.01  # a function: by what was seen of the batch

    def apply(self, look: Look, again: Again, weights: Weights, optimizer: Momentum) -> Look:
        weights.backward(look.loss)
        optimizer.step()
        weights.lean(self.share(look.probe) if callable(self.share) else self.share)
        weights.publish()
        return look


@dataclass(frozen=True)
class Sharpen(Update):
    """Sharpness-aware minimisation (https://arxiv.org/abs/2010.01412): the gradient at the climbed weights, applied at the
    original ones, over those of the first selection that are selected there again."""

    rho: float = 0.05

    def apply(self, look: Look, again: Again, weights: Weights, optimizer: Momentum) -> Look:
        original = weights.values()
        weights.backward(look.loss)
        weights.climb(self.rho)
        climbed = again(look.selection)
        weights.settle()  # weights that are not finite select nobody, and that is another matter
        if not climbed.selection.empty():
            weights.backward(climbed.loss)
            weights.assign(original)
            optimizer.step()
            weights.publish()
        return climbed
