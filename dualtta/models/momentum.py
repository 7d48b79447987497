"""Gradient descent with momentum, and a way back from a step: weights and velocity as they were before it."""

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from dualtta.models.weights import Weights


class Momentum:
    """v <- momentum v + g, theta <- theta - lr v, by torch's kernels.

    Without what a torch Optimizer does around them at every step: on a small net that takes longer than the step.
    """

    def __init__(self, weights: Weights, lr: float, momentum: float) -> None:
        self._weights, self._lr, self._momentum = weights, lr, momentum
        self.velocity: dict[str, Tensor] = {}  # by parameter name, where there is any yet
        self._fused = all(master.device.type in ("cpu", "cuda") for master in weights.masters.values())  # one kernel for all

    @torch.no_grad()
    def step(self) -> None:
        """Down the gradients that `Weights.backward` left."""
        moving = {name: (master, master.grad) for name, master in self._weights.masters.items() if master.grad is not None}
        if self._momentum:
            self.velocity |= {name: torch.zeros_like(g) for name, (_, g) in moving.items() if name not in self.velocity}
        sgd(
            [master for master, _ in moving.values()],
            [g for _, g in moving.values()],
            [self.velocity.get(name) for name in moving],
            fused=self._fused or None,
            weight_decay=0.0,
            momentum=self._momentum,
            lr=self._lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


class Undo:
    """`mark` before an update, `back` after one that must not have been. The copies are kept, and made in one call."""

    def __init__(self, weights: Weights, optimizer: Momentum) -> None:
        self._weights, self._optimizer = weights, optimizer
        self._values = weights.values()
        self._velocity: dict[str, Tensor] = {}

    def mark(self) -> None:
        velocity = self._optimizer.velocity
        if self._velocity.keys() != velocity.keys():
            self._velocity = {name: torch.empty_like(value) for name, value in velocity.items()}
        kept = [*self._values.values(), *self._velocity.values()]
        with torch.no_grad():
            torch._foreach_copy_(kept, [*self._weights.masters.values(), *(velocity[name] for name in self._velocity)])

    def back(self) -> None:
        self._weights.assign(self._values)
        self._weights.forget_doubts()
        self._optimizer.velocity = {name: value.clone() for name, value in self._velocity.items()}
