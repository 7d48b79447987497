"""SAR: towards stable test-time adaptation in dynamic wild world (https://arxiv.org/abs/2302.12400).

Unlike in the published code, recovery clears the moving average for good, its threshold is the one given, and a batch without
a selected sample takes no step.

The published threshold of recovery is 0.2 nats, for 1,000 classes. It is a share of ln C here, as the other entropies are: on
two classes ln C is 0.69, and an average below 0.2 nats is usual. `recovery_share=0.2 / math.log(C)` is 0.2 nats on C classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from dualtta.hyperparameters import within
from dualtta.method import Appearance, Method, Selection
from dualtta.optim import Sharpen
from dualtta.probe import Memory, Probe
from dualtta.protocols import Protocol, Situation

EMA = "ema"  # the moving average of the entropy at the climbed weights
FLOOR = "floor"  # the threshold of recovery, in nats


@dataclass(frozen=True, kw_only=True)
class SAR(Method):
    """Minimise the entropy of reliable samples, and its sharpness; return to the source when entropy is suspiciously low."""

    name: ClassVar[str] = "sar"
    title: ClassVar[str] = "SAR"
    paper: ClassVar[str] = "https://arxiv.org/abs/2302.12400"
    published: ClassVar[str] = "2023-02"
    appearance: ClassVar[Appearance | None] = Appearance("#d55e00", "D", "-.", "xxx")
    published_rates: ClassVar[Mapping[str, tuple[float, float]]] = {"own": (2.5e-4, 1e-3)}
    retired: ClassVar[Mapping[str, Any]] = {"recovery": None}  # in nats: the number of classes is not in a saved state

    per_sample: ClassVar[bool] = True
    frozen_top: float = within(0.25, 0, 1)
    ent0: float = within(0.4, 0)  # the entropy threshold, as a share of ln C
    rho: float = within(0.05, 0)  # how far SAM climbs
    # below this moving average, as a share of ln C, the model is reset
    recovery_share: float = within(0.2 / math.log(1000), 0)

    @classmethod
    def learning_rate(cls, at: Situation, protocol: Protocol = "paper") -> float:
        """The authors double their rate for single images."""
        rate = super().learning_rate(at, protocol)
        return 2 * rate if protocol == "own" and at.batch_size == 1 else rate

    @classmethod
    def from_earlier(cls, stored: Mapping[str, Any], classes: int) -> dict[str, Any]:
        """Earlier versions had the threshold in nats, under the name `recovery`."""
        settings = dict(stored)
        if "recovery" in settings and classes > 1:
            settings["recovery_share"] = settings.pop("recovery") / math.log(classes)
        return settings

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
        ema = 0.9 * memory[EMA] + 0.1 * mean if EMA in memory else mean
        return {**memory, EMA: ema, FLOOR: torch.full_like(ema, self.recovery_share * probe.max_entropy)}

    def should_reset(self, memory: Memory) -> bool:
        return EMA in memory and bool(memory[EMA] < memory[FLOOR])
