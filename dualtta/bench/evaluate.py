"""The evaluation loop: the only code that sees labels and predictions together."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from dualtta.adapter import Adapter
from dualtta.data.loading import Batch
from dualtta.method import Step
from dualtta.probe import entropy, widen
from dualtta.records.format import COLUMNS
from dualtta.records.metrics import Column


@dataclass
class Run:
    """The result of a stream: per-sample columns, counts of events, and the seconds spent in the adapter."""

    parts: list[dict[str, Column]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def rows(self) -> dict[str, Column]:
        return {name: np.concatenate([part[name] for part in self.parts]).astype(kind) for name, kind in COLUMNS.items()}


def evaluate(
    adapter: Adapter, batches: Iterable[Batch], progress: Callable[[int, int], None] = lambda size, correct: None
) -> Run:
    """Send a stream through an adapter and record each sample.

    Args:
        adapter: it is reset where a batch says so.
        batches: from `dualtta.data.loading.load`.
        progress: called after each batch with its size and the number of correct predictions.
    """
    run = Run(counts=dict.fromkeys(("batches", "updates", "skips", "recoveries", "collapsing", "forwards"), 0))
    for number, batch in enumerate(batches):
        if batch.reset:
            adapter.reset()
        begun = time.perf_counter()
        step = adapter.step(batch.x)
        rows = rows_of(step, batch, number)  # copies to the CPU, so the time includes all the work of the device
        run.seconds += time.perf_counter() - begun
        run.parts.append(rows)
        events = (1, step.updated, step.skipped, step.recovered, step.collapsing, step.forwards)
        run.counts = {name: count + int(more) for (name, count), more in zip(run.counts.items(), events, strict=True)}
        progress(len(batch.label), int((rows["prediction"] == rows["label"]).sum()))
    if not run.parts:
        raise ValueError("the stream holds no batch to evaluate on")
    return run


def rows_of(step: Step, batch: Batch, number: int) -> dict[str, Column]:
    """The per-sample columns of one batch, as `records.format.COLUMNS` names them; each of shape (B,)."""
    log_p = widen(step.logits).log_softmax(1)
    confidence, prediction = log_p.exp().max(1)
    size = len(batch.label)
    columns = {
        "index": batch.index,
        "label": batch.label,
        "prediction": prediction,
        "domain": batch.domain,
        "group": batch.group,
        "segment": torch.full((size,), batch.segment),
        "batch": torch.full((size,), number),
        "confidence": confidence,
        "entropy": entropy(log_p),
        "drop_alter": step.drops["alter"],
        "drop_preserve": step.drops["preserve"],
        "weight": step.weight,
        "plus": step.plus,
        "minus": step.minus,
    }
    return {name: as_column(value) for name, value in columns.items()}


def as_column(value: torch.Tensor) -> NDArray[np.generic]:
    column: NDArray[np.generic] = value.cpu().numpy()
    return column
