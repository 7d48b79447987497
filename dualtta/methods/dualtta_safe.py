"""What `adapt(model)` takes: DualTTA that may be left switched on, as docs/findings.md says. Chosen on tuning cells alone."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from dualtta.core import one_of, within
from dualtta.methods.dual_variant import DualVariant


@dataclass(frozen=True, kw_only=True)
class DualTTASafe(DualVariant):
    """DualTTA as printed but for its rate on LayerNorm nets, and three things that keep one class from eating the others."""

    # the mean's steps are small: at the paper's rate a LayerNorm net hardly moves; the baselines take ten times that there
    rates: ClassVar[tuple[float, float]] = (5e-4, 1e-3)
    # the sum takes steps as many times larger as samples are selected: BatchNorm nets gain by it, others collapse
    reduction: Literal["sum", "mean", "auto", "backed"] = one_of("auto", "sum", "mean", "backed")
    # whoever predicts what is predicted too often already teaches nothing new: left out of D+
    crowd: float | None = within(1.3, 0)
    # where labels come sorted, no rule tells right from wrong: no step until recent predictions are like the usual ones
    steady: float | None = within(0.03, 0)
