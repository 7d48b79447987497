"""A batch as the model sees it, once as it is and through views; the entropy of its predictions."""

import cmath
import math
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from dualtta.views.base import Draws, FeatureView, InputView, View

if TYPE_CHECKING:
    from dualtta.model.forward import Net
    from dualtta.model.parameters import Weights

Memory = Mapping[str, Tensor]
Drop = Literal["absolute", "relative"]
Gradient = Literal["batch", "selected", "none"]
PROBABILITIES = (
    "the model returns probabilities, not logits: their softmax is nearly flat, so adaptation learns nothing from it. Leave "
    "out the model's last softmax, or pass logits=lambda p: p.clamp_min(1e-12).log()"
)
LOWEST = -1e4  # of a log-probability in an entropy: exp is zero there, and a weighted gradient stays finite


class Probe:
    """What a method may ask of the model about one batch, at the current weights.

    `probs` (B, C), and `entropy`, `confidence` (p_k) and `prediction` (k), all (B,), carry no gradient, so weights computed
    from them are detached. `weighted_entropy`, `live_entropy` and `live_logits` carry one; only objectives use them.

    `gradient` says which samples the first forward keeps its graph for: the whole "batch", or "none". With "selected" it keeps
    none, and the samples that the objective needs are forwarded again.
    """

    def __init__(
        self,
        net: "Net",
        weights: "Weights",
        x: Tensor,
        views: Mapping[str, View],
        memory: Memory,
        draws: dict[str, Draws],
        generator: Generator,
        *,
        gradient: Gradient = "batch",
    ) -> None:
        self._net, self._weights, self._x, self._views = net, weights, x, views
        self._memory, self._draws, self._generator, self._gradient = memory, draws, generator, gradient
        self._size = len(x)
        self._single = self._size == 1
        self._shortcuts = net.shortcuts(x.shape)
        starts = self._shortcuts.from_layer
        layers = [net.layer_of(view) for view in views.values() if isinstance(view, FeatureView) and starts]
        with torch.set_grad_enabled(gradient == "batch"):
            self.raw_logits, self._maps = net.forward_with_features(x, layers, single=self._single)
            self._logits = widen(self.raw_logits)  # losses and drops in float32 or wider, whatever autocast does
        self._log_p = self._logits.detach().log_softmax(1)  # no graph: `WeightedEntropy` computes its gradient itself
        self.probs = self._log_p.exp()
        self.entropy = entropy(self._log_p, self.probs)
        self.confidence, self.prediction = self.probs.max(1)
        self.max_entropy = math.log(self.probs.shape[1])
        self.drops: dict[str, Tensor] = {}
        self._viewed: dict[str, tuple[Tensor, Tensor | None]] = {}  # probabilities under a view, and of which rows
        self.observed: dict[str, Tensor] = {}  # what the views remember of this batch
        self.graphed = self._size if gradient == "batch" else 0  # samples whose graph a backward goes through

    @cached_property
    def all_samples(self) -> Tensor:
        """A mask of the whole batch (B,)."""
        return torch.ones_like(self.prediction, dtype=torch.bool)

    @cached_property
    def mean(self) -> Tensor:
        """The mean prediction (C,)."""
        return self.probs.mean(0)

    @property
    def coupled(self) -> bool:
        """Whether BatchNorm makes the samples of this batch influence each other."""
        return self._net.coupled(self._single)

    @cached_property
    def live_logits(self) -> Tensor:
        """The logits (B, C) with their gradient."""
        if self._gradient == "batch":
            return self._logits
        self.graphed += len(self._x)
        with torch.enable_grad():
            return widen(self._net(self._x, single=self._single))

    @cached_property
    def live_entropy(self) -> Tensor:
        """The entropy (B,) with its gradient."""
        with torch.enable_grad():
            return entropy(self.live_logits.log_softmax(1))

    def weighted_entropy(self, coefficients: Tensor, selected: Tensor) -> Tensor:
        """Sum of coefficient * Ent over the selected samples (a mask), with its gradient; only they need a backward.

        The gradient has no graph of its own: for a gradient of a gradient use `live_entropy`.
        """
        if self._gradient == "none":
            return (coefficients * torch.where(selected, self.entropy, 0.0)).sum()
        if self._gradient == "batch" and not coefficients.requires_grad:
            known = self._log_p, self.probs, self.entropy
            total: Tensor = WeightedEntropy.apply(self._logits, *known, coefficients, selected)
            return total
        if self._gradient == "batch" or "live_logits" in self.__dict__:
            return (coefficients * torch.where(selected, self.live_entropy, 0.0)).sum()
        rows = selected.nonzero().squeeze(1)
        self.graphed += len(rows)
        with torch.enable_grad():
            parts = [self._net.in_graph(self._weighted_part, part, coefficients) for part in self._net.parts(rows) if len(part)]
        return torch.stack(parts).sum() if parts else coefficients.new_zeros(())

    def _weighted_part(self, rows: Tensor, coefficients: Tensor) -> Tensor:
        live = entropy(widen(self._net(self._x[rows], single=self._single)).log_softmax(1))
        return (coefficients[rows] * live).sum()

    def drop(self, name: str, *, kind: Drop = "absolute", only: Tensor | None = None, needed: Tensor | None = None) -> Tensor:
        """Diff(y, y^view) = p_k(x) - p_k(view(x)), with k the class predicted for x; NaN for samples that were not evaluated.

        Args:
            name: the view.
            kind: "relative" divides by p_k(x).
            only: a mask (B,): these samples are forwarded as a batch of their own, by whose statistics BatchNorm normalises.
            needed: a mask (B,): the other samples' drops are not needed. They are left out where samples do not influence each
                other, which changes no result; elsewhere the whole batch is forwarded.
        """
        mask = needed if needed is not None and self._shortcuts.independent else only
        found = None if mask is None else mask.nonzero()  # the host waits for the device here
        rows = None if found is None or found.shape[0] == self._size else found.squeeze(1)
        draws = self._drawn(name)  # even where no sample is evaluated: the next batch's draws must not depend on this one
        with torch.no_grad():
            logits = self._view_logits(name, draws, rows, separate=only is not None)
        if logits is None:
            self._viewed[name], self.drops[name] = (self.probs[:0], rows), torch.full_like(self.confidence, math.nan)
            return self.drops[name]
        probs = widen(logits).softmax(1)
        self._viewed[name] = probs, rows
        confidence, predicted = at_rows(self.confidence, rows), at_rows(self.prediction, rows)
        drops = confidence - probs.gather(1, predicted[:, None]).squeeze(1)
        if kind == "relative":
            drops = drops / confidence
        self.drops[name] = self._in_batch(drops, rows, math.nan)
        return self.drops[name]

    def flips(self, name: str) -> Tensor:
        """A mask (B,) of samples whose predicted class changes under a view whose drop was taken; False where not evaluated."""
        probs, rows = self._viewed[name]
        return self._in_batch(probs.argmax(1) != at_rows(self.prediction, rows), rows, False)

    def drift(self, importance: Memory) -> Tensor:
        """Sum of F (theta - theta_source)^2 over the adapted parameters, with F[name] the importance of each."""
        return self._weights.drift(importance)

    def now(self, few: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the probe and at the weights of now; of a few samples where samples are independent."""
        rows = slice(None, None, max(1, self._size // few) if self._shortcuts.independent else 1)
        return self._log_p[rows], widen(self._net(self._x[rows], single=self._single)).log_softmax(1)

    def _in_batch(self, values: Tensor, rows: Tensor | None, fill: float) -> Tensor:
        """The values of these rows at their places in the batch (B,); `fill` elsewhere."""
        return values if rows is None else values.new_full((self._size,), fill).index_copy_(0, rows, values)

    def _view_logits(self, name: str, draws: Draws, rows: Tensor | None, *, separate: bool) -> Tensor | None:
        """Logits under a view, of these rows or of all; None for no rows. `separate`: the rows are a batch of their own."""
        view, x, none = self._views[name], self._x, rows is not None and not len(rows)
        if none and (separate or isinstance(view, InputView)):
            return None
        if isinstance(view, InputView):
            return self._net(at_rows(self._net.alter(view, x, draws), rows), single=self._single)
        assert isinstance(view, FeatureView)
        prefix = f"{name}."
        memory = {key.removeprefix(prefix): value for key, value in self._memory.items() if key.startswith(prefix)}
        layer = self._net.layer_of(view)
        z = self._maps.get(layer)
        if separate and rows is not None:
            draws = tuple(d[rows] for d in draws)
        if z is not None and (not separate or self._shortcuts.independent):
            z, rows = (z[rows], None) if separate and rows is not None else (z, rows)
            viewed, observed = self._net.restyle(view, z, draws, memory, rows)
            logits = None if none else self._net.forward_from(layer, viewed, x, single=self._single)
        else:
            part = x[rows] if separate and rows is not None else x
            logits, observed = self._net.forward_with_view(view, part, draws, memory, single=self._single)
            logits = logits if separate else at_rows(logits, rows)
        self.observed |= {prefix + key: value for key, value in observed.items()}
        return logits

    def _drawn(self, name: str) -> Draws:
        """The random draws of a view for this batch, on its device."""
        x = self._x
        if name not in self._draws:
            self._draws[name] = self._views[name].draw(x, self._generator)
        if any(drawn.shape[0] != self._size for drawn in self._draws[name]):
            raise ValueError(f"the draws of {name!r} are for {len(self._draws[name][0])} samples, the batch has {self._size}")
        if x.device.type == "cpu":
            return self._draws[name]
        narrow = x.device.type == "mps"  # the one device without float64
        return tuple(d.to(x.device, torch.float32 if narrow else d.dtype, non_blocking=True) for d in self._draws[name])


def at_rows(values: Tensor, rows: Tensor | None) -> Tensor:
    """The values of these rows; None: all of them, without a copy."""
    return values if rows is None else values[rows]


def entropy(log_p: Tensor, p: Tensor | None = None) -> Tensor:
    """Ent (B,) of log-probabilities (B, C); a class of probability zero, masked out by a logit of -inf, adds nothing.

    >>> entropy(torch.tensor([[0.5, 0.5, 0.0]]).log()).exp()
    tensor([2.])
    """
    p = log_p.exp() if p is None else p
    return -(p * log_p.clamp_min(LOWEST)).sum(1)


class WeightedEntropy(torch.autograd.Function):
    """Sum of coefficient * Ent over the selected samples, for logits whose log-probabilities and entropies are known.

    Its gradient, by dEnt / dlog p = -p (log p + 1), is bit for bit that of autograd, with half the operators: on a small net
    these take longer than the model's own.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, log_p: Tensor, p: Tensor, ent: Tensor, coefficients: Tensor, selected: Tensor
    ) -> Tensor:
        ctx.save_for_backward(log_p, p, coefficients, selected)
        return (coefficients * torch.where(selected, ent, 0.0)).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        log_p, p, coefficients, selected = ctx.saved_tensors
        g = -torch.where(selected, grads[0] * coefficients, 0.0)[:, None]
        by_log_p = (g * log_p.clamp_min(LOWEST) * p + g * p).to(log_p.dtype)  # a method's weights may be wider
        return torch._log_softmax_backward_data(by_log_p, log_p, 1, log_p.dtype), None, None, None, None, None


