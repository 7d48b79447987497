"""DeYO with the paper's dual strategy: confident samples that do not need the shape have their entropy maximised."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dualtta.hyperparameters import within
from dualtta.method import Appearance, Selection, entropy_objective
from dualtta.methods.deyo import DeYO
from dualtta.probe import Memory, Probe


@dataclass(frozen=True, kw_only=True)
class DeYODual(DeYO):
    """D+ as in DeYO; D-: confident, and PLPD below half its threshold."""

    name: ClassVar[str] = "deyo_dual"
    title: ClassVar[str] = "DeYO with D-"
    appearance: ClassVar[Appearance | None] = Appearance("#9467bd", ">", "-", "|||")

    lam: float = within(0.5, 0)

    def select(self, probe: Probe, memory: Memory) -> Selection:
        confident = self.confident(probe)
        plpd = probe.drop("alter", only=confident)
        plus = confident & (plpd > self.tau_plpd)
        minus = confident & (plpd < self.tau_plpd / 2)
        return Selection.of(plus, self.certainty(probe) + plpd.exp(), minus, self.certainty(probe))

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        return entropy_objective(probe, selection, self.lam)
