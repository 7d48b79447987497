"""The guard's decisions: whether an adapted model is at least as good as its source, from unlabelled evidence.

`GuardedAdapter` in `dualtta.guarded` forwards batches through the source model, the control, and acts on these decisions. Here
are the settings, what is remembered of a stream, and the statistics of evidence. They are functions of predictions alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from dualtta.probe import LOWEST, entropy, widen
from dualtta.trust_region import FULL, divergence

TRIAL, LEARNING, PAUSED = 0.0, 1.0, 2.0  # modes
MODES = {TRIAL: "trial", LEARNING: "learning", PAUSED: "paused"}
WINDOW = 128  # samples of the moving averages by which statistics are compared
KEEP = 0.85  # of the evidence, from check to check
FUTILE = 1.0  # standard errors below zero at which a trial is given up from a quarter of its length on
LAST = 4  # times its length, for a trial that is undecided
ROUNDING = 1e-3  # nats of evidence of one sample that rounding may make
LIMIT = 5.0  # nats of evidence that one sample may give
LONGEST = 2.0**20  # samples of a pause


@dataclass(frozen=True)
class Guard:
    """Settings of the guard. None depends on the model: they are samples, nats, and errors of a test.

    step: the trust region: a step on 64 samples may change the predictions by this mean KL divergence.
    trial: samples that the model learns from before it is judged; the control predicts meanwhile.
    pause: samples without learning after a trial that shows no benefit; four times as many after each further one.
    every: batches from check to check; half as many in a trial.
    price: what a nat of divergence from the control must gain in consistency under mirroring.
    benefit: standard errors above zero at which a trial is passed: 0.6 % by chance at a check.
    sure: standard errors above zero at which a trial is passed from a quarter of its length on: 0.1 % by chance.
    harm: standard errors below zero at which learning ends: 1 % by chance at each check.
    gain: nats of information by which blended BatchNorm statistics must exceed the source's.
    caution: how much more a loss of certainty counts in that than a gain: batches of few classes make predictions uncertain.
    budget: the largest cost in plain forward passes a sample, averaged over the stream; a backward counts two. None: no limit.
    """

    step: float = 0.01
    trial: int = 1024
    pause: int = 1024
    every: int = 4
    price: float = 0.1
    benefit: float = 2.5
    sure: float = 3.0
    harm: float = 2.33
    gain: float = 0.2
    caution: float = 3.0
    budget: float | None = None

    def __post_init__(self) -> None:
        for spec in fields(self):
            value, whole = getattr(self, spec.name), spec.name in ("trial", "pause", "every")
            if spec.name == "budget" and value is None:
                continue
            least = 1 if whole or spec.name == "budget" else 0
            number = isinstance(value, int) or (isinstance(value, float) and not whole)
            if isinstance(value, bool) or not number or not math.isfinite(value) or value < least:
                kind = "a whole number" if whole else "a number"
                raise ValueError(f"Guard: {spec.name} must be {kind} of at least {least}, not {value!r}")


@dataclass
class Watch:
    """What the guard remembers of a stream: numbers, in saved states under their names."""

    mode: float = TRIAL
    since: float = 0.0  # samples in this mode
    pause: float = 0.0  # samples that the last pause was meant to last
    batches: float = 0.0
    seen: float = 0.0  # samples
    spent: float = 0.0  # plain forwards
    moved: float = 0.0  # updates since the source
    evidence: float = 0.0  # sum over checked samples, and its variance
    variance: float = 0.0
    usual: float = 0.0  # moving average and variance of a batch's mean entropy
    spread: float = 0.0
    blended: float = 0.0  # 1 where the blend of statistics is in force
    compared: float = 0.0  # samples on which statistics were compared
    source_self: float = 0.0  # moving averages of <p_i, p_i> and <p_i, p_j>, by the source's statistics and by the blend
    source_cross: float = 0.0
    blend_self: float = 0.0
    blend_cross: float = 0.0
    scale: float = 1.0  # of the trust region
    checks: float = 0.0
    trials: float = 1.0
    passed: float = 0.0  # trials that showed a benefit
    harms: float = 0.0  # times that learning was ended by evidence of harm
    switches: float = 0.0  # of the statistics
    unchecked: float = math.inf  # batches since the last check
    means: dict[str, Tensor] = field(default_factory=dict)  # mean predictions (C,), by the source's statistics and by the blend
    pending: dict[str, Tensor] = field(default_factory=dict)  # logits (N, C) of which there are too few for evidence

    def enter(self, mode: float) -> None:
        self.mode, self.since, self.evidence, self.variance, self.pending = mode, 0.0, 0.0, 0.0, {}
        self.trials += mode == TRIAL

    def tensors(self) -> dict[str, Tensor]:
        """What is remembered, by names."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        named = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
        means = {f"mean.{name}": mean for name, mean in self.means.items()}
        return {**named, **means, **{f"pending.{name}": logits for name, logits in self.pending.items()}}

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> "Watch":
        """What `tensors` gave."""
        numbers = {name: float(named[name]) for name in NUMBERS if name in named}
        kept = {
            kind: {k.removeprefix(kind): v for k, v in named.items() if k.startswith(kind)} for kind in ("mean.", "pending.")
        }
        return cls(**numbers, means=kept["mean."], pending=kept["pending."])

    def compare(self, source: Tensor, blend: Tensor, guard: Guard) -> bool:
        """Whether statistics should change, given one batch's logits (B, C) by the source's statistics and by the blend.

        Information is Renyi's of order two, log mean <p_i, p_i> - log mean <p_i, p_j>: how much more similar predictions are to
        themselves than to those of other samples. Diffuse predictions have little of it, and so have collapsed ones. The other
        samples are those of earlier batches: statistics of one batch push its own predictions apart.
        """
        size, first = len(source), not self.means
        if not (source.isfinite().all() and blend.isfinite().all()):
            return False
        self.compared += size
        rate = max(size / self.compared, min(1.0, size / WINDOW))
        for name, logits in (("source", source), ("blend", blend)):
            p = widen(logits).softmax(1)
            mean = p.mean(0)
            own, cross = similarities(p) if first else (p.square().sum(1).mean(), mean @ self.means[name])
            for part, value in (("self", own), ("cross", cross)):
                key = f"{name}_{part}"
                setattr(self, key, (1 - rate) * getattr(self, key) + rate * max(float(value), 1e-12))
            self.means[name] = mean if first else torch.lerp(self.means[name], mean, rate)
        if self.compared < FULL:
            return False
        certainty = math.log(self.blend_self / self.source_self)
        variety = math.log(self.source_cross / self.blend_cross)
        gained = variety + (certainty if certainty > 0 else guard.caution * certainty)
        needed = guard.gain * (0.5 if self.blended else 1.0)  # hysteresis: noise does not switch back and forth
        return (gained > needed) != bool(self.blended)

    def pool(self, *logits: Tensor, price: float) -> bool:
        """Gather logits (B, C) for `evidence` until there are enough, and add it. Returns whether it was added.

        What mean predictions and variances are taken over must be more than a few samples.
        """
        for number, each in enumerate(logits):
            known = self.pending.get(str(number))
            self.pending[str(number)] = widen(each) if known is None else torch.cat([known, widen(each)])
        if len(self.pending["0"]) < FULL:
            return False
        control, adapted, control_mirrored, adapted_mirrored = (self.pending[str(number)] for number in range(4))
        self.add(evidence(control, adapted, control_mirrored, adapted_mirrored, price))
        self.pending = {}
        return True

    def add(self, each: Tensor) -> None:
        """Add the evidence of each of some samples (N,)."""
        each = each.cpu().double().nan_to_num(-LIMIT, LIMIT, -LIMIT).clamp(-LIMIT, LIMIT)
        spread = each.var() if len(each) > 1 else each.square().sum()
        self.evidence = KEEP * self.evidence + each.sum().item()
        self.variance = KEEP**2 * self.variance + len(each) * (spread.item() + ROUNDING**2)

    def verdict(self, guard: Guard) -> str:
        """ "harm", "benefit", "none" (a trial showed neither), or "" where the trial or the learning goes on.

        A trial with some evidence goes on for up to LAST times its length.
        """
        errors = self.evidence / math.sqrt(self.variance)
        if errors < -guard.harm:
            return "harm"
        if self.mode != TRIAL or self.since < guard.trial / 4:
            return ""
        if errors > guard.sure:
            return "benefit"
        if errors < -FUTILE:
            return "none"
        if self.since < guard.trial:
            return ""
        if errors > guard.benefit:
            return "benefit"
        return "none" if errors < 0 or self.since >= LAST * guard.trial else ""

    def every(self, guard: Guard) -> int:
        """Batches from check to check: fewer in a trial, more the longer a pause is."""
        if self.mode == TRIAL:
            return max(1, guard.every // 2)
        return guard.every * int(min(4.0, max(1.0, self.pause / guard.pause))) if self.mode == PAUSED else guard.every

    def surprised(self, logits: Tensor) -> bool:
        """Whether the mean entropy of a batch's predictions is far from that of recent batches."""
        value = entropy(widen(logits).log_softmax(1)).mean().item()
        if not math.isfinite(value):
            return False
        first, gap = not self.usual, value - self.usual
        far = not first and gap * gap > 9 * self.spread + (0.25 * self.usual) ** 2
        if far and len(logits) >= FULL:
            self.compared, self.means = 0.0, {}  # another domain: statistics are compared anew
        self.usual += gap if first or far else 0.2 * gap
        self.spread = self.spread if first or far else 0.8 * (self.spread + 0.2 * gap * gap)
        return far


NUMBERS = tuple(spec.name for spec in fields(Watch) if spec.name not in ("means", "pending"))


def evidence(control: Tensor, adapted: Tensor, control_mirrored: Tensor, adapted_mirrored: Tensor, price: float) -> Tensor:
    """I(p_a) - I(p_c) - price KL(p_c || p_a) (B,), of logits on a batch that was not learned from yet.

    I is what the prediction for the mirror image says of that for the image, sum_k p_k log(q_k / mean q_k): low where a model
    contradicts itself, and where it predicts the same for every image. The gain must pay for a share of what was changed.
    Learning makes predictions sharper, right or wrong, so the control's logits are scaled to the same mean entropy.
    """
    log_a, log_am = (widen(logits).log_softmax(1) for logits in (adapted, adapted_mirrored))
    scale = sharpness(widen(control), entropy(log_a).mean())
    log_c, log_cm = ((scale * widen(logits)).log_softmax(1) for logits in (control, control_mirrored))
    return information(log_a, log_am) - information(log_c, log_cm) - price * divergence(log_c, log_a)


def information(log_p: Tensor, log_q: Tensor) -> Tensor:
    """sum_k p_k log(q_k / mean q_k) (B,) of log-probabilities (B, C).

    >>> certain = torch.tensor([[0.0, -1e4], [-1e4, 0.0]])
    >>> information(certain, certain).exp()
    tensor([2., 2.])
    """
    log_mean = log_q.exp().mean(0).clamp_min(torch.finfo(log_q.dtype).tiny).log()
    return (log_p.exp() * (log_q.clamp_min(LOWEST) - log_mean)).sum(1)


def sharpness(logits: Tensor, wanted: Tensor) -> Tensor:
    """The factor of logits (B, C) that gives their predictions this mean entropy.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> round(sharpness(logits, entropy((3 * logits).log_softmax(1)).mean()).item(), 3)
    3.0
    """
    low, high = logits.new_tensor(0.05), logits.new_tensor(20.0)
    for _ in range(24):
        middle = (low * high).sqrt()
        sharper = entropy((middle * logits).log_softmax(1)).mean() < wanted
        low, high = torch.where(sharper, low, middle), torch.where(sharper, middle, high)
    return (low * high).sqrt()


def similarities(p: Tensor) -> tuple[Tensor, Tensor]:
    """The means of <p_i, p_i>, and of <p_i, p_j> over pairs of different samples, of probabilities (B, C).

    >>> similarities(torch.eye(2))
    (tensor(1.), tensor(0.))
    """
    own = p.square().sum()
    return own / len(p), (p.sum(0).square().sum() - own) / (len(p) * (len(p) - 1))
