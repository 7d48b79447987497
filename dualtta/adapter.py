"""The adapter: predicts a batch, then adapts on it. A drop-in for the model it wraps, with an alarm for collapse."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dualtta import state
from dualtta.method import Method, Selection, Step
from dualtta.methods import method_name, stored_settings
from dualtta.model.compiled import compile_passes
from dualtta.model.forward import Net
from dualtta.model.parameters import Weights, laid_out_like
from dualtta.model.shortcuts import examine
from dualtta.optim import SGD, Evaluation, Outcome, Reevaluate, Updater
from dualtta.plugins import nearest
from dualtta.probe import PROBABILITIES, FiniteCheck, Gradient, Memory, Probe, are_probabilities
from dualtta.views.base import Draws, FeatureView

KIND = "dualtta-adapter"
ADVICE = (
    "the adapted model predicts few classes where the source model predicts many: the adaptation is collapsing. Call "
    "adapter.reset() to return to the source model, then use guard=True, a smaller lr, larger batches, or another method"
)
WINDOW = 128  # samples that the shares of predicted classes are averaged over
ENOUGH = 32  # samples before there can be an alarm
CHECK_EVERY = 4  # batches between checks: a source forward in each is a quarter of a forward a batch
COLLAPSED = 0.35  # of the source's spread over classes: below it is a collapse


class CollapseWarning(UserWarning):
    """Predictions cover far fewer classes than the source model's on the same samples."""


