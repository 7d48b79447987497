"""No adaptation: the model as it was trained."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from dualtta.method import Appearance, Memory, Method, Probe, Selection
from dualtta.model.batchnorm import Statistics


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
        nobody = torch.zeros_like(probe.prediction, dtype=torch.bool)
        return Selection.of(nobody, torch.zeros_like(probe.entropy))
