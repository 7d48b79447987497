"""Batch statistics only: BatchNorm normalises by the test batch (https://arxiv.org/abs/2006.16971)."""

from dataclasses import dataclass
from typing import ClassVar

from dualtta.methods.source import Source
from dualtta.models.statistics import Statistics


@dataclass(frozen=True, kw_only=True)
class Norm(Source):
    """The source model with BatchNorm by batch statistics; the same as `source` on nets without BatchNorm."""

    statistics: ClassVar[Statistics] = "batch"
