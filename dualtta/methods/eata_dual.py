"""EATA with the paper's dual strategy: reliable but redundant samples have their entropy maximised."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dualtta.hyperparameters import within
from dualtta.method import Appearance, Selection, entropy_objective
from dualtta.methods.eata import EATA
from dualtta.probe import Memory, Probe


@dataclass(frozen=True, kw_only=True)
class EATADual(EATA):
    """D+ as in EATA; D-: reliable, and more than 3/2 epsilon like the average prediction."""

    name: ClassVar[str] = "eata_dual"
    title: ClassVar[str] = "EATA with D-"
    appearance: ClassVar[Appearance | None] = Appearance("#66a61e", "<", "-", "\\\\//")

    lam: float = within(0.5, 0)

    def select(self, probe: Probe, memory: Memory) -> Selection:
        reliable, cos = self.reliable(probe), self.similarity(probe, memory)
        plus = reliable & self.novel(cos)
        minus = reliable & (False if cos is None else cos > 1.5 * self.epsilon)
        return Selection.of(plus, self.weight(probe), minus, self.weight(probe))

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        return entropy_objective(probe, selection, self.lam) + self.forgetting(probe, memory)
