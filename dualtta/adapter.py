"""The adapter: predicts a batch, then adapts on it. A drop-in for the model it wraps."""

import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dualtta import state
from dualtta.collapse import ADVICE, CHECK_EVERY, CollapseWarning, collapsing, compare, suspicious, watch
from dualtta.inputs import PROBABILITIES, Sound, are_shares
from dualtta.method import Memory, Method, Probe, Selection, Step
from dualtta.methods import method_name, settings
from dualtta.model.forward import Net
from dualtta.model.momentum import Momentum, Undo
from dualtta.model.parameters import NonFinite, Weights, like
from dualtta.optim import Look
from dualtta.plugins import nearest
from dualtta.views import Draws, FeatureView

KIND = "dualtta-adapter"


class Adapter:
    """Made by `adapt`. `adapter(x)` predicts x, then adapts on it."""

    def __init__(
        self, net: Net, method: Method, weights: Weights, lr: float, momentum: float, memory: Memory, seed: int
    ) -> None:
        self.net, self.method, self.weights = net, method, weights
        self.lr, self.momentum, self.seed = lr, momentum, seed
        self._update = method.update if weights.params else None
        self._views = method.views
        self._feature_views = [view for view in self._views.values() if isinstance(view, FeatureView)]
        self._optimizer = Momentum(weights, lr, momentum) if self._update else None
        self._undo = Undo(weights, self._optimizer) if self._optimizer else None
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
        """The adapted model, a plain module. Its BatchNorm layers are in the mode they adapt in, but for a blend of
        statistics, which is the adapter's: `predict` goes by it. `eval()` gives them back their source statistics."""
        return self.net.model

    @property
    def layer(self) -> str | None:
        """The layer whose feature map the method's views change; None where it has no such view."""
        return self.net.layer_of(self._feature_views[0]) if self._feature_views else None

    @property
    def wiring(self) -> dict[str, Any]:
        """What BatchNorm goes by, and where the views sit: as asked for, or as the method and the model have it."""
        return {"statistics": self.net.statistics, "layer": self.layer}

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.weights.params.values())
        by = f", statistics={self.net.statistics!r}" if self.net.batch_norms else ""
        return f"Adapter({type(self.model).__name__}, {self.method}, lr={self.lr:g}{by}, {count:,} parameters adapt)"

    def __call__(self, x: Tensor) -> Tensor:
        return self.step(x).logits

    def predict(self, x: Tensor) -> Tensor:
        """Logits by the adapted model, without adapting."""
        sound = Sound(x)
        with torch.no_grad():
            logits = self.net(x, lone=len(x) == 1)
        sound.insist()
        return self._kept(logits)

    def step(self, x: Tensor, *, draws: Mapping[str, Draws] | None = None) -> Step:
        """Predict x, then adapt on it; says what happened. `draws` replays the random draws of an earlier step."""
        sound = Sound(x)
        drawn = dict(draws or {})
        for name in drawn:
            if name not in self._views:
                raise ValueError(f"there is no view {name!r} to replay draws for; {nearest(name, self._views)}")
        before = self.net.forwarded
        if self.net.speed.graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        with torch.inference_mode(False), torch.no_grad():  # objectives, and the forwards that they need, keep their graph
            x = x.clone() if x.is_inference() else x
            self._examine(x, sound)
            look = self._look(x, drawn, self._graph(x), sound)
            if self._update and not self.steps and are_shares(look.probe.raw_logits):
                warnings.warn(PROBABILITIES, stacklevel=3)
            # now, while the device still computes: once the update is known to have been finite, it waits for the next batch
            logits, drops = self._kept(look.probe.raw_logits.detach()), look.probe.drops
            watched = watch(self.memory, look.probe.prediction, logits.shape[1]) if self._update else {}
            if len(drops) < 2:
                unseen = torch.full_like(look.probe.entropy, torch.nan)
                drops = {"alter": unseen, "preserve": unseen.clone(), **drops}
            updated, skipped, recovered, backwards = self._learn(look, lambda among: self._again(x, drawn, among))
            if recovered:
                watched = watch({}, look.probe.prediction, logits.shape[1])
            alarm = self._alarm(x, look.probe, watched) if self._update and not skipped else False
        return Step(
            logits=logits,
            plus=look.selection.plus,
            minus=look.selection.minus,
            weight=look.selection.weight,
            drops=drops,
            loss=look.loss.detach(),
            updated=updated,
            skipped=skipped,
            recovered=recovered,
            collapsing=alarm,
            forwards=self.net.forwarded - before,
            backwards=backwards,
            draws=drawn,
        )

    def _kept(self, logits: Tensor) -> Tensor:
        """Logits that stay: the next replay of a CUDA graph writes where the last one's lie."""
        return logits.clone() if self.net.speed.graphs else logits

    def check(self, x: Tensor) -> None:
        """A ValueError where x is no batch that can be adapted on."""
        Sound(x).insist()

    def _examine(self, x: Tensor, sound: Sound) -> None:
        """Find out, once, which shortcuts are exact on this model, where the method can make use of any."""
        useful = self.method.needs == "selected" or self.net.micro_batch
        if self._update is not None and useful and not self.net.examined(x.shape):
            sound.insist()
            self.net.examine(x, self._feature_views)
        self.net.compile(self._feature_views, len(x))

    def _graph(self, x: Tensor) -> bool | None:
        """Whether the first forward keeps its graph: where the whole batch needs it, or most of the last one did.

        Otherwise the selected are forwarded again with theirs, which costs less while they are fewer than half.
        """
        if self._update is None:
            return None
        everybody = self.method.needs == "everybody" or not self.net.shortcuts(x.shape).independent
        return not self.net.micro_batch and (everybody or self._share > 0.5)

    def _look(
        self,
        x: Tensor,
        drawn: dict[str, Draws],
        graph: bool | None,
        sound: Sound | None = None,
        among: Selection | None = None,
    ) -> Look:
        probe = Probe(self.net, self.weights, x, self._views, self.memory, drawn, self._generator, graph=graph)
        if sound:
            sound.insist()  # asked before the forward, heard after it: neither waits for the other
        selection = self.method.select(probe, self.memory)
        if among is not None:
            selection = selection.among(among)
        with torch.enable_grad():
            loss = self.method.objective(probe, selection, self.memory)
        return Look(probe, selection, loss)

    def _again(self, x: Tensor, drawn: dict[str, Draws], among: Selection) -> Look:
        """Look once more, among those selected before; only at them where that is the same."""
        same = self.method.pointwise and not self._views and self.net.shortcuts(x.shape).independent
        if same and sum(among.sizes) < len(x):
            rows = among.taking.nonzero().squeeze(1)
            x, among = x[rows], among.rows(rows)
        return self._look(x, drawn, graph=not self.net.micro_batch, among=among)

    def _learn(self, look: Look, again: Callable[[Selection], Look]) -> tuple[bool, bool, bool, int]:
        """Take the update: (updated, skipped, recovered, samples in its backwards). Whatever goes wrong leaves weights and
        memory as they were."""
        self.steps += 1
        if self._update is None or self._optimizer is None or self._undo is None:
            return False, False, False, 0
        ahead = self._ahead(look)
        look.selection.counted  # noqa: B018 (asked before a backward is started, heard after it)
        total = look.probe.entropy.sum()  # not finite where anybody's is not
        if not (ahead or math.isfinite(total)):
            self.skips += 1
            return False, True, False, 0
        taken, backwards = look, 0
        if ahead or not look.selection.empty():
            self._undo.mark()
            backwards = look.probe.graphed
            try:
                with self.net.normalising(lone=len(look.probe.entropy) == 1):
                    taken = self._update.apply(look, again, self.weights, self._optimizer)
                self.weights.settle(total)
                if taken.selection.empty():
                    self._undo.back()
                elif taken is not look:
                    backwards += taken.probe.graphed
            except BaseException as error:
                self._undo.back()
                if not isinstance(error, NonFinite):
                    raise
                self.skips += 1
                return False, True, False, backwards
        self._share = sum(look.selection.sizes) / len(look.selection.plus)
        remembered = self.method.remember(taken.probe, taken.selection, self.memory)
        self.memory = {**remembered, **look.probe.observed}
        recovered = self.method.lost(self.memory)
        if recovered:
            self._restore(self.weights.source, {})
            kept = {name: self.memory[name] for name in self.method.survives if name in self.memory}
            self.memory = {**self._first_memory, **kept}
            self.recoveries += 1
        return not taken.selection.empty(), False, recovered, backwards

    def _ahead(self, look: Look) -> bool:
        """Whether the update is begun before anybody knows that it is due: what must not have been is taken back.

        A GPU would stand idle while the host hears who is selected and starts the backward. Where the graph of the whole
        batch is kept anyway, and somebody of the last batch was selected, the guess is seldom wrong; then it costs a backward.
        """
        return look.loss.is_cuda and self._share > 0 and look.probe.graphed == len(look.probe.entropy)

    def _alarm(self, x: Tensor, probe: Probe, watched: Memory) -> bool:
        """Whether the predictions are collapsing, as far as can be told after this batch."""
        self.memory = {**self.memory, **watched}
        if self.steps % CHECK_EVERY == 0:
            if suspicious(self.memory):
                self.memory = {**self.memory, **compare(self.memory, probe.prediction, self._source_logits(x).argmax(1))}
            self.alarmed = collapsing(self.memory)
        if self.alarmed and not self.warned:
            self.warned = True
            warnings.warn(ADVICE, CollapseWarning, stacklevel=4)
        return self.alarmed

    def _source_logits(self, x: Tensor) -> Tensor:
        """What the source model would have said."""
        now = self.weights.values()
        self.weights.assign(self.weights.source)
        try:
            with torch.no_grad():
                return self.net(x, lone=len(x) == 1)
        finally:
            self.weights.assign(now)

    def _restore(self, values: Mapping[str, Tensor], velocity: Mapping[str, Tensor]) -> None:
        self.weights.assign(values)
        if self._optimizer:
            masters = self.weights.masters
            self._optimizer.velocity = {name: like(masters[name], value).clone() for name, value in velocity.items()}

    def reset(self) -> None:
        """Back to the source model: parameters, buffers, optimiser, memory, random numbers and counts."""
        self._restore(self.weights.source, {})
        self.weights.buffers.assign({})
        self._begin()

    def save(self, path: str | Path) -> None:
        """Write all state to one safetensors file; an adapter made the same way continues from it bit for bit."""
        groups: dict[str, Mapping[str, Tensor]] = {
            "weights": self.weights.values(),
            "momentum": self._optimizer.velocity if self._optimizer else {},
            "buffers": self.weights.buffers.changed(),
            "memory": self.memory,
            "random": {"state": self._generator.get_state()},
        }
        tensors = {f"{group}/{name}": value.cpu() for group, named in groups.items() for name, value in named.items()}
        state.write(path, KIND, tensors, {"made": self._made(), "counts": self._counts()})

    @torch.inference_mode(False)  # later steps write into what is loaded, and need its gradient
    def load(self, path: str | Path) -> None:
        """Continue from what `save` wrote; refuses the state of another model or of other settings."""
        tensors, about = state.read(path, KIND)
        for key, here in self._made().items():
            if about["made"].get(key) != here:
                raise ValueError(f"{path} was saved with {key}={about['made'].get(key)!r}; this adapter has {here!r}")
        for key, value in self.method.retired.items():
            if about["made"].get(key, value) != value:
                why = f"{key}={about['made'][key]!r}, a setting that {about['made']['method']} no longer has"
                raise ValueError(f"{path} was saved with {why}: adapt from the source model instead")
        groups: dict[str, dict[str, Tensor]] = {"weights": {}, "momentum": {}, "buffers": {}, "memory": {}, "random": {}}
        for full, value in tensors.items():
            group, _, name = full.partition("/")
            groups.setdefault(group, {})[name] = value
        counts: Any = about.get("counts")
        if isinstance(counts, list) and len(counts) == 4:  # as once written: without the last two
            counts = [*counts, False, 0.0]
        self._check_state(path, groups, counts)  # all of it, before any of it is taken over
        device = next(iter(self.weights.masters.values())).device if self.weights.masters else torch.device("cpu")
        self._restore(groups["weights"], {name: value.to(device) for name, value in groups["momentum"].items()})
        self.weights.buffers.assign(groups["buffers"])
        self.memory = {name: value.to(device) if value.ndim else value for name, value in groups["memory"].items()}
        self._generator.set_state(groups["random"]["state"])
        self.steps, self.skips, self.recoveries, self.warned, self.alarmed, self._share = counts

    def _check_state(self, path: str | Path, groups: Mapping[str, Mapping[str, Tensor]], counts: Any) -> None:
        masters = self.weights.masters
        fits = set(groups["weights"]) == set(masters) and set(groups["buffers"]) <= set(self.weights.buffers.source)
        fits = fits and "state" in groups["random"] and isinstance(counts, list)
        moved = [*groups["weights"].items(), *groups["momentum"].items()]
        fits = fits and all(name in masters and value.shape == masters[name].shape for name, value in moved)
        finite = all(value.isfinite().all() for _, value in moved)
        if not (fits and finite and len(counts) == len(self._counts())):
            raise ValueError(f"{path} is damaged: its tensors are not those of this adapter, or not finite")

    def _made(self) -> dict[str, Any]:
        """How the adapter was made, as far as its state depends on it."""
        own = {"method": method_name(type(self.method)), "lr": self.lr, "momentum": self.momentum}
        return state.plain({**own, **self.wiring, "source": self.weights.fingerprint, **settings(self.method)})

    def _counts(self) -> list[int | bool | float]:
        return [self.steps, self.skips, self.recoveries, self.warned, self.alarmed, self._share]
