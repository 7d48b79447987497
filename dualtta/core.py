"""What flows through the pipeline: a batch is probed, a method selects, its objective is descended, a step is reported.

Batch --x--> Probe --> drops --> Selection (D+, D-, weight) --> objective --> Update --> Step
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from dualtta.asked import Asked
from dualtta.fields import check_field
from dualtta.fields import one_of as one_of
from dualtta.fields import within as within
from dualtta.models.statistics import Statistics
from dualtta.views.base import Draws, FeatureView, InputView, View

if TYPE_CHECKING:
    from dualtta.models.net import Net
    from dualtta.models.weights import Weights
    from dualtta.updates import Update

Memory = Mapping[str, Tensor]
Reduction = Literal["sum", "mean"]
Drop = Literal["absolute", "relative"]
LEAST = -1e4  # of a log-probability in an entropy: exp is zero there, and a weighted gradient stays finite


@dataclass(frozen=True)
class Selection:
    """Who takes part: D+ (entropy minimised), D- (entropy maximised), each sample's weight; all of shape (B,)."""

    plus: Tensor
    minus: Tensor
    weight: Tensor

    @classmethod
    def of(cls, plus: Tensor, alpha: Tensor, minus: Tensor | None = None, beta: Tensor | None = None) -> "Selection":
        """D+ weighted by alpha, D- by beta; whoever is in neither has weight zero.

        >>> Selection.of(torch.tensor([True, False]), torch.tensor([2.0, 3.0])).weight
        tensor([2., 0.])
        """
        weight = torch.where(plus, alpha, 0.0)
        if minus is None or beta is None:
            return cls(plus, torch.zeros_like(plus), weight)
        return cls(plus, minus, torch.where(minus, beta, weight))

    def among(self, other: "Selection") -> "Selection":
        """This selection, restricted to those that `other` selected for the same purpose."""
        plus, minus = self.plus & other.plus, self.minus & other.minus
        return Selection(plus, minus, torch.where(plus | minus, self.weight, 0.0))

    def rows(self, rows: Tensor) -> "Selection":
        """This selection of a part of the batch."""
        return Selection(self.plus[rows], self.minus[rows], self.weight[rows])

    @property
    def taking(self) -> Tensor:
        """Who takes part at all."""
        return self.plus | self.minus

    @cached_property
    def counted(self) -> Asked:
        """Who is in D+ and in D-, on its way to the host."""
        return Asked(torch.stack([self.plus, self.minus]))

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many are in D+ and in D-: the one place where the host waits for the device to know."""
        plus, minus = map(sum, self.counted.hear())
        return plus, minus

    def empty(self) -> bool:
        return not any(self.sizes)


class Probe:
    """All that a method may ask of the model about one batch, at the weights of this moment.

    `entropy`, `probs`, `confidence` (p_k) and `prediction` (k) carry no gradient, so weights made of them are detached;
    `weighted_entropy`, `live_entropy` and `live_logits` do, and only objectives use them. Where the first forward kept no
    graph, these forward again whom they are asked about.
    """

    def __init__(
        self,
        net: "Net",
        weights: "Weights",
        x: Tensor,
        views: Mapping[str, View],
        memory: Memory,
        draws: dict[str, Draws],
        generator: Generator,
        *,
        graph: bool | None = True,  # whether the first forward keeps its graph; None: nobody will ask for a gradient
    ) -> None:
        self._net, self._weights, self._x, self._views = net, weights, x, views
        self._memory, self._draws, self._generator, self._graph = memory, draws, generator, graph
        self._size = len(x)
        self._lone = self._size == 1
        self._shortcuts = net.shortcuts(x.shape)
        taps = [net.layer_of(view) for view in views.values() if isinstance(view, FeatureView) and self._shortcuts.above]
        with torch.set_grad_enabled(bool(graph)):
            self.raw_logits, self._maps = net.tapped(x, taps, lone=self._lone)
            self._first = widen(self.raw_logits)  # losses and drops in float32 at least, whatever autocast does
        self._log_p = self._first.detach().log_softmax(1)  # no graph from here on: `WeightedEntropy` knows its gradient
        self.probs = self._log_p.exp()
        self.entropy = entropy(self._log_p, self.probs)
        self.confidence, self.prediction = self.probs.max(1)
        self.max_entropy = math.log(self.probs.shape[1])
        self.drops: dict[str, Tensor] = {}
        self._seen: dict[str, tuple[Tensor, Tensor | None]] = {}  # probabilities under a view, and of which rows
        self.observed: dict[str, Tensor] = {}
        self.graphed = self._size if graph else 0  # samples whose graph a backward goes through

    @cached_property
    def _predicted(self) -> Tensor:
        """The predicted class, as a column (B, 1)."""
        return self.prediction[:, None]

    @cached_property
    def everybody(self) -> Tensor:
        """A mask of the whole batch (B,)."""
        return torch.ones_like(self.prediction, dtype=torch.bool)

    @cached_property
    def mean(self) -> Tensor:
        """The mean prediction (C,)."""
        return self.probs.mean(0)

    @property
    def coupled(self) -> bool:
        """Whether BatchNorm makes the samples of this batch influence each other."""
        return self._net.coupled(self._lone)

    @cached_property
    def live_logits(self) -> Tensor:
        """The logits of the whole batch, with their gradient."""
        if self._graph:
            return self._first
        self.graphed += len(self._x)
        with torch.enable_grad():
            return widen(self._net(self._x, lone=self._lone))

    @cached_property
    def live_entropy(self) -> Tensor:
        """The entropy of every sample of the batch, with its gradient."""
        with torch.enable_grad():
            return entropy(self.live_logits.log_softmax(1))

    def weighted_entropy(self, coefficients: Tensor, taking: Tensor) -> Tensor:
        """Sum of coefficient * Ent over those who take part, with its gradient; nobody else needs a backward.

        The gradient has no graph of its own: for a gradient of a gradient take `live_entropy`.
        """
        if self._graph is None:
            return (coefficients * torch.where(taking, self.entropy, 0.0)).sum()
        if self._graph and not coefficients.requires_grad:
            summed: Tensor = WeightedEntropy.apply(self._first, self._log_p, self.probs, self.entropy, coefficients, taking)
            return summed
        if self._graph or "live_logits" in self.__dict__:
            return (coefficients * torch.where(taking, self.live_entropy, 0.0)).sum()
        rows = taking.nonzero().squeeze(1)
        self.graphed += len(rows)
        with torch.enable_grad():
            parts = [self._net.in_graph(self._weighted_part, part, coefficients) for part in self._net.parts(rows) if len(part)]
        return torch.stack(parts).sum() if parts else coefficients.new_zeros(())

    def _weighted_part(self, rows: Tensor, coefficients: Tensor) -> Tensor:
        live = entropy(widen(self._net(self._x[rows], lone=self._lone)).log_softmax(1))
        return (coefficients[rows] * live).sum()

    def drop(self, name: str, *, kind: Drop = "absolute", only: Tensor | None = None, suffice: Tensor | None = None) -> Tensor:
        """Diff(y, y^view) = p_k(x) - p_k(view(x)) with k the class predicted for x; NaN for whoever was not looked at.

        `kind="relative"` divides by p_k(x). `only` forwards the sub-batch of these samples and nobody else: a BatchNorm then
        sees the sub-batch alone. `suffice` says whose drop is needed: where samples do not influence each other the others
        are left out, and nothing else changes.
        """
        asked = suffice if suffice is not None and self._shortcuts.independent else only
        found = None if asked is None else asked.nonzero()  # the host waits for it
        rows = None if found is None or found.shape[0] == self._size else found.squeeze(1)
        draws = self._drawn(name)  # also where nobody is looked at: the next batch draws the same either way
        with torch.no_grad():
            logits = self._view_logits(name, draws, rows, alone=only is not None)
        if logits is None:
            self._seen[name], self.drops[name] = (self.probs[:0], rows), torch.full_like(self.confidence, math.nan)
            return self.drops[name]
        probs = widen(logits).softmax(1)
        self._seen[name] = probs, rows
        confidence, predicted = of_rows(self.confidence, rows), of_rows(self._predicted, rows)
        drops = confidence - probs.gather(1, predicted).squeeze(1)
        if kind == "relative":
            drops = drops / confidence
        self.drops[name] = self._among_all(drops, rows, math.nan)
        return self.drops[name]

    def flips(self, name: str) -> Tensor:
        """Who is predicted to be of another class under a view whose drop was asked for; nobody who was not looked at."""
        probs, rows = self._seen[name]
        return self._among_all(probs.argmax(1) != of_rows(self.prediction, rows), rows, False)

    def _among_all(self, values: Tensor, rows: Tensor | None, others: float) -> Tensor:
        """What these rows have, in the whole batch; the others have `others`."""
        return values if rows is None else values.new_full((self._size,), others).index_copy_(0, rows, values)

    def drift(self, importance: Memory) -> Tensor:
        """Sum of F (theta - theta_source)^2 over the adapted parameters, with F[name] the importance of each."""
        return self._weights.drift(importance)

    def _view_logits(self, name: str, draws: Draws, rows: Tensor | None, *, alone: bool) -> Tensor | None:
        """Logits under a view, of these rows or of all; None for no rows. `alone`: the rows are a batch of their own."""
        view, x, nobody = self._views[name], self._x, rows is not None and not len(rows)
        if nobody and (alone or isinstance(view, InputView)):
            return None
        if isinstance(view, InputView):
            seen = self._net.alter(view, x, draws)
            return self._net(of_rows(seen, rows), lone=self._lone)
        assert isinstance(view, FeatureView)
        own = f"{name}."
        memory = {key.removeprefix(own): value for key, value in self._memory.items() if key.startswith(own)}
        z = self._maps.get(self._net.layer_of(view))
        if alone and rows is not None:
            draws = tuple(d[rows] for d in draws)
        if z is not None and (not alone or self._shortcuts.independent):
            z, rows = (z[rows], None) if alone and rows is not None else (z, rows)
            styled, observed = self._net.restyle(view, z, draws, memory, rows)
            logits = None if nobody else self._net.above(self._net.layer_of(view), styled, x, lone=self._lone)
        else:
            part = x[rows] if alone and rows is not None else x
            logits, observed = self._net.through(view, part, draws, memory, lone=self._lone)
            logits = logits if alone else of_rows(logits, rows)
        self.observed |= {own + key: value for key, value in observed.items()}
        return logits

    def _drawn(self, name: str) -> Draws:
        x = self._x
        if name not in self._draws:
            self._draws[name] = self._views[name].draw(x, self._generator)
        if any(drawn.shape[0] != self._size for drawn in self._draws[name]):
            raise ValueError(f"the draws of {name!r} are for {len(self._draws[name][0])} samples, the batch has {self._size}")
        if x.device.type == "cpu":
            return self._draws[name]
        narrow = x.device.type == "mps"  # the one device without float64
        return tuple(d.to(x.device, torch.float32 if narrow else d.dtype, non_blocking=True) for d in self._draws[name])


def of_rows(values: Tensor, rows: Tensor | None) -> Tensor:
    """What these rows have; None: all of them, without a copy."""
    return values if rows is None else values[rows]


def entropy(log_p: Tensor, p: Tensor | None = None) -> Tensor:
    """Ent of log-probabilities (B, C); a class of probability zero, masked out by a logit of -inf, adds nothing.

    >>> entropy(torch.tensor([[0.5, 0.5, 0.0]]).log()).exp()
    tensor([2.])
    """
    p = log_p.exp() if p is None else p
    return -(p * log_p.clamp_min(LEAST)).sum(1)


class WeightedEntropy(torch.autograd.Function):
    """Sum of coefficient * Ent over those who take part, of logits of which all else is known already.

    Its gradient by dEnt / dlog p = -p (log p + 1) is to the bit what autograd finds, in half of the operators: on a small net
    those take longer than the model's own.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, log_p: Tensor, p: Tensor, ent: Tensor, coefficients: Tensor, taking: Tensor
    ) -> Tensor:
        ctx.save_for_backward(log_p, p, coefficients, taking)
        return (coefficients * torch.where(taking, ent, 0.0)).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        log_p, p, coefficients, taking = ctx.saved_tensors
        g = -torch.where(taking, grads[0] * coefficients, 0.0)[:, None]
        by_log_p = (g * log_p.clamp_min(LEAST) * p + g * p).to(log_p.dtype)  # a method's weights may be wider
        return torch._log_softmax_backward_data(by_log_p, log_p, 1, log_p.dtype), None, None, None, None, None


