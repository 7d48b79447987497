"""Tent: fully test-time adaptation by entropy minimization (https://arxiv.org/abs/2006.10726)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from dualtta.core import Memory, Method, Probe, Selection


@dataclass(frozen=True, kw_only=True)
class Tent(Method):
    """Minimise the mean entropy of the whole batch, by all norm layers."""

    needs: ClassVar[Literal["selected", "everybody"]] = "everybody"

    def select(self, probe: Probe, memory: Memory) -> Selection:
        return Selection.of(probe.everybody, torch.ones_like(probe.entropy))
