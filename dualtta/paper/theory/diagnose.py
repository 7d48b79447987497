"""The supplement's quantities for every sample of a stream, at the weights before its update."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from dualtta.adapter import CollapseWarning
from dualtta.method import Method
from dualtta.methods import method_name, stored_settings
from dualtta.model.depth import style_layer
from dualtta.model.norms import batch_norms
from dualtta.paper.theory.findings import sentences, summarise
from dualtta.paper.theory.flips import first_flips
from dualtta.paper.theory.restyled import Restyled, check_independent, style_of
from dualtta.paper.theory.symbols import (
    EXACT,
    PROBES,
    Pair,
    entropy,
    first_order,
    gap,
    jacobian_norm,
    lipschitz,
    margin,
    probability,
    size,
    style,
    style_component,
    style_gradient,
    total_norm,
)
from dualtta.probe import FiniteCheck
from dualtta.records.metrics import Column
from dualtta.views import Draws, Style
from dualtta.views.default import spread
from dualtta.wrap import adapt

if TYPE_CHECKING:
    from dualtta.adapter import Adapter

SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # of the perturbation that the style view draws
REACH = 8.0  # the largest scale at which a flip is searched, in the same unit
QUANTITIES = ("gap", "probability", "loss")  # s_y - s_k with the runner-up k, p_y, the entropy


@dataclass(frozen=True)
class Diagnosis:
    """The measurements. `columns`: (samples,) each; `predicted` and `actual`: (samples, scales) for each quantity."""

    columns: dict[str, Column]
    predicted: dict[str, Column]
    actual: dict[str, Column]
    scales: tuple[float, ...]
    about: dict[str, Any]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts, medians and shares as JSON values."""
        return summarise(self.columns, self.predicted, self.actual, self.scales, self.about["reach"])

    @property
    def sentences(self) -> list[str]:
        """The findings in words."""
        return sentences(self.summary, self.about)

    def write(self, folder: str | Path) -> list[Path]:
        """Tables and figures into a folder; returns the files."""
        from dualtta.paper.theory.writing import write

        return write(self, Path(folder))


def diagnose(
    model: nn.Module,
    batches: Iterable[Any],
    method: str | Method | type[Method] = "dualtta",
    *,
    layer: str | None = None,
    scales: Sequence[float] = SCALES,
    reach: float = REACH,
    adapting: bool = False,
    lr: float | None = None,
    logits: Callable[[Any], Tensor] | None = None,
    seed: int = 0,
    notice: Callable[[int], None] = lambda size: None,
    **hyperparameters: Any,
) -> Diagnosis:
    """Measure the quantities of the supplement on a model and a stream. BatchNorm uses the source's statistics throughout.

    Args:
        model: any classifier; it is not changed. Everything is computed in its precision; `model.double()` is advised.
        batches: tensors (B, ...), or batches of `dualtta.data.load`; labels are not used.
        method: selects D+ and D-, and the parameters that adapt.
        layer: the layer of the style; None: the style view's.
        scales: multiples of the drawn perturbation at which the first-order approximation is compared with the actual change.
        reach: the largest scale at which a flip is searched; samples that do not flip up to there are censored.
        adapting: adapt the model along the stream; otherwise every batch is predicted by the source model.
        notice: called with the size of every batch that is done.
    """
    scales = _checked_scales(scales, reach)
    adapter = adapt(model, method, layer=layer, statistics="source", logits=logits, lr=lr, seed=seed, **hyperparameters)
    _check_norms(adapter.model)
    at = layer or adapter.layer or style_layer(adapter.model)
    net = Restyled(adapter.model, at, logits)
    generator = torch.Generator().manual_seed(seed)
    dtype = next((p.dtype for p in adapter.model.parameters() if p.is_floating_point()), torch.float32)
    parts: list[dict[str, Tensor]] = []
    with torch.inference_mode(False), torch.enable_grad():
        for x in _inputs(batches, dtype):
            FiniteCheck(x).check()
            if not parts:
                check_independent(net, x)
            measured, drawn = measure(net, x, list(adapter.weights.params.values()), scales, reach, generator)
            parts.append(measured | _select(adapter, x, drawn, generator, adapting))
            notice(len(x))
    if not parts:
        raise ValueError("the stream holds no batch to diagnose on")
    rows = {name: torch.cat([part[name].detach().cpu() for part in parts]).numpy() for name in parts[0]}
    classes = int(rows.pop("classes").max())
    about = {
        "model": type(model).__name__,
        "layer": at,
        "method": {"name": method_name(type(adapter.method)), **stored_settings(adapter.method)},
        "statistics": "source",
        "adapting": adapting,
        "lr": adapter.lr if adapting else None,
        "scales": list(scales),
        "reach": reach,
        "seed": seed,
        "precision": str(dtype).removeprefix("torch."),
        "jacobian": "exact" if classes <= EXACT else f"estimated from {PROBES} random projections",
        "batch_norm": bool(batch_norms(adapter.model)),
        "theta": int(rows.pop("theta").max()),
    }
    predicted = {name: rows.pop(f"predicted.{name}") for name in QUANTITIES}
    actual = {name: rows.pop(f"actual.{name}") for name in QUANTITIES}
    return Diagnosis(rows, predicted, actual, scales, about)


