"""The parameters that adapt: what they were, what they are, and masters of their own where the model's cannot be stepped."""

import math
from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor, nn

from dualtta.model.buffers import Buffers
from dualtta.state import digest


class NonFinite(ArithmeticError):
    """A loss, a gradient or a result of an update is not finite."""


class Weights:
    """Named parameters of a model. Optimisers move the masters, under no_grad; `publish` brings them into the model."""

    def __init__(self, model: nn.Module, names: set[str]) -> None:
        self.model = model
        self.params = {name: p for name, p in model.named_parameters() if name in names}
        self.masters: dict[str, Tensor] = {
            name: p
            if p.dtype == widened(p) and dense(p)
            else torch.empty_like(p, dtype=widened(p)).copy_(p.detach()).requires_grad_()
            for name, p in self.params.items()
        }
        self._apart = [name for name, p in self.params.items() if p is not self.masters[name]]
        self.source = self.values()
        self._doubts: list[Tensor] = []  # numbers on the device that must be finite, read by `settle`

        self.buffers = Buffers(model)

    @cached_property
    def fingerprint(self) -> str:
        """Names the source model by all of its parameters and buffers, and by which adapt: another's state is refused."""
        source = {**dict(self.model.named_parameters()), **self.buffers.source, **self.source}
        return digest(" ".join(sorted(self.params)), source)

    def values(self) -> dict[str, Tensor]:
        return {name: master.detach().clone() for name, master in self.masters.items()}

    def assign(self, values: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            if self.masters:
                torch._foreach_copy_(list(self.masters.values()), [values[name] for name in self.masters])
            self._bring()

    def publish(self) -> None:
        """Bring the masters' values into the model; `settle` says whether they are finite there."""
        brought = self._bring()
        # of finite numbers too the sum may overflow, but no weights are that large
        self._doubts.append(torch.cat([value.flatten() for value in (*self.masters.values(), *brought)]).sum())

    def _bring(self) -> list[Tensor]:
        """The masters' values, into those parameters that are not masters themselves; returns these."""
        apart: list[Tensor] = [self.params[name] for name in self._apart]
        if apart:
            torch._foreach_copy_(apart, [self.masters[name] for name in self._apart])
        torch.clear_autocast_cache()  # or a surrounding autocast would go on with the old values
        return apart

    def forget_doubts(self) -> None:
        """What was published has been taken back: whether it was finite is nobody's concern any more."""
        self._doubts = []

    def settle(self, *more: Tensor) -> None:
        """NonFinite where a loss, a parameter that was published, or one of these was not finite since this was last asked.

        A gradient that is not finite makes the parameters so. Asked once an update: the host waits for the device here.
        """
        doubts, self._doubts = [*self._doubts, *more], []
        if doubts and not all(map(math.isfinite, torch.stack(doubts).tolist())):
            raise NonFinite("a loss, a gradient or a parameter would not be finite")

    def gradient(self, loss: Tensor) -> dict[str, Tensor]:
        """The gradient of each parameter that the loss depends on, in the masters' precision and layout.

        One kernel steps them all, and goes by memory alone: of an expanded gradient, as p.sum() has, it would read beyond.
        """
        grads = torch.autograd.grad(loss, list(self.params.values()), allow_unused=True)
        pairs = zip(self.masters.items(), grads, strict=True)
        return {name: like(master, grad) for (name, master), grad in pairs if grad is not None}

    def backward(self, loss: Tensor) -> None:
        """Leave the gradient of the loss in the masters."""
        if not loss.requires_grad:
            raise ValueError("no gradient comes through the model's forward: it runs under no_grad, or never uses what adapts")
        grads = self.gradient(loss)
        self._doubts.append(loss.detach())
        for name, master in self.masters.items():
            master.grad = grads.get(name)

    def climb(self, rho: float) -> None:
        """Move by rho g / (||g|| + 1e-12) along the gradient that `backward` left, one norm over all parameters."""
        moving = [(master, master.grad) for master in self.masters.values() if master.grad is not None]
        grads = [grad for _, grad in moving]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        steps = torch._foreach_mul(grads, rho / (norm + 1e-12))
        torch._foreach_add_([master for master, _ in moving], steps)
        self.publish()

    def lean(self, share: float) -> None:
        """Move the masters this share of the way back to the source; `publish` brings them into the model."""
        torch._foreach_lerp_(list(self.masters.values()), [self.source[name] for name in self.masters], share)

    def drift(self, importance: Mapping[str, Tensor]) -> Tensor:
        """Sum of importance * (value - source value)^2, differentiable."""
        terms = [(importance[n] * (p - self.source[n]).square()).sum() for n, p in self.params.items()]
        return torch.stack(terms).sum()


def widened(p: Tensor) -> torch.dtype:
    """What a parameter is stepped in: a step of 1e-5 on a bfloat16 weight of 1 would be rounded away."""
    return torch.promote_types(p.dtype, torch.float32)


def dense(p: Tensor) -> bool:
    """Whether its values lie side by side in memory, as the kernel that steps them takes it."""
    return torch.empty_like(p).stride() == p.stride()


def like(master: Tensor, value: Tensor) -> Tensor:
    """The same numbers as they lie in the master."""
    if value.dtype == master.dtype and value.stride() == master.stride():
        return value
    return torch.empty_like(master).copy_(value)
