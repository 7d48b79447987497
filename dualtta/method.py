"""What a method is made of: a batch is probed, the method selects samples, its objective is descended, a step is reported.

Batch --x--> Probe --> drops --> Selection (D+, D-, weight) --> objective --> Update --> Step
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from dualtta.hyperparameters import check_field, within
from dualtta.model.batchnorm import Statistics
from dualtta.optim import Descend, Update
from dualtta.probe import Memory, Probe
from dualtta.protocols import Protocol, Situation, check_protocol, scaled_rate
from dualtta.views.base import Draws, View

Reduction = Literal["sum", "mean"]


@dataclass(frozen=True)
class Selection:
    """The samples that take part: D+ (entropy minimised), D- (entropy maximised), each one's weight; all of shape (B,)."""

    plus: Tensor
    minus: Tensor
    weight: Tensor

    @classmethod
    def of(cls, plus: Tensor, alpha: Tensor, minus: Tensor | None = None, beta: Tensor | None = None) -> "Selection":
        """D+ weighted by alpha, D- by beta; samples in neither have weight zero.

        >>> Selection.of(torch.tensor([True, False]), torch.tensor([2.0, 3.0])).weight
        tensor([2., 0.])
        """
        weight = torch.where(plus, alpha, 0.0)
        if minus is None or beta is None:
            return cls(plus, torch.zeros_like(plus), weight)
        return cls(plus, minus, torch.where(minus, beta, weight))

    def restricted_to(self, other: "Selection") -> "Selection":
        """This selection without the samples that `other` does not select for the same set."""
        plus, minus = self.plus & other.plus, self.minus & other.minus
        return Selection(plus, minus, torch.where(plus | minus, self.weight, 0.0))

    def at_rows(self, rows: Tensor) -> "Selection":
        """This selection for a part of the batch."""
        return Selection(self.plus[rows], self.minus[rows], self.weight[rows])

    @property
    def selected(self) -> Tensor:
        """A mask of the samples in D+ or D-."""
        return self.plus | self.minus

    @cached_property
    def masks(self) -> "HostCopy":
        """D+ and D- for the host."""
        return HostCopy(torch.stack([self.plus, self.minus]))

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """|D+| and |D-|. The host waits for the device here."""
        plus, minus = map(sum, self.masks.read())
        return plus, minus

    def empty(self) -> bool:
        return not any(self.sizes)


class HostCopy:
    """Asynchronous device-to-host copy of a few numbers; synchronises on the first read.

    >>> HostCopy(torch.tensor([1, 2])).read()
    [1, 2]
    """

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers
        self._done: torch.cuda.Event | None = None

    def start(self) -> None:
        """Begin the copy, so that the device makes it before what it is given next."""
        if self._numbers.is_cuda:
            self._numbers = self._numbers.detach().to("cpu", non_blocking=True)
            self._done = torch.cuda.current_stream().record_event()

    def read(self) -> Any:
        """The numbers as Python has them: one, or lists of them."""
        self.start()
        if self._done:
            self._done.synchronize()
        return self._numbers.tolist()


