"""DualTTA: dual strategies for test-time adaptation, by the paper's equations.

D+ and D- are averaged, each over itself. The paper prints sums, as its predecessor DeYO does, whose code takes means;
`reduction="sum"` is the equation to the letter.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dualtta.hyperparameters import one_of, within
from dualtta.method import Appearance, Method, Reduction, Selection, entropy_objective
from dualtta.probe import Drop, Memory, Probe
from dualtta.views import PatchShuffle, Style, View


@dataclass(frozen=True, kw_only=True)
class DualTTA(Method):
    """Likely-correct samples (D+) fall under alteration and hold under restyling; likely-incorrect ones (D-) the reverse.

    Entropy is minimised over D+ and maximised over D-. A filter that is off selects no longer; its drop still enters the
    weights.
    """

    name: ClassVar[str] = "dualtta"
    title: ClassVar[str] = "DualTTA"
    published: ClassVar[str] = "2026-06"
    appearance: ClassVar[Appearance | None] = Appearance("#0072b2", "o", "-")

    frozen_top: float = within(0.25, 0, 1)
    alter: View = PatchShuffle()
    preserve: View = Style()
    tau_sa: float = within(0.4, -1, 1)
    tau_sp: float = within(0.7, -1, 1)
    diff0: float = within(0.7, -10, 10)  # Diff0 of the weight
    ent0: float = within(0.4, 0)  # Ent0 of the weight, as a share of ln C
    lam: float = within(0.5, 0)
    filter_sa: bool = True
    filter_sp: bool = True
    drop: Drop = one_of("absolute", "relative")  # Diff, or Diff / p_k
    reduction: Reduction = one_of("mean", "sum")  # each set averaged over itself, or summed as printed

    def select(self, probe: Probe, memory: Memory) -> Selection:
        bounded = self.drop == "absolute" and self.filter_sa and self.filter_sp  # a drop cannot exceed the confidence p_k
        may_break = probe.confidence > self.tau_sp if bounded else probe.all_samples
        may_matter = probe.confidence > min(self.tau_sa, self.tau_sp) if bounded else probe.all_samples

        diff_sa = probe.drop("alter", kind=self.drop, needed=may_matter)
        falls, stays = (
            (diff_sa > self.tau_sa, diff_sa < self.tau_sa) if self.filter_sa else (probe.all_samples, probe.all_samples)
        )
        diff_sp = probe.drop("preserve", kind=self.drop, needed=falls | (stays & may_break))
        holds, breaks = (
            (diff_sp < self.tau_sp, diff_sp > self.tau_sp) if self.filter_sp else (probe.all_samples, probe.all_samples)
        )
        plus, minus = falls & holds, stays & breaks
        if not (self.filter_sa or self.filter_sp):
            minus = ~probe.all_samples  # with no criterion left, no sample is likely incorrect

        beta = (self.ent0 * probe.max_entropy - probe.entropy).exp()
        alpha = beta + diff_sa.exp() + (self.diff0 - diff_sp).exp()
        return Selection.of(plus, alpha, minus, beta)

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        return entropy_objective(probe, selection, self.lam, self.reduction)
