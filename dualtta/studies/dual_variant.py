"""DualTTA with its open questions as switches: which samples are likely wrong, and what keeps one class from eating the others.

Every field at its default is the method as printed; each other value is one departure, with its reason beside it. This is for
studying: what the studies favour gets a name of its own.
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

from dualtta.method import Memory, Probe, Reduction, Selection, entropy, entropy_objective, one_of, within
from dualtta.methods.dualtta import DualTTA
from dualtta.optim import Anchored, Descend, Update

AVERAGE = "average"  # n, the moving average of D+'s predictions: EATA's
MARGINAL = "marginal"  # the moving average of everybody's predictions, from equal shares on
SHARES = "shares"  # the same, of the last few batches
RECENT, USUAL, SEEN = "recent", "usual", "seen"  # mean predictions over about a batch of 64 and over all, and of how many
DROPS = "drops"  # the last drops under restyling
EMA = "ema"  # the moving average of D+'s entropy: SAR's
KEPT = 512  # drops that a quantile is taken over: eight batches of 64 follow a changing stream and still fix a 5 % tail
KEEP = 0.9  # of a moving average at each step, as EATA and SAR have it
WINDOW, PRIOR, HORIZON = 64, 640, 6400  # samples: what is recent, what equal shares count for at first, what all is at most
STEPS = 10  # that a momentum of 0.9 averages
LEAN = 0.03  # of the way back to the source after a step of the sum: however long the stream, no further from it than 33 steps
RAREST = 10.0  # how many times a rare class may count: one wrong guess in a class never seen must not drown the batch


@dataclass(frozen=True, kw_only=True)
class DualVariant(DualTTA):
    """DualTTA with other definitions of D- and remedies against collapse; as printed where nothing is switched."""

    # "auto": the sum where BatchNorm couples the samples, whose statistics re-centre what a step shifts; else the mean.
    # "backed": there the sum only while there are samples for every class, see `backing`
    reduction: Literal["sum", "mean", "auto", "backed"] = one_of("sum", "mean", "auto", "backed")  # type: ignore[assignment]

    # D-: whose prediction breaks under restyling. A drop of 0.7 needs a confidence of 0.7, so as printed D- is small and right.
    # "quantile": the `top` share of the stream's drops, whatever their size; "flip": another class is predicted;
    # "never": D- is empty, unlike lam=0 also in what is counted
    breaks_by: Literal["drop", "quantile", "flip", "never"] = one_of("drop", "quantile", "flip", "never")
    tau_minus: float | None = within(None, -1, 1)  # D-'s own threshold, so that a lower one leaves D+ alone; None: tau_sp
    top: float = within(0.05, 0, 1)  # about as many as the paper's figure has in D-
    # entropy, as shares of ln C: wrong samples are seldom certain, and pushing up what is uncertain already gains nothing
    minus_above: float = within(0.0, 0, 1)
    minus_below: float | None = within(None, 0)
    plus_below: float | None = within(None, 0)  # D+ without the uncertain, as the baselines have it

    # remedies: any that stops one class from eating the others
    epsilon: float | None = within(None, 0, 1)  # D+ without what is like the average prediction, |cos(p, n)| >= epsilon (EATA)
    crowd: float | None = within(None, 0)  # the same, epsilon = crowd / sqrt(C): one sure class of C equal ones is 1 / sqrt(C)
    marginal: float = within(0.0, 0)  # weight of the entropy of the mean prediction, maximised: classes stay in use
    marginal_past: float = within(0.0, 0, 0.9999)  # the past's share in that mean: small or one-class batches have no spread
    balance: float = within(0.0, 0)  # weights times (1 / (C q_k)) ** balance, q the running share of the predicted class
    steady: float | None = within(None, 0)  # no step where recent predictions are further than this from usual ones: see `calm`
    recovery: float = within(0.0, 0)  # back to the source below this moving average of entropy, in nats (SAR)
    # after a step, this share of the way back to the source: what it forgets comes back; None: LEAN where losses are summed
    anchor: float | None = within(0.0, 0, 1, optional=True)
    # the loss times (mean confidence) ** cautious: small steps where little is known; None: 1 where losses are summed, else 0
    cautious: float | None = within(0.0, 0, optional=True)

    survives: ClassVar[tuple[str, ...]] = (RECENT, USUAL, SEEN)

    @property
    def update(self) -> Update:
        return Descend() if self.anchor == 0 else Anchored(self.leaning)

    def leaning(self, probe: Probe) -> float:
        return self.anchor if self.anchor is not None else LEAN if self.reduced(probe) == "sum" else 0.0

    def select(self, probe: Probe, memory: Memory) -> Selection:
        may_rise, may_fall = self.unlikely(probe), self.likely(probe, memory)  # D- and D+ before anything is looked at
        if self.steady is not None:
            calm = self.calm(*self.mixtures(probe, memory)[:2])
            may_rise, may_fall = may_rise & calm, may_fall & calm
        diff_sa = probe.drop("alter", kind=self.drop, suffice=may_rise | may_fall)
        falls, stays = (diff_sa > self.tau_sa, diff_sa < self.tau_sa) if self.filter_sa else (probe.everybody, probe.everybody)
        rest = probe.everybody if self.breaks_by == "quantile" else (falls & may_fall) | (stays & may_rise)
        diff_sp = probe.drop("preserve", kind=self.drop, suffice=rest)  # quantiles are of everybody
        holds = diff_sp < self.tau_sp if self.filter_sp else probe.everybody
        plus = falls & holds & may_fall
        minus = stays & self.breaks(probe, diff_sp, memory) & may_rise & ~plus
        if not (self.filter_sa or self.filter_sp):
            minus = ~probe.everybody  # with no criterion left, nobody is likely incorrect

        beta = (self.ent0 * probe.max_entropy - probe.entropy).exp()
        alpha = beta + diff_sa.exp() + (self.diff0 - diff_sp).exp()
        if self.balance and SHARES in memory:
            rarity = self.rarity(probe, memory[SHARES])
            alpha, beta = alpha * rarity, beta * rarity
        return Selection.of(plus, alpha, minus, beta)

    def likely(self, probe: Probe, memory: Memory) -> Tensor:
        """Who may be in D+, by what the first forward says."""
        may: list[Tensor] = []
        if self.plus_below is not None:
            may.append(probe.entropy < self.plus_below * probe.max_entropy)
        epsilon = self.epsilon if self.crowd is None else self.crowd / probe.probs.shape[1] ** 0.5
        if epsilon is not None and AVERAGE in memory:
            may.append(cosine_similarity(probe.probs, memory[AVERAGE][None], dim=1).abs() < epsilon)
        if self.drop == "absolute" and self.filter_sa:
            may.append(probe.confidence > self.tau_sa)  # a drop cannot exceed the confidence p_k
        return reduce(and_, may) if may else probe.everybody

    def calm(self, recent: Tensor, usual: Tensor) -> Tensor:
        """Whether the last samples' mean prediction is like the usual one, or like equal shares: |difference|^2 <= steady.

        Where labels come sorted, or one class begins to eat the others, it is like neither. In a shuffled stream the distance
        is that of about 139 samples from their mean, below 1 / 139; where one of ten classes has 40 % of the predictions it is
        0.1. There no filter helps: what is sure is of the crowd, and what is not of the crowd is wrong.
        """
        away = torch.minimum((recent - usual).square().sum(), (recent - 1 / len(recent)).square().sum())
        return away <= (self.steady or 0.0)

    def mixtures(self, probe: Probe, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Mean predictions, recent ones with this batch, usual ones before it, and how many those are of."""
        mean, keep = probe.mean, exp(-len(probe.probs) / WINDOW)
        if RECENT not in memory:
            return mean, torch.full_like(mean, 1 / len(mean)), mean.new_tensor(float(PRIOR))
        return keep * memory[RECENT] + (1 - keep) * mean, memory[USUAL], memory[SEEN]

    def unlikely(self, probe: Probe) -> Tensor:
        """Who may be in D-, by what the first forward says."""
        if self.breaks_by == "never":
            return ~probe.everybody
        may: list[Tensor] = []
        if self.minus_above:
            may.append(probe.entropy > self.minus_above * probe.max_entropy)
        if self.minus_below is not None:
            may.append(probe.entropy < self.minus_below * probe.max_entropy)
        if self.drop == "absolute" and self.filter_sp and self.breaks_by == "drop":
            may.append(probe.confidence > self.threshold)
        return reduce(and_, may) if may else probe.everybody

    @property
    def threshold(self) -> float:
        return self.tau_sp if self.tau_minus is None else self.tau_minus

    def breaks(self, probe: Probe, diff_sp: Tensor, memory: Memory) -> Tensor:
        """Whose prediction does not survive restyling."""
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
            tiny = torch.finfo(mean.dtype).tiny  # the logarithm of a class nobody has has no gradient
            # a long memory moves little in one batch, so its entropy pushes as much harder; a sum is over everybody
            weight = self.marginal / (1 - self.marginal_past) * (len(probe.entropy) if reduction == "sum" else 1)
            loss = loss - weight * entropy(mean.clamp_min(tiny).log()[None]).squeeze()
        caution = float(reduction == "sum") if self.cautious is None else self.cautious
        return loss * probe.confidence.mean() ** caution if caution else loss

    def reduced(self, probe: Probe) -> Reduction:
        by_net: Reduction = "sum" if probe.coupled else "mean"
        return by_net if self.reduction == "auto" or self.reduction == "backed" else self.reduction

    def backing(self, probe: Probe, selection: Selection) -> Tensor:
        """min(1, STEPS |D+| / C): how many samples speak for each class in the steps that momentum averages.

        With two classes every one of them speaks for a class that many others speak for; with a thousand most classes
        have nobody, and a large step goes where a few samples, some of them wrong, happen to point.
        """
        return (STEPS / probe.probs.shape[1] * selection.plus.sum()).clamp_max(1.0)

    def mean_prediction(self, probs: Tensor, memory: Memory) -> Tensor:
        """Of the past and this batch; before the first, all classes have equal shares."""
        past = memory.get(MARGINAL, torch.full_like(probs[0], 1 / probs.shape[1]))
        return self.marginal_past * past + (1 - self.marginal_past) * probs.mean(0)

    def remember(self, probe: Probe, selection: Selection, memory: Memory) -> Memory:
        new: dict[str, Tensor] = {}
        size, _ = selection.sizes
        if (self.epsilon, self.crowd, self.steady) != (None, None, None) and size:
            all_of_them = size == len(probe.probs)
            new[AVERAGE] = probe.mean if all_of_them else torch.where(selection.plus[:, None], probe.probs, 0.0).sum(0) / size
        if self.balance:
            new[SHARES] = probe.mean
        if self.recovery and size:
            new[EMA] = torch.where(selection.plus, probe.entropy, 0.0).sum() / size
        moved = {name: moving(memory, name, value) for name, value in new.items()}
        if self.steady is not None:
            recent, usual, seen = self.mixtures(probe, memory)
            seen = (seen + len(probe.probs)).clamp_max(HORIZON)
            share = len(probe.probs) / seen
            moved |= {RECENT: recent, USUAL: (1 - share) * usual + share * probe.mean, SEEN: seen}
        if self.marginal:
            moved[MARGINAL] = self.mean_prediction(probe.probs, memory)
        if self.breaks_by == "quantile":
            moved[DROPS] = window(probe.drops["preserve"], memory)[-KEPT:]
        return {**memory, **moved}

    def lost(self, memory: Memory) -> bool:
        learnt = self.steady is not None and AVERAGE in memory
        if learnt and not bool(self.calm(memory[RECENT], memory[USUAL])):
            return True  # of another mixture of classes than this
        return EMA in memory and bool(memory[EMA] < self.recovery)


def moving(memory: Mapping[str, Tensor], name: str, value: Tensor) -> Tensor:
    """The moving average after one more value; the first value where there is none yet.

    >>> moving({"a": torch.tensor(1.0)}, "a", torch.tensor(2.0))
    tensor(1.1000)
    """
    return KEEP * memory[name] + (1 - KEEP) * value if name in memory else value.clone()  # no two of the memory are one


def window(drops: Tensor, memory: Memory) -> Tensor:
    """The remembered drops and these; what is not finite is nobody's."""
    drops = drops[drops.isfinite()]
    return torch.cat([memory[DROPS].to(drops), drops]) if DROPS in memory else drops