def entropy_objective(probe: Probe, selection: Selection, lam: float = 0.0, reduction: Reduction = "mean") -> Tensor:
    """L = sum over D+ of alpha Ent - lam * sum over D- of beta Ent, or the same with means; an empty set contributes 0."""

    on_host = selection.plus.device.type == "cpu"  # reading the sizes from a GPU would make the host wait

    def term(mask: Tensor, which: int) -> Tensor:
        weight = torch.where(mask, selection.weight, 0.0)
        if reduction == "sum":
            return weight
        return weight / (max(1, selection.sizes[which]) if on_host else mask.sum().clamp_min(1))

    signed = term(selection.plus, 0)
    if lam and (not on_host or selection.sizes[1]):
        signed = signed - lam * term(selection.minus, 1)
    return probe.weighted_entropy(signed, selection.selected)


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
    equations, `update` names the rule that descends the objective. Class variables hold everything else about the method.
    """

    name: ClassVar[str] = ""  # in `dualtta.METHODS`, the command line and records
    title: ClassVar[str] = ""  # in tables and figures; empty: the name
    paper: ClassVar[str] = ""  # its address
    published: ClassVar[str] = ""  # year and month; tables list methods in this order
    appearance: ClassVar[Appearance | None] = None  # None: chosen by the name
    fisher_samples: ClassVar[int] = 0  # source samples that its Fisher importance is estimated on
    # hyper-parameters by the names under which records and saved states hold them; `adapt` understands both names
    aliases: ClassVar[Mapping[str, str]] = {"spare": "frozen_top"}

    statistics: ClassVar[Statistics] = "batch"  # what BatchNorm normalises by
    needs: ClassVar[Literal["selected", "batch"]] = "selected"  # the samples whose gradient the objective needs
    per_sample: ClassVar[bool] = False  # `select` treats each sample on its own: SAM may evaluate a part of the batch alone
    kept_on_reset: ClassVar[tuple[str, ...]] = ()  # memory that survives a reset to the source by `should_reset`
    retired: ClassVar[Mapping[str, Any]] = {}  # settings of earlier versions, in saved states: the value that still loads
    rates: ClassVar[tuple[float, float]] = (5e-4, 1e-4)  # default learning rates; the second where all norms are LayerNorm
    published_rates: ClassVar[Mapping[str, tuple[float, float]]] = {}  # by protocol, for batches of 64; others have `rates`
    frozen_top: float = within(0.0, 0, 1)  # share of the depth, from the output down, whose norm layers do not adapt

    def __post_init__(self) -> None:
        for spec in fields(self):
            check_field(type(self).__name__, spec, getattr(self, spec.name))

    @classmethod
    def learns(cls) -> bool:
        """Whether the method ever updates parameters."""
        return cls().update is not None

    @classmethod
    def learning_rate(cls, at: Situation, protocol: Protocol = "paper") -> float:
        """The learning rate under a protocol; a published one is scaled with the batch size by its authors' rule."""
        check_protocol(protocol)
        if protocol in cls.published_rates:
            return scaled_rate(cls.published_rates[protocol][at.layer_norm], at)
        return cls.rates[at.layer_norm]

    @classmethod
    def from_earlier(cls, stored: Mapping[str, Any], classes: int) -> dict[str, Any]:
        """Settings in a record of an earlier version, on so many classes, as this version has them."""
        return dict(stored)

    @classmethod
    def settings_for(cls, at: Situation, protocol: Protocol = "paper") -> dict[str, Any]:
        """Hyper-parameters under a protocol, with the learning rate; empty for methods that never update."""
        return {"lr": cls.learning_rate(at, protocol)} if cls.learns() else {}

    @property
    def guarded(self) -> bool:
        """Whether `adapt` puts the method under a guard by default."""
        return False

    @property
    def views(self) -> dict[str, View]:
        named = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, View)}

    @property
    def update(self) -> Update | None:
        """The rule that descends the objective; None: no parameter is ever updated."""
        return Descend()

    @abstractmethod
    def select(self, probe: Probe, memory: Memory) -> Selection:
        """D+, D- and the weights (B,) of one batch."""

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        """The loss, a scalar with a gradient: by default the mean weighted entropy over D+."""
        return entropy_objective(probe, selection)

    def remember(self, probe: Probe, selection: Selection, memory: Memory) -> Memory:
        """The memory after this batch."""
        return memory

    def should_reset(self, memory: Memory) -> bool:
        """Whether the model must return to the source weights after this batch."""
        return False


@dataclass(frozen=True)
class Step:
    """What one call did. All tensors are detached; masks, weights and drops have shape (B,)."""

    logits: Tensor  # (B, C), predicted before adapting on this batch
    plus: Tensor
    minus: Tensor
    weight: Tensor  # alpha on D+, beta on D-, 0 elsewhere
    drops: dict[str, Tensor]  # "alter" and "preserve"; NaN for samples that were not evaluated
    loss: Tensor  # 0-dim, before the update
    updated: bool  # the parameters were updated
    skipped: bool  # an update was due, but loss, gradient or result was not finite
    recovered: bool  # `Method.should_reset` returned the model to the source
    collapsing: bool  # predictions cover far fewer classes than the source model's on the same samples
    forwards: int  # samples forwarded, views included; a view that starts at its layer counts as a whole one
    backwards: int  # samples in the backward passes
    draws: dict[str, Draws]  # of the views; `step(x, draws=...)` replays them
    guard: str = ""  # of a guarded adapter: trial, learning, paused, statistics (they changed) or rollback
