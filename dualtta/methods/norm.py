"""Batch statistics only: BatchNorm normalises by the test batch (https://arxiv.org/abs/2006.16971)."""

from dataclasses import dataclass
from typing import ClassVar

from dualtta.method import Appearance
from dualtta.methods.source import Source
from dualtta.model.batchnorm import Statistics


@dataclass(frozen=True, kw_only=True)
class Norm(Source):
    """The source model with BatchNorm by batch statistics; the same as `source` on nets without BatchNorm."""

    name: ClassVar[str] = "norm"
    title: ClassVar[str] = "BN statistics"
    paper: ClassVar[str] = "https://arxiv.org/abs/2006.16971"
    published: ClassVar[str] = "2020-06"
    appearance: ClassVar[Appearance | None] = Appearance("#56b4e9", "v", "-.", "...")

    statistics: ClassVar[Statistics] = "batch"