def widen(logits: Tensor) -> Tensor:
    """Half-precision logits as float32; float32 and float64 as they are."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def are_probabilities(logits: Tensor) -> bool:
    """Whether every row (B, C) is non-negative and sums to one, which logits hardly ever do."""
    return bool((logits >= 0).all() and ((logits.sum(1) - 1).abs() < 1e-2).all())


class FiniteCheck:
    """Checks that a batch holds no NaN or Inf; its type and shape are checked at once.

    On a GPU the check runs on a stream of its own beside the forward pass. `check` waits for it.
    """

    def __init__(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.ndim < 2:
            what = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"the input must be a batch, a tensor (B, ...), not {what}")
        if not len(x):
            raise ValueError(f"the batch is empty: shape {tuple(x.shape)}")
        self._x = x.detach() if x.requires_grad else x
        self._ready = torch.cuda.current_stream(x.device).record_event() if x.is_cuda else None
        self._finite = False
        if not x.is_cuda:
            self.check()

    def check(self) -> None:
        """Raise a ValueError where the batch is not finite."""
        if self._finite:
            return
        if self._ready is None:
            self._finite = self._is_finite()
        else:
            stream = side_stream(self._x.device)
            stream.wait_event(self._ready)
            with torch.cuda.stream(stream):
                self._finite = self._is_finite()
        if not self._finite:
            raise ValueError("the input holds NaN or Inf: leave such samples out, or repair them before they are normalised")

    def _is_finite(self) -> bool:
        # the sum of finite values may overflow too; then every value is checked
        return cmath.isfinite(self._x.sum().item()) or bool(self._x.isfinite().all())


@cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """A CUDA stream for work that need not wait for the default stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
