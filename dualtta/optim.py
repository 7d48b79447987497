"""The update: SGD with momentum, a snapshot to roll back to, and the rules that descend a method's objective.

`Descend` takes a plain step, `Anchored` a step followed by a pull towards the source weights, `Sharpen` a step by
sharpness-aware minimisation (SAM).
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from dualtta.model.parameters import Weights
from dualtta.probe import Probe
from dualtta.trust_region import TrustRegion

if TYPE_CHECKING:
    from dualtta.method import Selection
    from dualtta.model.forward import Net


class NonFinite(ArithmeticError):
    """A loss, a gradient or a result of an update is not finite."""


@dataclass(frozen=True)
class Evaluation:
    """A batch evaluated at the current weights: what was forwarded, what the method selected, and its loss."""

    probe: Probe
    selection: "Selection"
    loss: Tensor


# Evaluates the same batch with the same random draws at the weights of now; only samples selected before can be selected.
Reevaluate = Callable[["Selection"], Evaluation]


class SGD:
    """Stochastic gradient descent with momentum: v <- momentum v + g, theta <- theta - lr v.

    It steps all parameters by torch's fused kernel, without the bookkeeping of a torch Optimizer, which on a small net takes
    longer than the step itself. All methods are called under no_grad.
    """

    def __init__(self, weights: Weights, lr: float, momentum: float) -> None:
        self.weights, self._lr, self._momentum = weights, lr, momentum
        self.velocity: dict[str, Tensor] = {}  # by parameter name; empty before the first step
        self._unchecked: list[Tensor] = []  # scalars on the device that `check_finite` reads
        groups: defaultdict[tuple[torch.device, torch.dtype], list[str]] = defaultdict(list)  # one kernel call each
        for name, master in weights.masters.items():
            groups[master.device, master.dtype].append(name)
        self._groups = list(groups.values())

    def backward(self, loss: Tensor) -> None:
        """Leave the gradient of the loss in the masters."""
        if not loss.requires_grad:
            raise ValueError("no gradient comes through the model's forward: it runs under no_grad, or never uses what adapts")
        grads = gradient(loss, self.weights)
        self._unchecked.append(loss.detach())
        for name, master in self.weights.masters.items():
            master.grad = grads.get(name)

    def step(self) -> None:
        """Step along the gradient that `backward` left; parameters without one stay."""
        masters = self.weights.masters
        for names in self._groups:
            moving = {name: g for name in names if (g := masters[name].grad) is not None}
            if self._momentum:
                self.velocity |= {name: torch.zeros_like(g) for name, g in moving.items() if name not in self.velocity}
            if not moving:
                continue
            torch._fused_sgd_(
                [masters[name] for name in moving],
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

    def climb(self, rho: float) -> None:
        """Move by rho g / (||g|| + 1e-12) along the gradient that `backward` left; the norm is over all parameters."""
        moving = [(master, master.grad) for master in self.weights.masters.values() if master.grad is not None]
        grads = [grad for _, grad in moving]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        steps = torch._foreach_mul(grads, rho / (norm + 1e-12))
        torch._foreach_add_([master for master, _ in moving], steps)
        self.publish()

    def pull_to_source(self, share: float) -> None:
        """theta <- theta + share (theta_source - theta); `publish` brings the result into the model."""
        weights = self.weights
        torch._foreach_lerp_(list(weights.masters.values()), [weights.source[name] for name in weights.masters], share)

    def publish(self) -> None:
        """Bring the masters' values into the model; `check_finite` says whether they are finite there."""
        weights = self.weights
        published = list(weights.masters.values())
        if weights.separate:
            weights.copy_to_model()
            published += [weights.params[name] for name in weights.separate]
        else:
            torch.clear_autocast_cache()  # a surrounding autocast would keep using its copies of the old values
        # the sum of finite values may overflow too, but only for weights larger than any in use
        self._unchecked.append(torch.cat([value.flatten() for value in published]).sum())

    def check_finite(self, *more: Tensor) -> None:
        """Raise NonFinite where a loss, a published parameter or one of these scalars has not been finite since the last call.

        A gradient that is not finite makes the parameters so. Call it once an update: the host waits for the device here.
        """
        scalars, self._unchecked = [*self._unchecked, *more], []
        if scalars and not all(map(math.isfinite, torch.stack(scalars).tolist())):
            raise NonFinite("a loss, a gradient or a parameter would not be finite")

    def forget_unchecked(self) -> None:
        """Skip the check of what was published so far, because it was rolled back."""
        self._unchecked = []


def gradient(loss: Tensor, weights: Weights) -> dict[str, Tensor]:
    """The gradient of each parameter that the loss depends on, in the dtype and memory layout of its master.

    The fused kernel ignores strides: on an expanded gradient, such as that of p.sum(), it would read beyond the end.
    """
    grads = torch.autograd.grad(loss, list(weights.params.values()), allow_unused=True)
    found: dict[str, Tensor] = {}
    for (name, master), grad in zip(weights.masters.items(), grads, strict=True):
        if grad is not None:
            fits = grad.dtype == master.dtype and grad.stride() == master.stride()
            found[name] = grad if fits else torch.empty_like(master).copy_(grad)
    return found


