"""DeYO: entropy is not enough for test-time adaptation (https://arxiv.org/abs/2403.07366)."""

from dataclasses import dataclass

from torch import Tensor

from dualtta.core import Memory, Method, Probe, Selection, within
from dualtta.views import PatchShuffle, View


@dataclass(frozen=True, kw_only=True)
class DeYO(Method):
    """Minimise the entropy of confident samples whose prediction needs the shape: it drops when the image is altered."""

    spare: float = within(0.25, 0, 1)
    alter: View = PatchShuffle()
    tau_ent: float = within(0.5, 0)  # the entropy threshold, as a share of ln C
    ent0: float = within(0.4, 0)  # Ent0 of the weight, as a share of ln C
    tau_plpd: float = within(0.3, -1, 1)

    def confident(self, probe: Probe) -> Tensor:
        return probe.entropy < self.tau_ent * probe.max_entropy

    def certainty(self, probe: Probe) -> Tensor:
        return (self.ent0 * probe.max_entropy - probe.entropy).exp()

    def select(self, probe: Probe, memory: Memory) -> Selection:
        confident = self.confident(probe)
        plpd = probe.drop("alter", only=confident)  # published behaviour: a sub-batch
        plus = confident & (plpd > self.tau_plpd)
        return Selection.of(plus, self.certainty(probe) + plpd.exp())
