"""Safe DualTTA, the default of `adapt`: DualTTA with smaller steps and three safeguards, so that it may stay switched on.

How it differs from the paper's method (`dualtta.py`) is in docs/manual.md, how its values were chosen on tuning cells in
studies/README.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from dualtta.hyperparameters import one_of, within
from dualtta.method import Appearance, Method, Reduction, Selection, entropy_objective
from dualtta.model.batchnorm import Statistics
from dualtta.optim import Anchored, Descend, Update
from dualtta.probe import Memory, Probe
from dualtta.views import PatchShuffle, Style, View

AVERAGE = "average"  # n, the moving average of D+'s mean prediction
RECENT, USUAL, SEEN = "recent", "usual", "seen"  # mean predictions over about WINDOW samples and over all; number of samples
KEEP = 0.9  # of a moving average at each step, as in EATA
WINDOW, PRIOR, HORIZON = 64, 640, 6400  # samples: recent; what the uniform prior of USUAL counts for; the memory of USUAL
PULL = 0.03  # the default of `anchor` for summed losses: weights stay within 33 steps of the source, however long the stream


@dataclass(frozen=True, kw_only=True)
class DualTTASafe(Method):
    """DualTTA with blended BatchNorm statistics, confidence-scaled steps, decay to the source, no update under label shift."""

    name: ClassVar[str] = "dualtta_safe"
    title: ClassVar[str] = "Safe DualTTA"
    published: ClassVar[str] = "2026-06"
    appearance: ClassVar[Appearance | None] = Appearance("#1b2a8f", "o", "--", "oo", "circle-open")

    # 0.3 of the batch's statistics, 0.7 of the source's: a batch is a noisy estimate, and the source's still hold in part
    statistics: ClassVar[Statistics] = 0.3
    # ten times the paper's rate for LayerNorm nets: their loss is a mean, whose steps are small
    rates: ClassVar[tuple[float, float]] = (5e-4, 1e-3)
    kept_on_reset: ClassVar[tuple[str, ...]] = (RECENT, USUAL, SEEN)
    # settings of saved states that were always at these values: switches of `studies/dual_variant.py` and of DualTTA
    retired: ClassVar[Mapping[str, Any]] = {
        "drop": "absolute", "filter_sa": True, "filter_sp": True, "breaks_by": "drop", "tau_minus": None, "top": 0.05,
        "minus_above": 0.0, "minus_below": None, "plus_below": None, "epsilon": None, "marginal": 0.0, "marginal_past": 0.0,
        "balance": 0.0, "recovery": 0.0,
    }  # fmt: skip

    frozen_top: float = within(0.25, 0, 1)
    alter: View = PatchShuffle()
    preserve: View = Style()
    tau_sa: float = within(0.4, -1, 1)
    tau_sp: float = within(0.7, -1, 1)
    diff0: float = within(0.7, -10, 10)  # Diff0 of the weight
    ent0: float = within(0.4, 0)  # Ent0 of the weight, as a share of ln C
    lam: float = within(0.5, 0)
    # "auto": the sum where BatchNorm couples the samples, which re-centres what a step shifts; else the mean
    reduction: Literal["sum", "mean", "auto"] = one_of("auto", "sum", "mean")
    # the loss times (mean confidence) ** cautious; None: 1 where the loss is a sum, else 0
    cautious: float | None = within(None, 0)
    # after each step: theta <- theta + anchor (theta_source - theta); None: PULL where the loss is a sum, else 0
    anchor: float | None = within(None, 0, 1)
    # D+ without samples of |cos(p, n)| >= crowd / sqrt(C): they repeat what is predicted most; None: no such filter
    crowd: float | None = within(1.3, 0, optional=True)
    guard: bool = True  # see `dualtta.guarded`; without it the learning rate is no ceiling, and a model can be destroyed
    # no update, and a return to the source, while ||recent - usual||^2 > steady: labels are sorted, or one class dominates
    steady: float | None = within(0.03, 0, optional=True)

    @property
    def guarded(self) -> bool:
        return self.guard

    @classmethod
    def from_earlier(cls, settings: Mapping[str, Any], classes: int) -> dict[str, Any]:
        """Earlier versions had no guard."""
        found = super().from_earlier(settings, classes)
        return {"guard": False, **found} if {"crowd", "steady"} <= found.keys() else found

    @property
    def update(self) -> Update:
        return Descend() if self.anchor == 0 else Anchored(self.pull)

    def pull(self, probe: Probe) -> float:
        """The share of the way back to the source after a step."""
        return self.anchor if self.anchor is not None else PULL if self.reduced(probe) == "sum" else 0.0

    def reduced(self, probe: Probe) -> Reduction:
        """Whether this batch's loss is a sum or a mean."""
        return self.reduction if self.reduction != "auto" else "sum" if probe.coupled else "mean"

    def select(self, probe: Probe, memory: Memory) -> Selection:
        may_plus = (probe.confidence > self.tau_sa) & self.novel(probe, memory)  # a drop cannot exceed the confidence p_k
        may_minus = probe.confidence > self.tau_sp
        if self.steady is not None:
            recent, usual, _ = self.running_means(probe, memory)
            stable = self.stable(recent, usual)
            may_plus, may_minus = may_plus & stable, may_minus & stable

        diff_sa = probe.drop("alter", needed=may_plus | may_minus)
        falls, stays = diff_sa > self.tau_sa, diff_sa < self.tau_sa
        diff_sp = probe.drop("preserve", needed=(falls & may_plus) | (stays & may_minus))
        plus = falls & (diff_sp < self.tau_sp) & may_plus
        minus = stays & (diff_sp > self.tau_sp) & may_minus

        beta = (self.ent0 * probe.max_entropy - probe.entropy).exp()
        alpha = beta + diff_sa.exp() + (self.diff0 - diff_sp).exp()
        return Selection.of(plus, alpha, minus, beta)

    def novel(self, probe: Probe, memory: Memory) -> Tensor | bool:
        """|cos(p, n)| < crowd / sqrt(C), where 1 / sqrt(C) is the cosine of one class with all C; True before there is n."""
        if self.crowd is None or AVERAGE not in memory:
            return True
        epsilon: float = self.crowd / probe.probs.shape[1] ** 0.5
        return cosine_similarity(probe.probs, memory[AVERAGE][None], dim=1).abs() < epsilon

    def stable(self, recent: Tensor, usual: Tensor) -> Tensor:
        """min(||recent - usual||^2, ||recent - 1/C||^2) <= steady.

        In a shuffled stream the distance is that of about 139 samples to their mean, below 1 / 139; it is 0.1 where one of
        ten classes has 40 % of the predictions.
        """
        distance = torch.minimum((recent - usual).square().sum(), (recent - 1 / len(recent)).square().sum())
        return distance <= (self.steady or 0.0)

    def running_means(self, probe: Probe, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Mean predictions (C,): recent ones with this batch, usual ones before it; and the number of samples in the latter."""
        mean, keep = probe.mean, exp(-len(probe.probs) / WINDOW)
        if RECENT not in memory:
            return mean, torch.full_like(mean, 1 / len(mean)), mean.new_tensor(float(PRIOR))
        return keep * memory[RECENT] + (1 - keep) * mean, memory[USUAL], memory[SEEN]

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        reduction = self.reduced(probe)
        loss = entropy_objective(probe, selection, self.lam, reduction)
        power = float(reduction == "sum") if self.cautious is None else self.cautious
        return loss * probe.confidence.mean() ** power if power else loss

    def remember(self, probe: Probe, selection: Selection, memory: Memory) -> Memory:
        """n <- 0.9 n + 0.1 (mean prediction over D+); the running means with this batch."""
        new: dict[str, Tensor] = {}
        size, batch = selection.sizes[0], len(probe.probs)
        if size and (self.crowd is not None or self.steady is not None):
            mean = probe.mean if size == batch else torch.where(selection.plus[:, None], probe.probs, 0.0).sum(0) / size
            new[AVERAGE] = KEEP * memory[AVERAGE] + (1 - KEEP) * mean if AVERAGE in memory else mean.clone()
        if self.steady is not None:
            recent, usual, seen = self.running_means(probe, memory)
            seen = (seen + batch).clamp_max(HORIZON)
            share = batch / seen
            new |= {RECENT: recent, USUAL: (1 - share) * usual + share * probe.mean, SEEN: seen}
        return {**memory, **new}

    def should_reset(self, memory: Memory) -> bool:
        """Whether the label distribution has left the one that was adapted to."""
        adapted = self.steady is not None and AVERAGE in memory
        return adapted and not bool(self.stable(memory[RECENT], memory[USUAL]))
