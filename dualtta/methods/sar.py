"""SAR: towards stable test-time adaptation in dynamic wild world (https://arxiv.org/abs/2302.12400).

Unlike in the published code, recovery clears the moving average for good, its threshold is the one given, and a batch without
a selected sample takes no step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from dualtta.hyperparameters import within
from dualtta.method import Appearance, Method, Selection
from dualtta.optim import Sharpen
from dualtta.probe import Memory, Probe
from dualtta.protocols import Protocol, Situation

EMA = "ema"  # the moving average of the entropy at the climbed weights


@dataclass(frozen=True, kw_only=True)
class SAR(Method):
    """Minimise the entropy of reliable samples, and its sharpness; return to the source when entropy is suspiciously low."""

    name: ClassVar[str] = "sar"
    title: ClassVar[str] = "SAR"
    paper: ClassVar[str] = "https://arxiv.org/abs/2302.12400"
    published: ClassVar[str] = "2023-02"
    appearance: ClassVar[Appearance | None] = Appearance("#d55e00", "D", "-.", "xxx")
    published_rates: ClassVar[Mapping[str, tuple[float, float]]] = {"own": (2.5e-4, 1e-3)}

    per_sample: ClassVar[bool] = True
    frozen_top: float = within(0.25, 0, 1)
    ent0: float = within(0.4, 0)  # the entropy threshold, as a share of ln C
    rho: float = within(0.05, 0)  # how far SAM climbs
    recovery: float = within(0.2, 0)  # below this moving average (in nats) the model is reset

    @classmethod
    def learning_rate(cls, at: Situation, protocol: Protocol = "paper") -> float:
        """The authors double their rate for single images."""
        rate = super().learning_rate(at, protocol)
        return 2 * rate if protocol == "own" and at.batch_size == 1 else rate

    @property
    def update(self) -> Sharpen:
        return Sharpen(self.rho)

    def select(self, probe: Probe, memory: Memory) -> Selection:
        plus = probe.entropy < self.ent0 * probe.max_entropy
        return Selection.of(plus, torch.ones_like(probe.entropy))

    def remember(self, probe: Probe, selection: Selection, memory: Memory) -> Memory:
        """ema <- 0.9 ema + 0.1 (mean entropy of the samples selected again)."""
        if selection.empty():
            return memory
        mean = torch.where(selection.plus, probe.entropy, 0.0).sum() / selection.sizes[0]
        return {**memory, EMA: 0.9 * memory[EMA] + 0.1 * mean if EMA in memory else mean}

    def should_reset(self, memory: Memory) -> bool:
        return EMA in memory and bool(memory[EMA] < self.recovery)
