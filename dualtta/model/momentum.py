"""Gradient descent with momentum, and a way back from a step: weights and velocity as they were before it."""

from collections import defaultdict

import torch
from torch import Tensor

from dualtta.model.parameters import Weights


class Momentum:
    """v <- momentum v + g, theta <- theta - lr v, by torch's one kernel for all parameters.

    Without what a torch Optimizer does around it at every step: on a small net that takes longer than the step.
    """

    def __init__(self, weights: Weights, lr: float, momentum: float) -> None:
        self._weights, self._lr, self._momentum = weights, lr, momentum
        self.velocity: dict[str, Tensor] = {}  # by parameter name, where there is any yet
        alike: defaultdict[tuple[torch.device, torch.dtype], list[str]] = defaultdict(list)  # what one kernel takes
        for name, master in weights.masters.items():
            alike[master.device, master.dtype].append(name)
        self._groups = list(alike.values())

    def step(self) -> None:
        """Down the gradients that `Weights.backward` left. Under no_grad, as all of an update is."""
        for names in self._groups:
            moving = {name: g for name in names if (g := self._weights.masters[name].grad) is not None}
            if self._momentum:
                self.velocity |= {name: torch.zeros_like(g) for name, g in moving.items() if name not in self.velocity}
            if not moving:
                continue
            torch._fused_sgd_(
                [self._weights.masters[name] for name in moving],
                list(moving.values()),
                [self.velocity[name] for name in moving] if self._momentum else [],
                weight_decay=0.0,
                momentum=self._momentum,
                lr=self._lr,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,
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
        torch._foreach_copy_(kept, [*self._weights.masters.values(), *(velocity[name] for name in self._velocity)])

    def back(self) -> None:
        self._weights.assign(self._values)
        self._weights.forget_doubts()
        self._optimizer.velocity = {name: value.clone() for name, value in self._velocity.items()}
