"""DualTTA with switches for what the paper leaves open: the definition of D-, and remedies against collapse.

With every field at its default it is the method as printed, with sums; each other value changes one thing, with the reason
beside it. It serves the studies alone: what they favour becomes a method of its own, as `dualtta_safe` did.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import exp
from operator import and_
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from dualtta import Appearance, Memory, Probe, Reduction, Selection, entropy, entropy_objective, one_of, within
from dualtta.methods.dualtta import DualTTA
from dualtta.optim import Anchored, Descend, Update

AVERAGE = "average"  # n, the moving average of D+'s mean prediction, as in EATA
MARGINAL = "marginal"  # the moving average of all predictions, which starts uniform
SHARES = "shares"  # the same over the last few batches
RECENT, USUAL, SEEN = "recent", "usual", "seen"  # mean predictions over about WINDOW samples and over all; number of samples
DROPS = "drops"  # the last drops under the style view
EMA = "ema"  # the moving average of D+'s entropy, as in SAR
KEPT = 512  # drops that a quantile is taken over: eight batches of 64 follow a changing stream and still estimate a 5 % tail
KEEP = 0.9  # of a moving average at each step, as EATA and SAR have it
WINDOW, PRIOR, HORIZON = 64, 640, 6400  # samples: recent; what the uniform prior of USUAL counts for; the memory of USUAL
STEPS = 10  # steps that a momentum of 0.9 averages
PULL = 0.03  # the default of `anchor` for summed losses: weights stay within 33 steps of the source, however long the stream
RAREST = 10.0  # upper bound of a rare class's factor: one wrong prediction of an unseen class must not dominate the batch


@dataclass(frozen=True, kw_only=True)
class DualVariant(DualTTA):
    """DualTTA with other definitions of D- and remedies against collapse; as printed, with sums, at its defaults."""

    name: ClassVar[str] = "dual_variant"
    title: ClassVar[str] = "dual_variant"
    appearance: ClassVar[Appearance | None] = None

    # "auto": the sum where BatchNorm couples the samples, which re-centres what a step shifts; else the mean.
    # "backed": the same, but the sum is scaled down where D+ has few samples per class, see `backing`
    reduction: Literal["sum", "mean", "auto", "backed"] = one_of("sum", "mean", "auto", "backed")  # type: ignore[assignment]

    # D-: samples whose prediction changes under the style view. As printed a drop of 0.7 needs a confidence of 0.7, so D- is
    # small and mostly right. "quantile": the `top` share of the stream's drops; "flip": another class is predicted;
    # "never": D- is empty, unlike lam=0 also in what is counted
    breaks_by: Literal["drop", "quantile", "flip", "never"] = one_of("drop", "quantile", "flip", "never")
    tau_minus: float | None = within(None, -1, 1)  # a threshold for D- alone; None: tau_sp
    top: float = within(0.05, 0, 1)  # about the share that the paper's figure has in D-
    # bounds on entropy, as shares of ln C: wrong samples are seldom certain, and uncertain ones have little to gain
    minus_above: float = within(0.0, 0, 1)
    minus_below: float | None = within(None, 0)
    plus_below: float | None = within(None, 0)  # D+ without uncertain samples, as in the baselines

    # remedies against collapse onto one class
    epsilon: float | None = within(None, 0, 1)  # D+ without samples of |cos(p, n)| >= epsilon (EATA)
    crowd: float | None = within(None, 0)  # the same, epsilon = crowd / sqrt(C)
    marginal: float = within(0.0, 0)  # weight of the entropy of the mean prediction, which is maximised
    marginal_past: float = within(0.0, 0, 0.9999)  # the past's share in that mean, for small or one-class batches
    balance: float = within(0.0, 0)  # weights times (1 / (C q_k)) ** balance, q the running share of the predicted class
    steady: float | None = within(None, 0)  # no update while ||recent - usual||^2 > steady, see `stable`
    recovery: float = within(0.0, 0)  # reset below this moving average of entropy, in nats (SAR)
    # after each step: theta <- theta + anchor (theta_source - theta); None: PULL where the loss is a sum, else 0
    anchor: float | None = within(0.0, 0, 1, optional=True)
    # the loss times (mean confidence) ** cautious; None: 1 where the loss is a sum, else 0
    cautious: float | None = within(0.0, 0, optional=True)

    kept_on_reset: ClassVar[tuple[str, ...]] = (RECENT, USUAL, SEEN)

    @property
    def update(self) -> Update:
        return Descend() if self.anchor == 0 else Anchored(self.pull)

    def pull(self, probe: Probe) -> float:
        """The share of the way back to the source after a step."""
        return self.anchor if self.anchor is not None else PULL if self.reduced(probe) == "sum" else 0.0

    def select(self, probe: Probe, memory: Memory) -> Selection:
        may_minus, may_plus = self.minus_candidates(probe), self.plus_candidates(probe, memory)  # before any view is evaluated
        if self.steady is not None:
            stable = self.stable(*self.running_means(probe, memory)[:2])
            may_minus, may_plus = may_minus & stable, may_plus & stable
        diff_sa = probe.drop("alter", kind=self.drop, needed=may_minus | may_plus)
        falls, stays = (
            (diff_sa > self.tau_sa, diff_sa < self.tau_sa) if self.filter_sa else (probe.all_samples, probe.all_samples)
        )
        rest = probe.all_samples if self.breaks_by == "quantile" else (falls & may_plus) | (stays & may_minus)
        diff_sp = probe.drop("preserve", kind=self.drop, needed=rest)  # a quantile is taken over all drops
        holds = diff_sp < self.tau_sp if self.filter_sp else probe.all_samples
        plus = falls & holds & may_plus
        minus = stays & self.breaks(probe, diff_sp, memory) & may_minus & ~plus
        if not (self.filter_sa or self.filter_sp):
            minus = ~probe.all_samples  # without any criterion no sample is likely incorrect

        beta = (self.ent0 * probe.max_entropy - probe.entropy).exp()
        alpha = beta + diff_sa.exp() + (self.diff0 - diff_sp).exp()
        if self.balance and SHARES in memory:
            rarity = self.rarity(probe, memory[SHARES])
            alpha, beta = alpha * rarity, beta * rarity
        return Selection.of(plus, alpha, minus, beta)

    def plus_candidates(self, probe: Probe, memory: Memory) -> Tensor:
        """Samples that the first forward allows in D+, a mask (B,)."""
        may: list[Tensor] = []
        if self.plus_below is not None:
            may.append(probe.entropy < self.plus_below * probe.max_entropy)
        epsilon = self.epsilon if self.crowd is None else self.crowd / probe.probs.shape[1] ** 0.5
        if epsilon is not None and AVERAGE in memory:
            may.append(cosine_similarity(probe.probs, memory[AVERAGE][None], dim=1).abs() < epsilon)
        if self.drop == "absolute" and self.filter_sa:
            may.append(probe.confidence > self.tau_sa)  # a drop cannot exceed the confidence p_k
        return reduce(and_, may) if may else probe.all_samples

    def stable(self, recent: Tensor, usual: Tensor) -> Tensor:
        """min(||recent - usual||^2, ||recent - 1/C||^2) <= steady.

        Fails where labels come sorted, or where one class begins to dominate. In a shuffled stream the distance is that of
        about 139 samples to their mean, below 1 / 139; where one of ten classes has 40 % of the predictions it is 0.1. There
        no filter helps: certain samples belong to the dominant class, and the others are wrong.
        """
        distance = torch.minimum((recent - usual).square().sum(), (recent - 1 / len(recent)).square().sum())
        return distance <= (self.steady or 0.0)

    def running_means(self, probe: Probe, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Mean predictions (C,): recent ones with this batch, usual ones before it; and the number of samples in the latter."""
        mean, keep = probe.mean, exp(-len(probe.probs) / WINDOW)
        if RECENT not in memory:
            return mean, torch.full_like(mean, 1 / len(mean)), mean.new_tensor(float(PRIOR))
        return keep * memory[RECENT] + (1 - keep) * mean, memory[USUAL], memory[SEEN]

    def minus_candidates(self, probe: Probe) -> Tensor:
        """Samples that the first forward allows in D-, a mask (B,)."""
        if self.breaks_by == "never":
            return ~probe.all_samples
        may: list[Tensor] = []
        if self.minus_above:
            may.append(probe.entropy > self.minus_above * probe.max_entropy)
        if self.minus_below is not None:
            may.append(probe.entropy < self.minus_below * probe.max_entropy)
        if self.drop == "absolute" and self.filter_sp and self.breaks_by == "drop":
            may.append(probe.confidence > self.threshold)
        return reduce(and_, may) if may else probe.all_samples

    @property
    def threshold(self) -> float:
        return self.tau_sp if self.tau_minus is None else self.tau_minus

    def breaks(self, probe: Probe, diff_sp: Tensor, memory: Memory) -> Tensor:
        """Samples whose prediction changes under the style view, a mask (B,)."""
        if not self.filter_sp:
            return torch.ones_like(diff_sp, dtype=torch.bool)
        if self.breaks_by == "flip":
            return probe.flips("preserve")
        if self.breaks_by == "quantile":
            seen = window(diff_sp, memory)
            return diff_sp > (seen.quantile(1 - self.top) if len(seen) else torch.inf)
        return diff_sp > self.threshold

    def rarity(self, probe: Probe, shares: Tensor) -> Tensor:
        """(1 / (C q_k)) ** balance: 1 while all classes are predicted equally often."""
        share = shares[probe.prediction] * shares.numel()
        return share.clamp_min(1 / RAREST) ** -self.balance

    def objective(self, probe: Probe, selection: Selection, memory: Memory) -> Tensor:
        reduction = self.reduced(probe)
        loss = entropy_objective(probe, selection, self.lam, reduction)
        if self.reduction == "backed" and reduction == "sum":
            loss = loss * self.backing(probe, selection)
        if self.marginal and not selection.empty():
            mean = self.mean_prediction(probe.live_logits.softmax(1), memory)
            tiny = torch.finfo(mean.dtype).tiny  # log(0) has no gradient
            # one batch moves a long memory little, so the weight grows with it; a sum is over all samples
            weight = self.marginal / (1 - self.marginal_past) * (len(probe.entropy) if reduction == "sum" else 1)
            loss = loss - weight * entropy(mean.clamp_min(tiny).log()[None]).squeeze()
        caution = float(reduction == "sum") if self.cautious is None else self.cautious
        return loss * probe.confidence.mean() ** caution if caution else loss

    def reduced(self, probe: Probe) -> Reduction:
        by_net: Reduction = "sum" if probe.coupled else "mean"
        return by_net if self.reduction == "auto" or self.reduction == "backed" else self.reduction

    def backing(self, probe: Probe, selection: Selection) -> Tensor:
        """min(1, STEPS |D+| / C): samples per class in the steps that momentum averages.

        With a thousand classes most have no sample in D+, and a large step goes where a few, some of them wrong, point.
        """
        return (STEPS / probe.probs.shape[1] * selection.plus.sum()).clamp_max(1.0)

    def mean_prediction(self, probs: Tensor, memory: Memory) -> Tensor:
        """Of the past and this batch; uniform before the first."""
        past = memory.get(MARGINAL, torch.full_like(probs[0], 1 / probs.shape[1]))
        return self.marginal_past * past + (1 - self.marginal_past) * probs.mean(0)

    def remember(self, probe: Probe, selection: Selection, memory: Memory) -> Memory:
        new: dict[str, Tensor] = {}
        size, _ = selection.sizes
        if (self.epsilon, self.crowd, self.steady) != (None, None, None) and size:
            whole = size == len(probe.probs)
            new[AVERAGE] = probe.mean if whole else torch.where(selection.plus[:, None], probe.probs, 0.0).sum(0) / size
        if self.balance:
            new[SHARES] = probe.mean
        if self.recovery and size:
            new[EMA] = torch.where(selection.plus, probe.entropy, 0.0).sum() / size
        moved = {name: moving(memory, name, value) for name, value in new.items()}
        if self.steady is not None:
            recent, usual, seen = self.running_means(probe, memory)
            seen = (seen + len(probe.probs)).clamp_max(HORIZON)
            share = len(probe.probs) / seen
            moved |= {RECENT: recent, USUAL: (1 - share) * usual + share * probe.mean, SEEN: seen}
        if self.marginal:
            moved[MARGINAL] = self.mean_prediction(probe.probs, memory)
        if self.breaks_by == "quantile":
            moved[DROPS] = window(probe.drops["preserve"], memory)[-KEPT:]
        return {**memory, **moved}

    def should_reset(self, memory: Memory) -> bool:
        adapted = self.steady is not None and AVERAGE in memory
        if adapted and not bool(self.stable(memory[RECENT], memory[USUAL])):
            return True  # adapted to another mixture of classes
        return EMA in memory and bool(memory[EMA] < self.recovery)


def moving(memory: Mapping[str, Tensor], name: str, value: Tensor) -> Tensor:
    """The moving average after one more value; the first value where there is none yet.

    >>> moving({"a": torch.tensor(1.0)}, "a", torch.tensor(2.0))
    tensor(1.1000)
    """
    return KEEP * memory[name] + (1 - KEEP) * value if name in memory else value.clone()  # entries share no tensor


def window(drops: Tensor, memory: Memory) -> Tensor:
    """The remembered drops and these; non-finite drops are ignored."""
    drops = drops[drops.isfinite()]
    return torch.cat([memory[DROPS].to(drops), drops]) if DROPS in memory else drops
