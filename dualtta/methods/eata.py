"""EATA: efficient test-time model adaptation without forgetting (https://arxiv.org/abs/2204.02610).

The Fisher term needs source-like data once, before the stream: see `dualtta.estimate_fisher`. Without it this is the
paper's ETA.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from dualtta.fisher import fisher_in
from dualtta.hyperparameters import within
from dualtta.method import Appearance, Method, Selection, entropy_objective
from dualtta.probe import Memory, Probe
from dualtta.protocols import Protocol, Situation

AVERAGE = "average"  # n, the moving average of the selected samples' predictions


@dataclass(frozen=True, kw_only=True)
class EATA(Method):
    """Minimise the entropy of samples that are reliable (low entropy) and not redundant (unlike the average prediction)."""

    name: ClassVar[str] = "eata"
    title: ClassVar[str] = "EATA"
    paper: ClassVar[str] = "https://arxiv.org/abs/2204.02610"
    published: ClassVar[str] = "2022-04"
    appearance: ClassVar[Appearance | None] = Appearance("#009e73", "^", "--", "///")
    published_rates: ClassVar[Mapping[str, tuple[float, float]]] = {"own": (2.5e-4, 1e-3)}
    fisher_samples: ClassVar[int] = 2000

    ent0: float = within(0.4, 0)  # Ent0 of the weight, as a share of ln C
    tau_ent: float | None = within(None, 0)  # the entropy threshold, as a share of ln C; None: ent0
    epsilon: float = within(0.05, 0, 1)  # 0.05 for ImageNet, 0.4 for ten classes
    fisher_alpha: float = within(2000.0, 0)  # 2000 for ImageNet, 1 for CIFAR-10

    @classmethod
    def settings_for(cls, at: Situation, protocol: Protocol = "paper") -> dict[str, Any]:
        few = {"epsilon": 0.4, "fisher_alpha": 1.0} if at.classes <= 10 else {"epsilon": 0.05, "fisher_alpha": 2000.0}
        return {**super().settings_for(at, protocol), **few}

    def reliable(self, probe: Probe) -> Tensor:
        tau_ent = self.ent0 if self.tau_ent is None else self.tau_ent
        return probe.entropy < tau_ent * probe.max_entropy

    def novel(self, cos: Tensor | None) -> Tensor | bool:
        """|cos(p, n)| < epsilon; every sample while there is no n yet."""
        return True if cos is None else cos.abs() < self.epsilon

    def similarity(self, probe: Probe, memory: Memory) -> Tensor | None:
        """cos(p, n); None while there is no n yet."""
        return cosine_similarity(probe.probs, memory[AVERAGE][None], dim=1) if AVERAGE in memory else None

    def weight(self, probe: Probe) -> Tensor:
        return (self.ent0 * probe.max_entropy - probe.entropy).exp()

    def select(self, probe: Probe, memory: Memory) -> Selection:
        plus = self.reliable(probe) & self.novel(self.similarity(probe, memory))
        return Selection.of(plus, self.weight(probe))

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        return entropy_objective(probe, selection) + self.forgetting(probe, memory)

    def forgetting(self, probe: Probe, memory: Memory) -> Tensor | float:
        """fisher_alpha * sum of F (theta - theta_source)^2, where a Fisher estimate was given."""
        fisher = fisher_in(memory)
        return self.fisher_alpha * probe.drift(fisher) if fisher else 0.0

    def remember(self, probe: Probe, selection: Selection, memory: Memory) -> Memory:
        """n <- 0.9 n + 0.1 (mean prediction over D+)."""
        size, _ = selection.sizes
        if not size:
            return memory
        mean = torch.where(selection.plus[:, None], probe.probs, 0.0).sum(0) / size
        return {**memory, AVERAGE: 0.9 * memory[AVERAGE] + 0.1 * mean if AVERAGE in memory else mean}