class Adapter:
    """Made by `adapt`. `adapter(x)` predicts x, then adapts on it."""

    def __init__(
        self, net: Net, method: Method, weights: Weights, lr: float, momentum: float, memory: Memory, seed: int
    ) -> None:
        self.net, self.method, self.weights = net, method, weights
        self.lr, self.momentum, self.seed = lr, momentum, seed
        self._views = method.views
        self._feature_views = [view for view in self._views.values() if isinstance(view, FeatureView)]
        self._optimizer = SGD(weights, lr, momentum)
        self._updater = Updater(method.update, self._optimizer) if method.update and weights.params else None
        self._first_memory = memory
        self._generator = torch.Generator()
        self._begin()

    def _begin(self) -> None:
        self.memory: Memory = self._first_memory
        self.steps = self.skips = self.recoveries = 0
        self.warned = self.alarmed = False
        self._share = 0.0  # of the last batch that was selected
        self._generator.manual_seed(self.seed)

    @property
    def model(self) -> nn.Module:
        """The adapted model, a plain module: BatchNorm stays in the mode it adapts in, without a blend, until `eval()`."""
        return self.net.model

    @property
    def layer(self) -> str | None:
        """The layer whose feature map the method's views change; None where it has no such view."""
        return self.net.layer_of(self._feature_views[0]) if self._feature_views else None

    @property
    def wiring(self) -> dict[str, Any]:
        """The statistics BatchNorm normalises by and the layer of the views, whether given or chosen."""
        return {"statistics": self.net.statistics, "layer": self.layer}

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.weights.params.values())
        by = f", statistics={self.net.statistics!r}" if self.net.batch_norms else ""
        return f"Adapter({type(self.model).__name__}, {self.method}, lr={self.lr:g}{by}, {count:,} parameters adapt)"

    def __call__(self, x: Tensor) -> Tensor:
        return self.step(x).logits

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Logits (B, C) of the adapted model, without adapting."""
        finite = FiniteCheck(x)
        logits = self.net(x, single=len(x) == 1)
        finite.check()
        return self._owned(logits)

    def step(self, x: Tensor, *, draws: Mapping[str, Draws] | None = None) -> Step:
        """Predict x (B, ...), then adapt on it. `draws` replays the random draws of an earlier step."""
        finite = FiniteCheck(x)
        drawn = dict(draws or {})
        for name in drawn:
            if name not in self._views:
                raise ValueError(f"there is no view {name!r} to replay draws for; {nearest(name, self._views)}")
        before = self.net.forwarded
        if self.net.speed.graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        with torch.inference_mode(False), torch.no_grad():  # objectives, and the forwards that they need, keep their graph
            x = x.clone() if x.is_inference() else x
            self._prepare(x, finite)
            evaluation = self._evaluate(x, drawn, self._gradient(x), finite)
            probe, selection = evaluation.probe, evaluation.selection
            if self._updater and not self.steps and are_probabilities(probe.raw_logits):
                warnings.warn(PROBABILITIES, stacklevel=3)
            # computed before the update, while a GPU is busy: after the update, the host has already waited for its result
            logits, drops = self._owned(probe.raw_logits.detach()), probe.drops
            watched = count_classes(self.memory, "watch", probe.prediction, logits.shape[1]) if self._updater else {}
            if len(drops) < 2:
                missing = torch.full_like(probe.entropy, torch.nan)
                drops = {"alter": missing, "preserve": missing.clone(), **drops}
            outcome = self._learn(evaluation, lambda selected: self._reevaluate(x, drawn, finite, selected))
            if outcome.recovered:
                watched = count_classes({}, "watch", probe.prediction, logits.shape[1])
            alarm = self._alarm(x, probe, watched) if self._updater and not outcome.skipped else False
        return Step(
            logits=logits,
            plus=selection.plus,
            minus=selection.minus,
            weight=selection.weight,
            drops=drops,
            loss=evaluation.loss.detach(),
            collapsing=alarm,
            forwards=self.net.forwarded - before,
            draws=drawn,
            **outcome._asdict(),
        )

    def _owned(self, logits: Tensor) -> Tensor:
        """Logits in memory of their own, which the next replay of a CUDA graph does not overwrite."""
        return logits.clone() if self.net.speed.graphs else logits

    def _prepare(self, x: Tensor, finite: FiniteCheck) -> None:
        """On the first batches: find which shortcuts are exact, where the method can use any, and compile the passes."""
        useful = self._updater is not None and (self.method.needs == "selected" or self.net.micro_batch)
        if useful and not self.net.examined(x.shape):
            finite.check()
            examine(self.net, x, self._feature_views)
        if self.net.speed.compile:
            compile_passes(self.net, self._feature_views, len(x))

    def _gradient(self, x: Tensor) -> Gradient:
        """What the first forward keeps its graph for: forwarding few selected samples again costs less than a whole graph."""
        if self._updater is None:
            return "none"
        whole = self.method.needs == "batch" or not self.net.shortcuts(x.shape).independent or self._share > 0.5
        return "batch" if whole and not self.net.micro_batch else "selected"

    def _evaluate(
        self, x: Tensor, drawn: dict[str, Draws], gradient: Gradient, finite: FiniteCheck, within: Selection | None = None
    ) -> Evaluation:
        """Forward the batch, select samples (only some of `within`), and compute the loss."""
        probe = Probe(self.net, self.weights, x, self._views, self.memory, drawn, self._generator, gradient=gradient)
        finite.check()  # begun before the forward and read after it, so that neither waits for the other
        selection = self.method.select(probe, self.memory)
        if within is not None:
            selection = selection.restricted_to(within)
        with torch.enable_grad():
            loss = self.method.objective(probe, selection, self.memory)
        return Evaluation(probe, selection, loss)

    def _reevaluate(self, x: Tensor, drawn: dict[str, Draws], finite: FiniteCheck, selected: Selection) -> Evaluation:
        """Evaluate the batch once more, or only the samples selected before where that gives the same."""
        separable = self.method.per_sample and not self._views and self.net.shortcuts(x.shape).independent
        if separable and sum(selected.sizes) < len(x):
            rows = selected.selected.nonzero().squeeze(1)
            x, selected = x[rows], selected.at_rows(rows)
        return self._evaluate(x, drawn, "selected" if self.net.micro_batch else "batch", finite, selected)

    def _learn(self, evaluation: Evaluation, reevaluate: Reevaluate) -> Outcome:
        """Take the update, remember the batch, and return to the source where the method asks for it."""
        self.steps += 1
        if self._updater is None:
            return Outcome()
        used, outcome = self._updater.take(evaluation, reevaluate, self.net, speculative=self._speculative(evaluation))
        if outcome.skipped:
            self.skips += 1
            return outcome
        self._share = sum(evaluation.selection.sizes) / len(evaluation.selection.plus)
        remembered = self.method.remember(used.probe, used.selection, self.memory)
        self.memory = {**remembered, **evaluation.probe.observed}
        if not self.method.should_reset(self.memory):
            return outcome
        self._restore(self.weights.source, {})
        kept = {name: self.memory[name] for name in self.method.kept_on_reset if name in self.memory}
        self.memory = {**self._first_memory, **kept}
        self.recoveries += 1
        return outcome._replace(recovered=True)

    def _speculative(self, evaluation: Evaluation) -> bool:
        """Whether the update starts before the host has read whether any sample is selected, so that a GPU is not idle.

        A wrong guess costs a backward. It is rare where the graph of the whole batch is kept and the last batch selected some.
        """
        return evaluation.loss.is_cuda and self._share > 0 and evaluation.probe.graphed == len(evaluation.probe.entropy)

    def _alarm(self, x: Tensor, probe: Probe, watched: Memory) -> bool:
        """Count this batch's predictions, and say whether they are collapsing."""
        self.memory = {**self.memory, **watched}
        if self.steps % CHECK_EVERY == 0:
            if suspicious(self.memory):
                with self.weights.at_source():
                    source = self.net(x, single=len(x) == 1).argmax(1)
                for key, predictions in (("watch.adapted", probe.prediction), ("watch.source", source)):
                    counted = count_classes(self.memory, key, predictions, len(self.memory["watch.shares"]))
                    self.memory = {**self.memory, **counted}
            self.alarmed = collapsing(self.memory)
        if self.alarmed and not self.warned:
            self.warned = True
            warnings.warn(ADVICE, CollapseWarning, stacklevel=4)
        return self.alarmed

    def _restore(self, values: Mapping[str, Tensor], velocity: Mapping[str, Tensor]) -> None:
        self.weights.assign(values)
        masters = self.weights.masters
        self._optimizer.velocity = {name: laid_out_like(masters[name], value).clone() for name, value in velocity.items()}

    def reset(self) -> None:
        """Return to the source model: parameters, buffers, optimiser, memory, random numbers and counts."""
        self._restore(self.weights.source, {})
        self.weights.buffers.assign({})
        self._begin()

    def save(self, path: str | Path) -> None:
        """Write all state to one safetensors file; an adapter made the same way continues from it bit for bit."""
        groups = {
            "weights": self.weights.values(),
            "momentum": self._optimizer.velocity,
            "buffers": self.weights.buffers.changed(),
            "memory": self.memory,
            "random": {"state": self._generator.get_state()},
        }
        counts = [self.steps, self.skips, self.recoveries, self.warned, self.alarmed, self._share]
        state.write_groups(path, KIND, groups, {"made": self._made(), "counts": counts})

    @torch.inference_mode(False)  # later steps write into the loaded tensors, and need their gradient
    def load(self, path: str | Path) -> None:
        """Continue from what `save` wrote; a state of another model or of other settings is refused."""
        groups, counts = state.read_groups(path, KIND, self._made(), self.method.retired, self.weights)
        device = next(iter(self.weights.masters.values())).device if self.weights.masters else torch.device("cpu")
        self._restore(groups["weights"], {name: value.to(device) for name, value in groups["momentum"].items()})
        self.weights.buffers.assign(groups["buffers"])
        self.memory = {name: value.to(device) if value.ndim else value for name, value in groups["memory"].items()}
        self._generator.set_state(groups["random"]["state"])
        self.steps, self.skips, self.recoveries, self.warned, self.alarmed, self._share = counts

    def report(self) -> dict[str, Any]:
        """What happened since the start or the last reset."""
        return {name: getattr(self, name) for name in ("steps", "skips", "recoveries", "alarmed")}

    def _made(self) -> dict[str, Any]:
        """How the adapter was made, as far as its state depends on it."""
        own: dict[str, Any] = {"method": method_name(type(self.method)), "lr": self.lr, "momentum": self.momentum}
        made = own | self.wiring | {"source": self.weights.fingerprint} | stored_settings(self.method)
        return state.plain({**made, "guard": None})  # see GuardedAdapter


