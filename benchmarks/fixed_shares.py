"""Methods that select whom they are told to: random weights say nothing about who is confident, and what a step costs
depends on it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dualtta.core import Memory, Method, Probe, Selection
from dualtta.methods.deyo import DeYO
from dualtta.methods.dualtta import DualTTA
from dualtta.methods.eata import EATA
from dualtta.methods.sar import SAR
from dualtta.methods.tent import Tent


@dataclass(frozen=True)
class Shares:
    """Who of a batch has a confidence above tau_sa, and who is selected: the first so many, by default the paper's shares."""

    batch: int = 64
    above: float = 0.45
    selected: float = 0.258

    def first(self, share: float, like: Tensor) -> Tensor:
        """A mask of the first so many samples; of a part of the batch, everybody."""
        count = round(share * self.batch) if len(like) == self.batch else len(like)
        return torch.arange(len(like), device=like.device) < count


@dataclass(frozen=True, kw_only=True)
class FixedDual(DualTTA):
    shares: Shares

    def select(self, probe: Probe, memory: Memory) -> Selection:
        above, chosen = (self.shares.first(share, probe.entropy) for share in (self.shares.above, self.shares.selected))
        diff_sa = probe.drop("alter", suffice=above)
        diff_sp = probe.drop("preserve", suffice=chosen)
        beta = (self.ent0 * probe.max_entropy - probe.entropy).exp()
        return Selection.of(chosen, beta + diff_sa.exp() + (self.diff0 - diff_sp).exp())


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

    def lost(self, memory: Memory) -> bool:
        super().lost(memory)  # asked, and not obeyed
        return False


METHODS: dict[str, Callable[[Shares], str | Method]] = {
    "source": lambda shares: "source",
    "norm": lambda shares: "norm",
    "tent": lambda shares: Tent(),
    "eata": lambda shares: FixedEATA(shares=shares),
    "sar": lambda shares: FixedSAR(shares=shares),
    "deyo": lambda shares: FixedDeYO(shares=shares),
    "dualtta": lambda shares: FixedDual(shares=shares),
}
