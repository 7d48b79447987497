"""No adaptation: the model as it was trained."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from dualtta.core import Memory, Method, Probe, Selection


@dataclass(frozen=True, kw_only=True)
class Source(Method):
    """Predicts, and never changes anything."""

    statistics: ClassVar[Literal["batch", "source"]] = "source"

    @property
    def update(self) -> None:
        return None

    def select(self, probe: Probe, memory: Memory) -> Selection:
        nobody = torch.zeros_like(probe.prediction, dtype=torch.bool)
        return Selection.of(nobody, torch.zeros_like(probe.entropy))
