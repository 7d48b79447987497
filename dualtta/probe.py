"""A batch as the model sees it: once as it is, and through views."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Generator, Tensor

from dualtta.losses import WeightedEntropy, entropy, widen
from dualtta.views.base import Draws, FeatureView, InputView, View

if TYPE_CHECKING:
    from dualtta.model.forward import Net
    from dualtta.model.parameters import Weights

Memory = Mapping[str, Tensor]
Drop = Literal["absolute", "relative"]


class Probe:
    """All that a method may ask of the model about one batch, at the weights of this moment.

    `entropy`, `probs`, `confidence` (p_k) and `prediction` (k) carry no gradient, so weights made of them are detached;
    `weighted_entropy`, `live_entropy` and `live_logits` do, and only objectives use them. Where the first forward kept no
    graph, these forward again whom they are asked about.
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
        graph: bool | None = True,  # whether the first forward keeps its graph; None: nobody will ask for a gradient
    ) -> None:
        self._net, self._weights, self._x, self._views = net, weights, x, views
        self._memory, self._draws, self._generator, self._graph = memory, draws, generator, graph
        self._size = len(x)
        self._lone = self._size == 1
        self._shortcuts = net.shortcuts(x.shape)
        taps = [net.layer_of(view) for view in views.values() if isinstance(view, FeatureView) and self._shortcuts.above]
        with torch.set_grad_enabled(bool(graph)):
            self.raw_logits, self._maps = net.tapped(x, taps, lone=self._lone)
            self._first = widen(self.raw_logits)  # losses and drops in float32 at least, whatever autocast does
        self._log_p = self._first.detach().log_softmax(1)  # no graph from here on: `WeightedEntropy` knows its gradient
        self.probs = self._log_p.exp()
        self.entropy = entropy(self._log_p, self.probs)
        self.confidence, self.prediction = self.probs.max(1)
        self.max_entropy = math.log(self.probs.shape[1])
        self.drops: dict[str, Tensor] = {}
        self._seen: dict[str, tuple[Tensor, Tensor | None]] = {}  # probabilities under a view, and of which rows
        self.observed: dict[str, Tensor] = {}
        self.graphed = self._size if graph else 0  # samples whose graph a backward goes through

    @cached_property
    def _predicted(self) -> Tensor:
        """The predicted class, as a column (B, 1)."""
        return self.prediction[:, None]

    @cached_property
    def everybody(self) -> Tensor:
        """A mask of the whole batch (B,)."""
        return torch.ones_like(self.prediction, dtype=torch.bool)

    @cached_property
    def mean(self) -> Tensor:
        """The mean prediction (C,)."""
        return self.probs.mean(0)

    @property
    def coupled(self) -> bool:
        """Whether BatchNorm makes the samples of this batch influence each other."""
        return self._net.coupled(self._lone)

    @cached_property
    def live_logits(self) -> Tensor:
        """The logits of the whole batch, with their gradient."""
        if self._graph:
            return self._first
        self.graphed += len(self._x)
        with torch.enable_grad():
            return widen(self._net(self._x, lone=self._lone))

    @cached_property
    def live_entropy(self) -> Tensor:
        """The entropy of every sample of the batch, with its gradient."""
        with torch.enable_grad():
            return entropy(self.live_logits.log_softmax(1))

    def weighted_entropy(self, coefficients: Tensor, taking: Tensor) -> Tensor:
        """Sum of coefficient * Ent over those who take part, with its gradient; nobody else needs a backward.

        The gradient has no graph of its own: for a gradient of a gradient take `live_entropy`.
        """
        if self._graph is None:
            return (coefficients * torch.where(taking, self.entropy, 0.0)).sum()
        if self._graph and not coefficients.requires_grad:
            summed: Tensor = WeightedEntropy.apply(self._first, self._log_p, self.probs, self.entropy, coefficients, taking)
            return summed
        if self._graph or "live_logits" in self.__dict__:
            return (coefficients * torch.where(taking, self.live_entropy, 0.0)).sum()
        rows = taking.nonzero().squeeze(1)
        self.graphed += len(rows)
        with torch.enable_grad():
            parts = [self._net.in_graph(self._weighted_part, part, coefficients) for part in self._net.parts(rows) if len(part)]
        return torch.stack(parts).sum() if parts else coefficients.new_zeros(())

    def _weighted_part(self, rows: Tensor, coefficients: Tensor) -> Tensor:
        live = entropy(widen(self._net(self._x[rows], lone=self._lone)).log_softmax(1))
        return (coefficients[rows] * live).sum()

    def drop(self, name: str, *, kind: Drop = "absolute", only: Tensor | None = None, suffice: Tensor | None = None) -> Tensor:
        """Diff(y, y^view) = p_k(x) - p_k(view(x)) with k the class predicted for x; NaN for whoever was not looked at.

        `kind="relative"` divides by p_k(x). `only` forwards the sub-batch of these samples and nobody else: a BatchNorm then
        sees the sub-batch alone. `suffice` says whose drop is needed: where samples do not influence each other the others
        are left out, and nothing else changes.
        """
        asked = suffice if suffice is not None and self._shortcuts.independent else only
        found = None if asked is None else asked.nonzero()  # the host waits for it
        rows = None if found is None or found.shape[0] == self._size else found.squeeze(1)
        draws = self._drawn(name)  # also where nobody is looked at: the next batch draws the same either way
        with torch.no_grad():
            logits = self._view_logits(name, draws, rows, alone=only is not None)
        if logits is None:
            self._seen[name], self.drops[name] = (self.probs[:0], rows), torch.full_like(self.confidence, math.nan)
            return self.drops[name]
        probs = widen(logits).softmax(1)
        self._seen[name] = probs, rows
        confidence, predicted = of_rows(self.confidence, rows), of_rows(self._predicted, rows)
        drops = confidence - probs.gather(1, predicted).squeeze(1)
        if kind == "relative":
            drops = drops / confidence
        self.drops[name] = self._among_all(drops, rows, math.nan)
        return self.drops[name]

    def flips(self, name: str) -> Tensor:
        """Who is predicted to be of another class under a view whose drop was asked for; nobody who was not looked at."""
        probs, rows = self._seen[name]
        return self._among_all(probs.argmax(1) != of_rows(self.prediction, rows), rows, False)

    def _among_all(self, values: Tensor, rows: Tensor | None, others: float) -> Tensor:
        """What these rows have, in the whole batch; the others have `others`."""
        return values if rows is None else values.new_full((self._size,), others).index_copy_(0, rows, values)

    def drift(self, importance: Memory) -> Tensor:
        """Sum of F (theta - theta_source)^2 over the adapted parameters, with F[name] the importance of each."""
        return self._weights.drift(importance)

    def _view_logits(self, name: str, draws: Draws, rows: Tensor | None, *, alone: bool) -> Tensor | None:
        """Logits under a view, of these rows or of all; None for no rows. `alone`: the rows are a batch of their own."""
        view, x, nobody = self._views[name], self._x, rows is not None and not len(rows)
        if nobody and (alone or isinstance(view, InputView)):
            return None
        if isinstance(view, InputView):
            seen = self._net.alter(view, x, draws)
            return self._net(of_rows(seen, rows), lone=self._lone)
        assert isinstance(view, FeatureView)
        own = f"{name}."
        memory = {key.removeprefix(own): value for key, value in self._memory.items() if key.startswith(own)}
        z = self._maps.get(self._net.layer_of(view))
        if alone and rows is not None:
            draws = tuple(d[rows] for d in draws)
        if z is not None and (not alone or self._shortcuts.independent):
            z, rows = (z[rows], None) if alone and rows is not None else (z, rows)
            styled, observed = self._net.restyle(view, z, draws, memory, rows)
            logits = None if nobody else self._net.above(self._net.layer_of(view), styled, x, lone=self._lone)
        else:
            part = x[rows] if alone and rows is not None else x
            logits, observed = self._net.through(view, part, draws, memory, lone=self._lone)
            logits = logits if alone else of_rows(logits, rows)
        self.observed |= {own + key: value for key, value in observed.items()}
        return logits

    def _drawn(self, name: str) -> Draws:
        x = self._x
        if name not in self._draws:
            self._draws[name] = self._views[name].draw(x, self._generator)
        if any(drawn.shape[0] != self._size for drawn in self._draws[name]):
            raise ValueError(f"the draws of {name!r} are for {len(self._draws[name][0])} samples, the batch has {self._size}")
        if x.device.type == "cpu":
            return self._draws[name]
        narrow = x.device.type == "mps"  # the one device without float64
        return tuple(d.to(x.device, torch.float32 if narrow else d.dtype, non_blocking=True) for d in self._draws[name])


def of_rows(values: Tensor, rows: Tensor | None) -> Tensor:
    """What these rows have; None: all of them, without a copy."""
    return values if rows is None else values[rows]