class Snapshot:
    """Weights and velocity before an update: `take` copies them in one call, `restore` rolls an update back."""

    def __init__(self, optimizer: SGD) -> None:
        self._optimizer = optimizer
        self._values = optimizer.weights.values()
        self._velocity: dict[str, Tensor] = {}

    @property
    def values(self) -> dict[str, Tensor]:
        """The weights that were copied."""
        return self._values

    def take(self) -> None:
        velocity = self._optimizer.velocity
        if self._velocity.keys() != velocity.keys():
            self._velocity = {name: torch.empty_like(value) for name, value in velocity.items()}
        copies = [*self._values.values(), *self._velocity.values()]
        masters = self._optimizer.weights.masters.values()
        torch._foreach_copy_(copies, [*masters, *(velocity[name] for name in self._velocity)])

    def restore(self) -> None:
        self._optimizer.weights.assign(self._values)
        self._optimizer.forget_unchecked()
        self._optimizer.velocity = {name: value.clone() for name, value in self._velocity.items()}


class Outcome(NamedTuple):
    """What became of an update."""

    updated: bool = False
    skipped: bool = False  # it was due, but not finite
    recovered: bool = False
    backwards: int = 0  # samples


class Updater:
    """Takes updates that are due and finite, and rolls back all others."""

    def __init__(self, rule: "Update", optimizer: SGD) -> None:
        self.rule, self._optimizer, self._snapshot = rule, optimizer, Snapshot(optimizer)
        self.region: TrustRegion | None = None  # None: steps of any length

    def take(
        self, evaluation: Evaluation, reevaluate: Reevaluate, net: "Net", *, speculative: bool
    ) -> tuple[Evaluation, Outcome]:
        """Update by an evaluated batch. Returns the evaluation that the step was taken on, and the outcome.

        `speculative` starts before the host has read whether a sample is selected; if none is, the update is rolled back.
        """
        probe, used, backwards = evaluation.probe, evaluation, 0
        evaluation.selection.masks.start()  # ahead of the backward, which the copy would wait for
        total = probe.entropy.sum()  # not finite where one sample's entropy is not
        if not (speculative or math.isfinite(total)):
            return evaluation, Outcome(skipped=True)
        if speculative or not evaluation.selection.empty():
            self._snapshot.take()
            backwards = probe.graphed
            try:
                with net.batch_norm_mode(single=len(probe.entropy) == 1):
                    used = self.rule.apply(evaluation, reevaluate, self._optimizer)
                self._optimizer.check_finite(total)
                if used.selection.empty():
                    self._snapshot.restore()
                else:
                    backwards += used.probe.graphed if used is not evaluation else 0
                    self._shorten(probe)
            except BaseException as error:
                self._snapshot.restore()
                if not isinstance(error, NonFinite):
                    raise
                return evaluation, Outcome(skipped=True, backwards=backwards)
        return used, Outcome(updated=not used.selection.empty(), backwards=backwards)

    @property
    def before(self) -> dict[str, Tensor]:
        """The weights before the last update."""
        return self._snapshot.values

    def _shorten(self, probe: Probe) -> None:
        optimizer, before = self._optimizer, self._snapshot.values
        if self.region and not self.region.shorten(probe, optimizer.weights, before, optimizer.publish):
            raise NonFinite("no step of any length keeps to the trust region")
        optimizer.check_finite()


class Update(ABC):
    """A rule that moves the weights by one evaluated batch."""

    @abstractmethod
    def apply(self, evaluation: Evaluation, reevaluate: Reevaluate, optimizer: SGD) -> Evaluation:
        """Move the weights, under no_grad, and return the evaluation that the step was taken on.

        Where that evaluation selects no sample, or NonFinite is raised, the caller rolls the weights back.
        """


@dataclass(frozen=True)
class Descend(Update):
    """One step of gradient descent."""

    def apply(self, evaluation: Evaluation, reevaluate: Reevaluate, optimizer: SGD) -> Evaluation:
        optimizer.backward(evaluation.loss)
        optimizer.step()
        optimizer.publish()
        return evaluation


@dataclass(frozen=True)
class Anchored(Update):
    """One step of gradient descent, then a pull towards the source: theta <- theta + share (theta_source - theta)."""

    share: float | Callable[[Probe], float] = 0.01  # a function takes the batch's probe

    def apply(self, evaluation: Evaluation, reevaluate: Reevaluate, optimizer: SGD) -> Evaluation:
        optimizer.backward(evaluation.loss)
        optimizer.step()
        optimizer.pull_to_source(self.share(evaluation.probe) if callable(self.share) else self.share)
        optimizer.publish()
        return evaluation


@dataclass(frozen=True)
class Sharpen(Update):
    """Sharpness-aware minimisation (https://arxiv.org/abs/2010.01412).

    The gradient is taken at the weights moved by rho along the first gradient, over the samples that are selected at both
    places, and applied at the original weights.
    """

    rho: float = 0.05

    def apply(self, evaluation: Evaluation, reevaluate: Reevaluate, optimizer: SGD) -> Evaluation:
        original = optimizer.weights.values()
        optimizer.backward(evaluation.loss)
        optimizer.climb(self.rho)
        climbed = reevaluate(evaluation.selection)
        optimizer.check_finite()  # at weights that are not finite no sample is selected: that would hide the failure
        if not climbed.selection.empty():
            optimizer.backward(climbed.loss)
            optimizer.weights.assign(original)
            optimizer.step()
            optimizer.publish()
        return climbed
