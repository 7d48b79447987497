"""What `adapt(model)` takes: DualTTA that may be left switched on, as docs/findings.md says. Chosen on tuning cells alone."""

from dataclasses import dataclass
from typing import Literal

from dualtta.core import one_of, within
from dualtta.methods.dual_variant import DualVariant


@dataclass(frozen=True, kw_only=True)
class DualTTASafe(DualVariant):
    """DualTTA as printed but for three things; each keeps one class from eating the others where the printed method lets it."""

    # the sum takes steps as many times larger as samples are selected: BatchNorm nets gain by it, others collapse
    reduction: Literal["sum", "mean", "auto"] = one_of("auto", "sum", "mean")
    # whoever predicts what is predicted too often already teaches nothing new: left out of D+
    crowd: float | None = within(1.3, 0)
    # where labels come sorted, no rule tells right from wrong: no step until recent predictions are like the usual ones
    steady: float | None = within(0.03, 0)
