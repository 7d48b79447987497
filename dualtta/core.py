"""What flows through the pipeline: a batch is probed, a method selects, its objective is descended, a step is reported.

Batch --x--> Probe --> drops --> Selection (D+, D-, weight) --> objective --> Update --> Step
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from dualtta.views.base import Draws, FeatureView, InputView, View

if TYPE_CHECKING:
    from dualtta.models.net import Net
    from dualtta.models.weights import Weights
    from dualtta.updates import Update

Memory = Mapping[str, Tensor]
Reduction = Literal["sum", "mean"]
Drop = Literal["absolute", "relative"]


def within(default: Any, low: float, high: float = math.inf) -> Any:
    """A dataclass field that refuses values outside [low, high]; `None`, where it is the default, means 'derived'."""
    return field(default=default, metadata={"low": low, "high": high})


def one_of(default: str, *others: str) -> Any:
    """A dataclass field that refuses all but these words."""
    return field(default=default, metadata={"words": (default, *others)})


def check_field(owner: str, spec: "Field[Any]", value: Any) -> None:
    if (words := spec.metadata.get("words")) and value not in words:
        raise ValueError(f"{owner}: {spec.name} must be {' or '.join(map(repr, words))}, not {value!r}")
    if isinstance(spec.default, bool) and not isinstance(value, bool):
        raise ValueError(f"{owner}: {spec.name} must be True or False, not {value!r}")
    low, high = spec.metadata.get("low"), spec.metadata.get("high")
    if low is None or high is None or (value is None and spec.default is None):
        return
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
        bound = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        raise ValueError(f"{owner}: {spec.name} must be a number {bound}, not {value!r}")


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

    def empty(self) -> bool:
        return not bool((self.plus | self.minus).any())


class Probe:
    """All that a method may ask of the model about one batch, at the weights of this moment.

    `entropy`, `probs`, `confidence` (p_k) and `prediction` (k) carry no gradient, so weights made of them are detached;
    `live_entropy` does, and only objectives use it.
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
    ) -> None:
        self._net, self._weights, self._x, self._views = net, weights, x, views
        self._memory, self._draws, self._generator = memory, draws, generator
        self.raw_logits = net(x, lone=len(x) == 1)
        logits = widen(self.raw_logits)  # losses and drops in float32 at least, whatever autocast does
        log_p = logits.log_softmax(1)
        lowest = torch.finfo(log_p.dtype).min  # a class of logit -inf, masked out, adds nothing
        self.live_entropy = -(log_p.exp() * log_p.clamp_min(lowest)).sum(1)
        self.entropy = self.live_entropy.detach()
        self.probs = log_p.detach().exp()
        self.confidence, self.prediction = self.probs.max(1)
        self.max_entropy = math.log(logits.shape[1])
        self.drops: dict[str, Tensor] = {}
        self.observed: dict[str, Tensor] = {}

    def drop(self, name: str, *, kind: Drop = "absolute", only: Tensor | None = None) -> Tensor:
        """Diff(y, y^view) = p_k(x) - p_k(view(x)) with k the class predicted for x; NaN for whoever was not looked at.

        `kind="relative"` divides by p_k(x). `only` forwards the sub-batch of these samples and nobody else: a BatchNorm then
        sees the sub-batch alone.
        """
        rows = torch.arange(len(self._x), device=self._x.device) if only is None else only.nonzero().squeeze(1)
        drops = torch.full_like(self.confidence, math.nan)
        if len(rows):
            with torch.no_grad():
                probs = widen(self._view_logits(name, rows)).softmax(1)
            seen = probs.gather(1, self.prediction[rows, None]).squeeze(1)
            drops[rows] = self.confidence[rows] - seen
        if kind == "relative":
            drops = drops / self.confidence
        self.drops[name] = drops
        return drops

    def drift(self, importance: Memory) -> Tensor:
        """Sum of F (theta - theta_source)^2 over the adapted parameters, with F[name] the importance of each."""
        return self._weights.drift(importance)

    def _view_logits(self, name: str, rows: Tensor) -> Tensor:
        view, x = self._views[name], self._x
        if name not in self._draws:
            self._draws[name] = view.draw(x, self._generator)
        if any(len(drawn) != len(x) for drawn in self._draws[name]):
            raise ValueError(f"the draws of {name!r} are for {len(self._draws[name][0])} samples, the batch has {len(x)}")
        narrow = x.device.type == "mps"  # the one device without float64
        draws = tuple(d.to(x.device, torch.float32 if narrow else d.dtype) for d in self._draws[name])
        lone = len(x) == 1
        if isinstance(view, InputView):
            return self._net(view.transform(x, draws)[rows], lone=lone)
        assert isinstance(view, FeatureView)
        mine = {key.removeprefix(f"{name}."): value for key, value in self._memory.items() if key.startswith(f"{name}.")}
        logits, observed = self._net.through(view, x[rows], tuple(d[rows] for d in draws), mine, lone=lone)
        self.observed |= {f"{name}.{key}": value for key, value in observed.items()}
        return logits


def widen(logits: Tensor) -> Tensor:
    """Half-precision logits as float32; float32 and float64 as they are."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def entropy_objective(probe: Probe, selection: Selection, lam: float = 0.0, reduction: Reduction = "mean") -> Tensor:
    """L = sum over D+ of alpha Ent - lam * sum over D- of beta Ent, or the same with means; an empty set contributes 0."""

    def term(mask: Tensor) -> Tensor:
        terms = selection.weight[mask] * probe.live_entropy[mask]  # index first: what is not selected may be NaN
        return terms.sum() if reduction == "sum" else terms.sum() / max(len(terms), 1)

    return term(selection.plus) - lam * term(selection.minus)


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A method is its hyper-parameters and its equations. It holds no state: memory is passed in and out.

    Subclasses are frozen dataclasses. Views are fields (their names are the keys of `Step.drops`), `select` holds the
    equations, `update` names the rule that descends the objective.
    """

    statistics: ClassVar[Literal["batch", "source"]] = "batch"  # what BatchNorm normalises by
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
    forwards: int  # samples forwarded, views included
    draws: dict[str, Draws]  # the views' random draws: `step(x, draws=...)` replays them
