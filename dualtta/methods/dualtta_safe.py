"""What `adapt(model)` takes: DualTTA that may be left switched on, as docs/findings.md says. Chosen on tuning cells alone."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from dualtta.method import Appearance, one_of, within
from dualtta.model.batchnorm import Statistics
from dualtta.studies.dual_variant import DualVariant


@dataclass(frozen=True, kw_only=True)
class DualTTASafe(DualVariant):
    """DualTTA by blended statistics, in cautious steps that lean back to the source, none while predictions are unusual."""

    name: ClassVar[str] = "dualtta_safe"
    title: ClassVar[str] = "Safe DualTTA"
    published: ClassVar[str] = "2026-06"
    appearance: ClassVar[Appearance | None] = Appearance("#1b2a8f", "o", "--", "oo", "circle-open")

    # BatchNorm by 0.3 of the batch and 0.7 of the source: few samples are a poor estimate, and the source's still holds in part
    statistics: ClassVar[Statistics] = 0.3
    # the mean's steps are small: at the paper's rate a LayerNorm net hardly moves; the baselines take ten times that there
    rates: ClassVar[tuple[float, float]] = (5e-4, 1e-3)
    # the sum takes steps as many times larger as samples are selected: BatchNorm nets gain by it, others collapse
    reduction: Literal["sum", "mean", "auto", "backed"] = one_of("auto", "sum", "mean", "backed")
    # such statistics re-centre only a part of what a step shifts: the sum's steps are as small as the net is unsure
    cautious: float | None = within(None, 0)
    # and where they still add up, as in a mixed stream of tens of thousands, the net leans back to the source after each
    anchor: float | None = within(None, 0, 1)
    # whoever predicts what is predicted too often already teaches nothing new: left out of D+
    crowd: float | None = within(1.3, 0, optional=True)
    # where labels come sorted, no rule tells right from wrong: no step until recent predictions are like the usual ones
    steady: float | None = within(0.03, 0, optional=True)
