"""A way back from an update: weights and momentum as they were before it."""

import torch
from torch import Tensor
from torch.optim import SGD

from dualtta.models.weights import Weights

MOMENTUM = "momentum_buffer"


def momenta(optimizer: SGD, weights: Weights) -> dict[str, Tensor]:
    """The optimiser's momentum, by parameter name, where there is any yet."""
    known = {
        name: optimizer.state[master].get(MOMENTUM) for name, master in weights.masters.items() if master in optimizer.state
    }
    return {name: value for name, value in known.items() if value is not None}


class Undo:
    """`mark` before an update, `back` after one that must not have been. The copies are kept, and made in one call."""

    def __init__(self, weights: Weights, optimizer: SGD) -> None:
        self._weights, self._optimizer = weights, optimizer
        self._values = weights.values()
        self._momenta: dict[str, Tensor] = {}

    def mark(self) -> None:
        present = momenta(self._optimizer, self._weights)
        if self._momenta.keys() != present.keys():
            self._momenta = {name: torch.empty_like(value) for name, value in present.items()}
        kept, now = [*self._values.values(), *self._momenta.values()], [*self._weights.masters.values(), *present.values()]
        with torch.no_grad():
            torch._foreach_copy_(kept, now)

    def back(self) -> None:
        self._weights.assign(self._values)
        self._weights.forget_doubts()
        self._optimizer.state.clear()
        for name, value in self._momenta.items():
            self._optimizer.state[self._weights.masters[name]] = {MOMENTUM: value.clone()}
