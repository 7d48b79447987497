"""DeYO: entropy is not enough for test-time adaptation (https://arxiv.org/abs/2403.07366)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from dualtta.hyperparameters import within
from dualtta.method import Appearance, Method, Selection
from dualtta.probe import Memory, Probe
from dualtta.protocols import SPURIOUS, Protocol, Situation
from dualtta.views import PatchShuffle, View


@dataclass(frozen=True, kw_only=True)
class DeYO(Method):
    """Minimise the entropy of confident samples whose prediction needs the shape: it drops when the image is altered."""

    name: ClassVar[str] = "deyo"
    title: ClassVar[str] = "DeYO"
    paper: ClassVar[str] = "https://arxiv.org/abs/2403.07366"
    published: ClassVar[str] = "2024-03"
    appearance: ClassVar[Appearance | None] = Appearance("#cc79a7", "P", "--", "---")
    published_rates: ClassVar[Mapping[str, tuple[float, float]]] = {"own": (2.5e-4, 1e-3)}

    frozen_top: float = within(0.25, 0, 1)
    alter: View = PatchShuffle()
    tau_ent: float = within(0.5, 0)  # the entropy threshold, as a share of ln C
    ent0: float = within(0.4, 0)  # Ent0 of the weight, as a share of ln C
    tau_plpd: float = within(0.3, -1, 1)

    @classmethod
    def learning_rate(cls, at: Situation, protocol: Protocol = "paper") -> float:
        """The authors take five times their rate on spurious correlations."""
        rate = super().learning_rate(at, protocol)
        return 5 * rate if protocol == "own" and at.dataset in SPURIOUS else rate

    @classmethod
    def settings_for(cls, at: Situation, protocol: Protocol = "paper") -> dict[str, Any]:
        if at.dataset in ("colored_mnist", "colored_digits"):
            thresholds = {"tau_plpd": 0.5, "tau_ent": 1.0, "ent0": 1.0}
        else:
            thresholds = {"tau_plpd": 0.5 if at.dataset == "waterbirds" else 0.2 if at.wild else 0.3}
        return {**super().settings_for(at, protocol), **thresholds}

    def confident(self, probe: Probe) -> Tensor:
        return probe.entropy < self.tau_ent * probe.max_entropy

    def certainty(self, probe: Probe) -> Tensor:
        return (self.ent0 * probe.max_entropy - probe.entropy).exp()

    def select(self, probe: Probe, memory: Memory) -> Selection:
        confident = self.confident(probe)
        plpd = probe.drop("alter", only=confident)  # published behaviour: a sub-batch
        plus = confident & (plpd > self.tau_plpd)
        return Selection.of(plus, self.certainty(probe) + plpd.exp())
