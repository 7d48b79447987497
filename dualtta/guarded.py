"""An adapter under a guard: the adapted model predicts only where evidence speaks for it, else the source model does.

A share of the batches is also forwarded through the source model, the control. Three decisions follow:

1. Statistics. BatchNorm uses the source's running statistics until a blend with the batch's gives more informative predictions.
2. Learning. The model learns in a trial, during which the control predicts. Where the trial shows a benefit, the adapted model
   predicts from then on. Else it returns to the source and learning pauses. Later checks may end it as well.
3. Steps. Each keeps to a trust region on predictions.

The evidence is in `dualtta.guard`.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dualtta.adapter import Adapter
from dualtta.guard import LEARNING, LONGEST, MODES, PAUSED, TRIAL, Guard, Watch
from dualtta.method import Step
from dualtta.model.batchnorm import Statistics
from dualtta.probe import FiniteCheck
from dualtta.trust_region import FULL, TrustRegion

PREFIX = "guard."  # of the guard's numbers in saved states


class GuardedAdapter(Adapter):
    """Made by `adapt`."""

    guard = Guard()
    blend: Statistics | None = None  # the method's BatchNorm statistics, where the guard may choose; None: it may not
    watch = Watch()

    def set_guard(self, guard: Guard, *, choose_statistics: bool) -> None:
        """Begin under this guard."""
        self.guard = guard
        self.blend = self.net.statistics if choose_statistics and self.net.coupled() else None
        if self._updater:
            self._updater.region = TrustRegion(guard.step)
        if self.blend is not None:  # compiled passes do not see statistics change
            self.net.speed = replace(self.net.speed, compile=False, graphs=False)
        self._begin()

    def _begin(self) -> None:
        super()._begin()
        self.warned = True  # of collapse: the guard acts on it
        self.watch = Watch()

    def step(self, x: Tensor, **options: Any) -> Step:
        """Predict x (B, ...), then adapt on it where the guard lets the model learn."""
        finite, watch, guard = FiniteCheck(x), self.watch, self.guard
        before, size = self.net.forwarded, len(x)
        with torch.inference_mode(False), torch.no_grad():
            finite.check()
            x = x.clone() if x.is_inference() else x
            self._set_statistics(size)
            affordable = guard.budget is None or watch.spent <= guard.budget * watch.seen
            due = affordable and watch.unchecked >= watch.every(guard)
            control, event = self._check(x) if due else (None, "")
            learns = self._updater is not None and affordable and watch.mode != PAUSED
            watch.batches, watch.seen, watch.unchecked = watch.batches + 1, watch.seen + size, watch.unchecked + 1
            watch.since += size if learns or watch.mode == PAUSED else 0
            if watch.mode == PAUSED and watch.since > watch.pause:
                watch.enter(TRIAL)
            if learns:
                if watch.mode == TRIAL and control is None and watch.moved:
                    control = self._control(x)
                step = self._learning_step(x, options)
                if watch.mode == TRIAL and control is not None:
                    step = replace(step, logits=control)
            else:
                step = self._standing_step(x, control)
            if step.collapsing:
                self._end_learning("harm")
                control, event = self._forward(x), "rollback"
                step = replace(step, logits=control)
            elif watch.surprised(step.logits) and affordable and control is None:
                control, event = self._check_before(x, step)
                step = replace(step, logits=control) if event else step
        forwards = self.net.forwarded - before
        watch.spent += forwards + 2 * step.backwards
        recovered = step.recovered or event == "rollback"
        return replace(step, forwards=forwards, guard=event or MODES[watch.mode], recovered=recovered)

    def predict(self, x: Tensor) -> Tensor:
        self._set_statistics(len(x))
        return super().predict(x) if self.watch.mode == LEARNING else self._predicted_at_source(x)

    @property
    def wiring(self) -> dict[str, Any]:
        return {**super().wiring, **({} if self.blend is None else {"statistics": self.blend})}

    def report(self) -> dict[str, Any]:
        """What happened since the start or the last reset."""
        watch = self.watch
        counts = {name: int(getattr(watch, name)) for name in ("checks", "trials", "passed", "harms", "switches")}
        chosen = self.net.statistics if self.blend is None else self.blend if watch.blended else "source"
        return {
            **super().report(),
            "guard": MODES[watch.mode],
            "statistics": chosen if self.net.batch_norms else None,
            "samples": int(watch.seen),
            "forwards_per_sample": watch.spent / max(1.0, watch.seen),
            **counts,
        }

    def _check_before(self, x: Tensor, step: Step) -> tuple[Tensor, str]:
        """A check of the weights before the step that was taken on this batch."""
        if not (step.updated and self._updater):
            return self._check(x)
        now = self.weights.values()
        self.weights.assign(self._updater.before)
        event = ""
        try:
            control, event = self._check(x)
        finally:
            if not event:
                self.weights.assign(now)
        return control, event

    def _check(self, x: Tensor) -> tuple[Tensor, str]:
        """The control's logits on this batch, and what was decided: "", "statistics" or "rollback"."""
        watch, guard = self.watch, self.guard
        watch.checks, watch.unchecked = watch.checks + 1, 0.0
        control = self._control(x)
        if self.blend is not None and len(x) > 1:
            other = self._control_by_other_statistics(x)
            source, blend = (other, control) if watch.blended else (control, other)
            if watch.compare(source, blend, guard):
                watch.blended, watch.switches = 1.0 - watch.blended, watch.switches + 1
                self._set_statistics(len(x))
                self._to_source(TRIAL)
                return other, "statistics"
        if watch.moved:
            verdict = watch.verdict(guard) if self._gather_evidence(x, control) else ""
        else:
            verdict = "none" if watch.mode == TRIAL and watch.since >= guard.trial else ""  # no sample was selected
        if verdict == "benefit":
            watch.enter(LEARNING)
            watch.pause, watch.passed = 0.0, watch.passed + 1
        elif verdict:
            self._end_learning(verdict)
            return control, "rollback"
        return control, ""

    def _gather_evidence(self, x: Tensor, control: Tensor) -> bool:
        """Add this batch's evidence; whether there is more than before."""
        if x.ndim != 4:  # no image, which has no mirror image: nothing speaks for the adapted model
            self.watch.add(control.new_full((len(x),), -1.0))
            return True
        mirrored, watch = x.flip(3), self.watch
        views = control, self._forward(x), self._control(mirrored), self._forward(mirrored)
        return watch.pool(*views, price=self.guard.price)

    def _set_statistics(self, size: int) -> None:
        """The statistics in force; of a blend, a share in proportion to the batch up to FULL samples."""
        if self.blend is not None:
            self.net.use_statistics(self.blend if self.watch.blended else "source", min(1.0, size / FULL))

    def _control_by_other_statistics(self, x: Tensor) -> Tensor:
        watch, blended = self.watch, self.watch.blended
        watch.blended = 1.0 - blended
        try:
            self._set_statistics(len(x))
            return self._control(x)
        finally:
            watch.blended = blended
            self._set_statistics(len(x))

    def _control(self, x: Tensor) -> Tensor:
        """Logits of the source weights, by the statistics in force."""
        if not self.watch.moved:
            return self._forward(x)
        with self.weights.at_source():
            return self._forward(x)

    def _predicted_at_source(self, x: Tensor) -> Tensor:
        if not self.watch.moved:
            return super().predict(x)
        with self.weights.at_source():
            return super().predict(x)

    def _forward(self, x: Tensor) -> Tensor:
        return self._owned(self.net(x, single=len(x) == 1))

    def _end_learning(self, verdict: str) -> None:
        """Return to the source, and pause for longer than the last time."""
        watch = self.watch
        watch.harms += verdict == "harm" and watch.mode == LEARNING
        watch.pause = min(4 * watch.pause, LONGEST) if watch.pause else float(self.guard.pause)
        self._to_source(PAUSED)

    def _to_source(self, mode: float) -> None:
        self._restore(self.weights.source, {})
        self.memory, self.alarmed = {**self._first_memory}, False
        self.watch.moved = 0.0
        self.watch.enter(mode)

    def _learning_step(self, x: Tensor, options: Mapping[str, Any]) -> Step:
        region = self._updater.region if self._updater else None
        assert region is not None, "set_guard gives the updater its trust region"
        watch, moved = self.watch, self.watch.moved
        region.scale, watch.moved = watch.scale, moved + 1  # ahead of the step: an interrupted one may have moved the weights
        step = super().step(x, **options)
        watch.scale, watch.moved = region.scale, 0.0 if step.recovered else moved + step.updated
        return step

    def _standing_step(self, x: Tensor, logits: Tensor | None) -> Step:
        """A prediction without a step."""
        self.steps += 1
        if logits is None:
            logits = self._forward(x) if self.watch.mode == LEARNING else self._control(x)
        zeros, none = torch.zeros(len(x), device=x.device), torch.zeros(len(x), dtype=torch.bool, device=x.device)
        return Step(
            logits=logits,
            plus=none,
            minus=none.clone(),
            weight=zeros,
            drops=dict.fromkeys(("alter", "preserve"), zeros + torch.nan),
            loss=zeros.sum(),
            updated=False,
            skipped=False,
            recovered=False,
            collapsing=False,
            forwards=0,
            backwards=0,
            draws={},
        )

    def _made(self) -> dict[str, Any]:
        return {**super()._made(), "guard": asdict(self.guard)}

    def save(self, path: str | Path) -> None:
        """Write all state to one safetensors file."""
        own = self.memory
        self.memory = {**own, **{PREFIX + name: value for name, value in self.watch.tensors().items()}}
        try:
            super().save(path)
        finally:
            self.memory = own

    def load(self, path: str | Path) -> None:
        """Continue from what `save` wrote."""
        super().load(path)
        self.watch = Watch.of({k.removeprefix(PREFIX): v for k, v in self.memory.items() if k.startswith(PREFIX)})
        self.memory = {key: value for key, value in self.memory.items() if not key.startswith(PREFIX)}