def widen(logits: Tensor) -> Tensor:
    """Half-precision logits as float32; float32 and float64 as they are."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def entropy_objective(probe: Probe, selection: Selection, lam: float = 0.0, reduction: Reduction = "mean") -> Tensor:
    """L = sum over D+ of alpha Ent - lam * sum over D- of beta Ent, or the same with means; an empty set contributes 0."""

    known = selection.plus.device.type == "cpu"  # how many there are: a GPU would have to be waited for

    def term(mask: Tensor, which: int) -> Tensor:
        weight = torch.where(mask, selection.weight, 0.0)
        if reduction == "sum":
            return weight
        return weight / (max(1, selection.sizes[which]) if known else mask.sum().clamp_min(1))

    signed = term(selection.plus, 0)
    if lam and (not known or selection.sizes[1]):
        signed = signed - lam * term(selection.minus, 1)
    return probe.weighted_entropy(signed, selection.taking)


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A method is its hyper-parameters and its equations. It holds no state: memory is passed in and out.

    Subclasses are frozen dataclasses. Views are fields (their names are the keys of `Step.drops`), `select` holds the
    equations, `update` names the rule that descends the objective.
    """

    statistics: ClassVar[Statistics] = "batch"  # what BatchNorm normalises by
    needs: ClassVar[Literal["selected", "everybody"]] = "selected"  # whose gradient the objective asks for
    pointwise: ClassVar[bool] = False  # `select` judges each sample by itself: SAM may look again at a part of the batch
    survives: ClassVar[tuple[str, ...]] = ()  # what of the memory a return to the source leaves
    rates: ClassVar[tuple[float, float]] = (5e-4, 1e-4)  # learning rates, the paper's; the second where all norms are LayerNorm
    spare: float = within(0.0, 0, 1)  # the share of the depth, from the output down, whose norm layers are left alone

    def __post_init__(self) -> None:
        for spec in fields(self):
            check_field(type(self).__name__, spec, getattr(self, spec.name))

    @property
    def views(self) -> dict[str, View]:
        named = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, View)}

    @property
    def update(self) -> "Update | None":
        """The rule that descends the objective; None where nothing is ever updated."""
        from dualtta.updates import Descend

        return Descend()

    @abstractmethod
    def select(self, probe: Probe, memory: Memory) -> Selection:
        """D+, D- and the weights of one batch."""

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        """What is minimised: by default the mean weighted entropy over D+."""
        return entropy_objective(probe, selection)

    def remember(self, probe: Probe, selection: Selection, memory: Memory) -> Memory:
        """The memory after this batch."""
        return memory

    def lost(self, memory: Memory) -> bool:
        """Whether the model is beyond repair, so that it must return to the source."""
        return False


@dataclass(frozen=True)
class Step:
    """What one call did. All tensors are detached; masks, weights and drops have shape (B,)."""

    logits: Tensor  # (B, C), predicted before adapting on this batch
    plus: Tensor
    minus: Tensor
    weight: Tensor  # alpha on D+, beta on D-, 0 for whoever takes no part
    drops: dict[str, Tensor]  # "alter" and "preserve"; NaN where nobody looked
    loss: Tensor  # 0-dim, before the update
    updated: bool  # a step was taken on the parameters
    skipped: bool  # an update was due, but loss, gradient or result was not finite
    recovered: bool  # the method gave the model up and returned to the source
    collapsing: bool  # predictions concentrate while their entropy leaves where it was
    forwards: int  # samples forwarded, views included; a view that starts at its layer counts as a whole one
    backwards: int  # samples that a gradient went back through
    draws: dict[str, Draws]  # the views' random draws: `step(x, draws=...)` replays them