def measure(
    net: Restyled, x: Tensor, parameters: Sequence[Tensor], scales: Sequence[float], reach: float, generator: Generator
) -> tuple[dict[str, Tensor], Draws]:
    """All quantities of one batch, and the random draws of its perturbation."""
    with torch.no_grad():
        clean, patches = net.forward(x)
    h = style_of(patches)
    old: Pair = (h[0].detach(), h[1].detach())
    drawn = Style().draw(x, generator)
    delta = perturbation(old, drawn)
    live = net.logits(x, old, h)
    m, y, k = margin(live.detach())
    gradients = {
        "gap": style_gradient(gap(live, y, k), h),
        "probability": style_gradient(probability(live, y), h),
        "loss": style_gradient(entropy(live), h),
    }
    with torch.no_grad():

        def moved(scale: Tensor) -> Pair:
            return old[0] + scale[:, None] * delta[0], old[1] + scale[:, None] * delta[1]

        directed = size(delta) > 0
        flips = first_flips(lambda scale: net.logits(x, old, moved(scale)).argmax(1), y, reach, clean.dtype)
        before = _values(live.detach(), y, k)
        after = [_values(net.logits(x, old, moved(torch.full_like(m, t))), y, k) for t in scales]
    flipped = flips.label >= 0
    steep = style_gradient(gap(live, y, torch.where(flipped, flips.label, k)), h)  # k: the class after the flip
    style_norm, whole_norm, theta = _parameter_gradients(net, x, gradients["loss"], parameters)
    rows = {
        "prediction": y,
        "confidence": before["probability"],
        "entropy": before["loss"],
        "margin": m,
        "K": lipschitz(gradients["gap"]),
        "jacobian": jacobian_norm(live, h, generator),
        "style_gradient": style_norm,
        "gradient": whole_norm,
        "share": style_norm / whole_norm,
        "size": size(delta),
        "directed": directed,
        "flip_scale": torch.where(directed, flips.scale, torch.nan),
        "flip_class": torch.where(directed, flips.label, -1),
        "flip_size": flips.scale * size(delta),
        "bound": lipschitz(steep) * flips.scale * size(delta),
        "along": first_order(steep, delta).abs() * flips.scale,  # the step of the proof before norms are taken
        "mirrored": (moved(flips.scale)[1] < 0).any(1),  # a deviation below zero negates the content of the channel
        "theta": torch.full_like(y, theta),
        "classes": torch.full_like(y, clean.shape[1]),
    }
    for name in QUANTITIES:
        rows[f"predicted.{name}"] = torch.stack([t * first_order(gradients[name], delta) for t in scales], 1)
        rows[f"actual.{name}"] = torch.stack([values[name] - before[name] for values in after], 1)
    return rows, drawn


def perturbation(h: Pair, draws: Sequence[Tensor]) -> Pair:
    """dU = eps_U U^sigma and dS = eps_S S^sigma, as the style view draws them; a constant channel keeps S = 0.

    >>> h = torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [2.0]])
    >>> [change.flatten().tolist() for change in perturbation(h, (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])))]
    [[1.0, 2.0], [0.0, 2.0]]
    """
    eps_u, eps_s = (eps.to(h[0])[:, None] for eps in draws)
    return eps_u * spread(h[0]), torch.where(h[1] > 0, eps_s * spread(h[1]), 0.0)


def _values(logits: Tensor, y: Tensor, k: Tensor) -> dict[str, Tensor]:
    return {"gap": gap(logits, y, k), "probability": probability(logits, y), "loss": entropy(logits)}


def _parameter_gradients(net: Restyled, x: Tensor, by_style: Pair, parameters: Sequence[Tensor]) -> tuple[Tensor, Tensor, int]:
    """|g_s| and |grad L| of every sample over theta, the parameters that its map depends on; and the size of theta."""
    norms, count = [], 0
    for i in range(len(x)) if parameters else ():
        logits, patches = net.forward(x[i : i + 1])
        component = style_component(style(patches), (by_style[0][i : i + 1], by_style[1][i : i + 1]), parameters)
        below = [p for p, gradient in zip(parameters, component, strict=True) if gradient is not None]
        count = sum(p.numel() for p in below)
        whole = torch.autograd.grad(entropy(logits).sum(), below, allow_unused=True) if below else ()
        found = ([g for g in component if g is not None], [g for g in whole if g is not None])
        norms.append([total_norm(gradients) for gradients in found])
    values = torch.tensor(norms or [[math.nan] * 2] * len(x), dtype=by_style[0].dtype, device=x.device)
    return values[:, 0], values[:, 1], count


def _select(adapter: "Adapter", x: Tensor, drawn: Draws, generator: Generator, adapting: bool) -> dict[str, Tensor]:
    """D+ and D- of the batch by the method, with the same perturbation in its style view."""
    draws = {name: drawn if isinstance(view, Style) else view.draw(x, generator) for name, view in adapter.method.views.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # irrelevant here
        step = adapter.step(x, draws=draws)
    if not adapting:
        adapter.reset()
    return {"plus": step.plus, "minus": step.minus}


def _inputs(batches: Iterable[Any], dtype: torch.dtype) -> Iterator[Tensor]:
    for batch in batches:
        x = batch if isinstance(batch, Tensor) else batch.x
        yield x.to(dtype) if x.is_floating_point() else x


def _check_norms(model: nn.Module) -> None:
    if any(norm.running_mean is None for norm in batch_norms(model)):
        raise ValueError(
            "a BatchNorm layer without running statistics mixes the samples of a batch: the theory does not cover it"
        )


def _checked_scales(scales: Sequence[float], reach: float) -> tuple[float, ...]:
    if not scales or not all(0 < t < math.inf for t in scales) or not 0 < reach < math.inf:
        raise ValueError(f"scales and reach are numbers above 0, not {list(scales)} and {reach}")
    return tuple(float(t) for t in np.unique(scales))
