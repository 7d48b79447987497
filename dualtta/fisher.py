"""EATA's Fisher importance of the adapted parameters: its own step, with a declared data source, kept in a file.

fisher = dualtta.estimate_fisher(model, batches, origin="ImageNet validation, first 2,000", cache="fisher.safetensors")
adapter = dualtta.adapt(model, "eata", fisher=fisher)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dualtta import state
from dualtta.progress import track

if TYPE_CHECKING:
    from dualtta.probe import Memory

PREFIX = "fisher."
KIND = "dualtta-fisher"


@dataclass(frozen=True)
class Fisher:
    """The importance of each adapted parameter, with where it comes from."""

    values: Mapping[str, Tensor]
    origin: str  # a description of the data it was estimated on
    samples: int
    source: str  # the fingerprint of the source parameters it belongs to

    def save(self, path: str | Path) -> None:
        about = {"origin": self.origin, "samples": self.samples, "source": self.source}
        state.write(path, KIND, {name: value.cpu() for name, value in self.values.items()}, about)

    @classmethod
    def load(cls, path: str | Path) -> "Fisher":
        values, about = state.read(path, KIND)
        return cls(values, about["origin"], about["samples"], about["source"])


def fisher_in(memory: "Memory") -> dict[str, Tensor]:
    """The Fisher importances that an adapter keeps in its memory, by parameter name; empty where none were given."""
    return {name.removeprefix(PREFIX): value for name, value in memory.items() if name.startswith(PREFIX)}


def estimate_fisher(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    origin: str,
    cache: str | Path | None = None,
    progress: bool = True,
    **wiring: Any,
) -> Fisher:
    """Mean over batches of the squared gradient of the cross-entropy against the model's own predictions.

    `batches` yields inputs only, without labels. `origin` describes the data and is saved with the values.
    With `cache`, a file that fits the model, its adapted parameters and `origin` is read instead; one that does not is an
    error, never silently replaced. `wiring` is what `adapt` takes (`parameters`, `statistics`, `logits`, ...).
    """
    from dualtta.optim import gradient
    from dualtta.probe import FiniteCheck, widen
    from dualtta.wrap import adapt

    adapter = adapt(model, "eata", **wiring)
    weights, net = adapter.weights, adapter.net
    if cache is not None and Path(cache).exists():
        return _cached(Path(cache), origin, weights.fingerprint, set(weights.params))
    count = samples = 0
    with torch.inference_mode(False), torch.enable_grad():
        total = {name: torch.zeros_like(master) for name, master in weights.masters.items()}
        for x in track(batches, "Fisher importance", shown=progress):
            if isinstance(x, list | tuple):
                raise ValueError("batches must yield inputs alone, not pairs with labels: (x for x, y in loader)")
            FiniteCheck(x).check()
            logits = widen(net(x.clone() if x.is_inference() else x))
            loss = nn.functional.cross_entropy(logits, logits.detach().argmax(1))
            for name, grad in gradient(loss, weights).items():
                total[name] += grad.square()
            count, samples = count + 1, samples + len(x)
        mean = {name: value / max(1, count) for name, value in total.items()}
    if not count:
        raise ValueError("the Fisher importance needs at least one batch of source-like data, and `batches` gave none")
    if not all(value.isfinite().all() for value in mean.values()):
        raise ValueError("the Fisher importance is not finite: the model's loss or gradient overflows on these batches")
    fisher = Fisher(mean, origin, samples, weights.fingerprint)
    if cache is not None:
        fisher.save(cache)
    return fisher


def _cached(path: Path, origin: str, source: str, names: set[str]) -> Fisher:
    fisher = Fisher.load(path)
    if fisher.source != source or set(fisher.values) != names:
        raise ValueError(f"{path} holds the Fisher importance of another model or other parameters: delete it or name another")
    if fisher.origin != origin:
        raise ValueError(f"{path} was estimated on {fisher.origin!r}, not on {origin!r}: delete it or name another")
    return fisher
