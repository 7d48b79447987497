"""What flows through the pipeline: a batch is probed, a method selects, its objective is descended, a step is reported.

Batch --x--> Probe --> drops --> Selection (D+, D-, weight) --> objective --> Update --> Step
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor

from dualtta.host_copy import Asked
from dualtta.hyperparameters import check_field
from dualtta.hyperparameters import one_of as one_of
from dualtta.hyperparameters import within as within
from dualtta.losses import entropy as entropy
from dualtta.losses import widen as widen
from dualtta.model.batchnorm import Statistics
from dualtta.probe import Drop as Drop
from dualtta.probe import Memory as Memory
from dualtta.probe import Probe as Probe
from dualtta.protocols import Protocol, Situation, check_protocol, scaled_rate
from dualtta.views.base import Draws, View

if TYPE_CHECKING:
    from dualtta.optim import Update

Reduction = Literal["sum", "mean"]


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


@dataclass(frozen=True)
class Appearance:
    """How figures draw a method: matplotlib's colour, marker, dash and hatch; plotly's marker where it is not the same."""

    color: str
    marker: str
    dash: str
    hatch: str = ""
    symbol: str = ""


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A method is its hyper-parameters and its equations. It holds no state: memory is passed in and out.

    Subclasses are frozen dataclasses. Views are fields (their names are the keys of `Step.drops`), `select` holds the
    equations, `update` names the rule that descends the objective. Class variables carry all else that is known of the method.
    """

    name: ClassVar[str] = ""  # in `dualtta.METHODS`, the command line and records
    title: ClassVar[str] = ""  # in tables and figures; empty: the name
    paper: ClassVar[str] = ""  # where it is published
    published: ClassVar[str] = ""  # year and month; tables list methods in this order
    appearance: ClassVar[Appearance | None] = None  # None: chosen by the name
    fisher_samples: ClassVar[int] = 0  # source samples that its Fisher importance is estimated on

    statistics: ClassVar[Statistics] = "batch"  # what BatchNorm normalises by
    needs: ClassVar[Literal["selected", "everybody"]] = "selected"  # whose gradient the objective asks for
    pointwise: ClassVar[bool] = False  # `select` judges each sample by itself: SAM may look again at a part of the batch
    survives: ClassVar[tuple[str, ...]] = ()  # what of the memory a return to the source leaves
    retired: ClassVar[Mapping[str, Any]] = {}  # settings of earlier versions, in saved states: the value that still loads
    rates: ClassVar[tuple[float, float]] = (5e-4, 1e-4)  # default learning rates; the second where all norms are LayerNorm
    published_rates: ClassVar[Mapping[str, tuple[float, float]]] = {}  # by protocol, for batches of 64; others have `rates`
    spare: float = within(0.0, 0, 1)  # the share of the depth, from the output down, whose norm layers are left alone

    def __post_init__(self) -> None:
        for spec in fields(self):
            check_field(type(self).__name__, spec, getattr(self, spec.name))

    @classmethod
    def learns(cls) -> bool:
        """Whether its parameters ever move."""
        return cls().update is not None

    @classmethod
    def learning_rate(cls, at: Situation, protocol: Protocol = "paper") -> float:
        """The rate under a protocol; a published one follows its authors' rule for the batch size."""
        check_protocol(protocol)
        if protocol in cls.published_rates:
            return scaled_rate(cls.published_rates[protocol][at.layer_norm], at)
        return cls.rates[at.layer_norm]

    @classmethod
    def settings_for(cls, at: Situation, protocol: Protocol = "paper") -> dict[str, Any]:
        """Hyper-parameters under a protocol, learning rate included; empty for methods that learn nothing."""
        return {"lr": cls.learning_rate(at, protocol)} if cls.learns() else {}

    @property
    def views(self) -> dict[str, View]:
        named = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, View)}

    @property
    def update(self) -> "Update | None":
        """The rule that descends the objective; None where nothing is ever updated."""
        from dualtta.optim import Descend

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
