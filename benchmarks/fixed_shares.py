"""Methods that select fixed shares of the batch: the cost of a step depends on them, which random weights do not reproduce."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dualtta import Memory, Method, Probe, Selection
from dualtta.methods.deyo import DeYO
from dualtta.methods.deyo_dual import DeYODual
from dualtta.methods.dualtta import DualTTA
from dualtta.methods.dualtta_safe import DualTTASafe
from dualtta.methods.eata import EATA
from dualtta.methods.eata_dual import EATADual
from dualtta.methods.sar import SAR
from dualtta.methods.tent import Tent


@dataclass(frozen=True)
class Shares:
    """Shares of a batch: of confidence above tau_sa, in D+ and in D-; the defaults are the paper's."""

    batch: int = 64
    above: float = 0.45
    selected: float = 0.258
    wrong: float = 0.02  # in D-

    def first(self, share: float, like: Tensor) -> Tensor:
        """A mask of the first samples, as many as the share; of a part of the batch, all of them."""
        count = round(share * self.batch) if len(like) == self.batch else len(like)
        return torch.arange(len(like), device=like.device) < count

    def minus(self, like: Tensor) -> Tensor:
        """A mask of D-: the samples after D+."""
        return self.first(self.selected + self.wrong, like) & ~self.first(self.selected, like)


def dual(method: DualTTA | DualTTASafe, shares: Shares, probe: Probe) -> Selection:
    """The drops and weights of DualTTA, at these shares."""
    chosen = shares.first(shares.selected, probe.entropy)
    diff_sa = probe.drop("alter", needed=shares.first(shares.above, probe.entropy))
    diff_sp = probe.drop("preserve", needed=chosen)
    beta = (method.ent0 * probe.max_entropy - probe.entropy).exp()
    return Selection.of(chosen, beta + diff_sa.exp() + (method.diff0 - diff_sp).exp())


@dataclass(frozen=True, kw_only=True)
class FixedDual(DualTTA):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        return dual(self, self.shares, probe)


@dataclass(frozen=True, kw_only=True)
class FixedSafe(DualTTASafe):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        self.novel(probe, memory)
        self.stable(*self.running_means(probe, memory)[:2])
        return dual(self, self.shares, probe)

    def should_reset(self, memory: Memory) -> bool:
        super().should_reset(memory)  # for its cost
        return False


@dataclass(frozen=True, kw_only=True)
class FixedDeYODual(DeYODual):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        plpd = probe.drop("alter", only=self.shares.first(self.shares.above, probe.entropy))
        chosen, minus = self.shares.first(self.shares.selected, probe.entropy), self.shares.minus(probe.entropy)
        return Selection.of(chosen, self.certainty(probe) + plpd.exp(), minus, self.certainty(probe))


@dataclass(frozen=True, kw_only=True)
class FixedEATADual(EATADual):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        self.similarity(probe, memory)
        chosen, minus = self.shares.first(self.shares.selected, probe.entropy), self.shares.minus(probe.entropy)
        return Selection.of(chosen, self.weight(probe), minus, self.weight(probe))


@dataclass(frozen=True, kw_only=True)
class FixedDeYO(DeYO):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        plpd = probe.drop("alter", only=self.shares.first(self.shares.above, probe.entropy))
        return Selection.of(self.shares.first(self.shares.selected, probe.entropy), self.certainty(probe) + plpd.exp())


@dataclass(frozen=True, kw_only=True)
class FixedEATA(EATA):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        self.similarity(probe, memory)
        return Selection.of(self.shares.first(self.shares.selected, probe.entropy), self.weight(probe))


@dataclass(frozen=True, kw_only=True)
class FixedSAR(SAR):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        return Selection.of(self.shares.first(self.shares.selected, probe.entropy), torch.ones_like(probe.entropy))

    def should_reset(self, memory: Memory) -> bool:
        super().should_reset(memory)  # for its cost
        return False


METHODS: dict[str, Callable[[Shares], str | Method]] = {
    "source": lambda shares: "source",
    "norm": lambda shares: "norm",
    "tent": lambda shares: Tent(),
    "eata": lambda shares: FixedEATA(shares=shares),
    "sar": lambda shares: FixedSAR(shares=shares),
    "deyo": lambda shares: FixedDeYO(shares=shares),
    "eata_dual": lambda shares: FixedEATADual(shares=shares),
    "deyo_dual": lambda shares: FixedDeYODual(shares=shares),
    "dualtta": lambda shares: FixedDual(shares=shares),
    "dualtta_safe": lambda shares: FixedSafe(shares=shares, guard=False),
}
