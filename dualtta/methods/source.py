"""No adaptation: the model as it was trained."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from dualtta.method import Appearance, Method, Selection
from dualtta.model.batchnorm import Statistics
from dualtta.probe import Memory, Probe


@dataclass(frozen=True, kw_only=True)
class Source(Method):
    """Predicts, and never changes anything."""

    name: ClassVar[str] = "source"
    title: ClassVar[str] = "No adapt"
    appearance: ClassVar[Appearance | None] = Appearance("#8a8a8a", "x", ":", symbol="x-thin-open")

    statistics: ClassVar[Statistics] = "source"

    @property
    def update(self) -> None:
        return None

    def select(self, probe: Probe, memory: Memory) -> Selection:
        none = torch.zeros_like(probe.prediction, dtype=torch.bool)
        return Selection.of(none, torch.zeros_like(probe.entropy))
