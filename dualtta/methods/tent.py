"""Tent: fully test-time adaptation by entropy minimization (https://arxiv.org/abs/2006.10726)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from dualtta.method import Appearance, Method, Selection
from dualtta.probe import Memory, Probe


@dataclass(frozen=True, kw_only=True)
class Tent(Method):
    """Minimise the mean entropy of the whole batch over the affine parameters of all norm layers."""

    name: ClassVar[str] = "tent"
    title: ClassVar[str] = "Tent"
    paper: ClassVar[str] = "https://arxiv.org/abs/2006.10726"
    published: ClassVar[str] = "2020-06"
    appearance: ClassVar[Appearance | None] = Appearance("#e69f00", "s", "--", "\\\\\\")
    published_rates: ClassVar[Mapping[str, tuple[float, float]]] = {"own": (2.5e-4, 1e-3)}

    needs: ClassVar[Literal["selected", "batch"]] = "batch"

    def select(self, probe: Probe, memory: Memory) -> Selection:
        return Selection.of(probe.all_samples, torch.ones_like(probe.entropy))