def count_classes(memory: Memory, key: str, predictions: Tensor, classes: int) -> Memory:
    """The shares of predicted classes over the last samples, with these predictions (B,), and the number of samples so far.

    The shares are a plain mean until the window is full, and an exponential one from then on.
    """

    def add(shares: Tensor, share: float) -> Tensor:  # not by bincount, for which the host would wait
        return shares.index_add_(0, predictions, shares.new_ones(size), alpha=share / size)

    size = len(predictions)
    if f"{key}.seen" not in memory:
        zeros = torch.zeros(classes, device=predictions.device)
        return {f"{key}.seen": torch.tensor(float(size)), f"{key}.shares": add(zeros, 1.0)}
    seen = memory[f"{key}.seen"] + size  # a CPU tensor
    rate = min(1.0, size / min(seen.item(), WINDOW))
    return {f"{key}.seen": seen, f"{key}.shares": add(memory[f"{key}.shares"] * (1 - rate), rate)}


def spread(shares: Tensor) -> float:
    """The number of classes that predictions are spread over, less one: exp of the entropy of their shares, minus 1.

    >>> round(spread(torch.tensor([0.5, 0.5, 0.0])), 3), round(spread(torch.tensor([1.0, 0.0, 0.0])), 3)
    (1.0, 0.0)
    """
    return math.exp(torch.special.entr(shares).sum().item()) - 1


def suspicious(memory: Memory) -> bool:
    """Whether recent predictions cover few classes. A stream may be sorted by class, so this alone is no alarm."""
    classes = len(memory["watch.shares"])
    return memory["watch.seen"].item() > ENOUGH and spread(memory["watch.shares"]) < 0.5 * (min(classes, WINDOW // 2) - 1)


def collapsing(memory: Memory) -> bool:
    """Whether the adapted model's predictions cover far fewer classes than the source model's on the same samples."""
    if "watch.source.seen" not in memory or memory["watch.source.seen"].item() < ENOUGH or not suspicious(memory):
        return False
    source, adapted = spread(memory["watch.source.shares"]), spread(memory["watch.adapted.shares"])
    return source > min(1.0, 0.5 * (len(memory["watch.shares"]) - 1)) and adapted < COLLAPSED * source
