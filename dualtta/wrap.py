"""`adapt`: checks its options, copies the model, and chooses the parameters that adapt and the layer of the views."""

import copy as copying
import fnmatch
import math
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dualtta.adapter import Adapter
from dualtta.fisher import PREFIX, Fisher
from dualtta.guard import Guard
from dualtta.guarded import GuardedAdapter
from dualtta.method import Method
from dualtta.methods import make_method
from dualtta.model.batchnorm import Statistics
from dualtta.model.depth import adapted_parameters, layer_norm_only, style_layer
from dualtta.model.forward import Net
from dualtta.model.parameters import Weights
from dualtta.plugins import nearest
from dualtta.probe import Memory
from dualtta.protocols import DEFAULT_METHOD
from dualtta.speed import Speed, find_speed
from dualtta.views.base import FeatureView


def adapt(
    model: nn.Module,
    method: str | Method | type[Method] = DEFAULT_METHOD,
    *,
    lr: float | None = None,
    momentum: float = 0.9,
    parameters: Iterable[str] | None = None,
    layer: str | None = None,
    statistics: Statistics | None = None,
    logits: Callable[[Any], Tensor] | None = None,
    fisher: Fisher | str | Path | None = None,
    copy: bool = True,
    seed: int = 0,
    speed: str | Speed = "safe",
    guard: bool | Guard | None = None,
    budget: float | None = None,
    **hyperparameters: Any,
) -> Adapter:
    """Wrap a classifier so that it adapts to the data it predicts, without labels.

    Args:
        model: any module that maps a batch to (B, C) logits; it is not changed unless `copy=False`.
        method: a name in `dualtta.METHODS`, a Method or its class; `hyperparameters` are its fields.
        lr: learning rate; None: the method's, by default 1e-4 for nets with LayerNorm only (ViT), else 5e-4.
        momentum: of SGD.
        parameters: names or patterns ("layer1.*") of the parameters that adapt; None: the norm layers' scales and shifts,
            except in the last `frozen_top` of the depth.
        layer: the module whose output feature views transform; None: by depth (`layer1` of a ResNet, block 7 of a ViT-B).
        statistics: BatchNorm statistics: "batch", "source", or the batch's share in a blend; None: the method's, and the
            source's for a batch of one.
        logits: a function of the model's output that returns (B, C) logits, for models that return something else.
        fisher: EATA's importances, from `estimate_fisher` or the file it wrote.
        copy: adapt a copy. False adapts your model in place; its BatchNorm layers stay in the mode they adapt in, and its
            compiled parts are replaced by the modules they were compiled from.
        seed: of the adapter's own random numbers; global generators are not used.
        speed: "naive", "safe" (savings that change no result), on a GPU "compiled" or "fast" (bfloat16 too), or a `Speed`.
        guard: whether a guard holds the adapted model against its source, or its settings; None: the method's, which is yes for
            the default method.
        budget: of a guard: the largest cost in plain forward passes a sample, averaged over the stream.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    >>> adapter = adapt(net, "tent", lr=1e-3)
    >>> adapter(torch.zeros(4, 3, 8, 8)).shape
    torch.Size([4, 10])
    """
    _check_options(model, lr, momentum, layer, logits, copy, seed)
    chosen = make_method(method, *OPTIONS, **hyperparameters)
    if guard is not None and any(spec.name == "guard" for spec in fields(chosen)):
        chosen = replace(chosen, **{"guard": bool(guard)})
    with torch.inference_mode(False):
        inner = model._modules.get(COMPILED)
        model = model if inner is None else inner  # copied without the wrapper that compiles it
        if copy:
            model = _copied(model)
        model = _uncompiled(model)
        found = find_speed(speed, any(p.is_cuda for p in model.parameters()))
        layer = None if layer is None else name_in_source(layer)
        by_source = statistics is None  # the statistics of a single sample
        net = Net(model, logits, chosen.statistics if statistics is None else statistics, layer, by_source, found)
        names = parameter_names(model, parameters, chosen)
        if net.layer is None and any(isinstance(view, FeatureView) and not view.layer for view in chosen.views.values()):
            net.layer = style_layer(model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in names)
        weights = Weights(model, names)
        rate = lr or chosen.rates[layer_norm_only(model)]
        made = net, chosen, weights, rate, momentum, _importances(fisher, weights), int(seed)
        held = _guard(guard, budget, chosen)
        if held is None:
            return Adapter(*made)
        guarded = GuardedAdapter(*made)
        guarded.set_guard(held, choose_statistics=by_source)
        return guarded


def _guard(guard: bool | Guard | None, budget: float | None, method: Method) -> Guard | None:
    """The guard's settings; None: no guard."""
    if guard is not None and not isinstance(guard, bool | Guard):
        raise ValueError(f"guard must be True, False or a Guard, not {guard!r}")
    if guard is False or (guard is None and not method.guarded):
        if budget is not None:
            raise ValueError("budget= is a setting of the guard: guard=True puts this method under one")
        return None
    found = guard if isinstance(guard, Guard) else Guard()
    return found if budget is None else replace(found, budget=budget)


COMPILED = "_orig_mod"  # the name of the model in the module that torch.compile makes
OPTIONS = tuple(name for name, option in signature(adapt).parameters.items() if option.kind is option.KEYWORD_ONLY)


def _check_options(model: Any, lr: Any, momentum: Any, layer: Any, logits: Any, copy: Any, seed: Any) -> None:
    def number(value: Any) -> bool:
        return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)

    if not isinstance(model, nn.Module):
        raise ValueError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    if any(map(is_lazy, [*model.parameters(), *model.buffers()])):
        raise ValueError("the model has lazy layers that have not seen a batch yet: call model(x) once before it is adapted")
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise ValueError("TorchScript's norm layers cannot be adapted: give the torch.nn.Module that it was made from")
    if lr is not None and not (number(lr) and lr > 0):
        raise ValueError(f"lr must be a number above 0, not {lr!r}")
    if not (number(momentum) and 0 <= momentum < 1):
        raise ValueError(f"momentum must be a number from 0 to below 1, not {momentum!r}")
    if layer is not None and not isinstance(layer, str):
        raise ValueError(f"layer must be the name of a module, not {layer!r}")
    if logits is not None and not callable(logits):
        raise ValueError(f"logits must be a function of the model's output, not {logits!r}")
    if not isinstance(copy, bool):
        raise ValueError(f"copy must be True or False, not {copy!r}")
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not -(2**63) <= int(seed) < 2**64:  # as torch's
        raise ValueError(f"seed must be a whole number of at most 64 bits, not {seed!r}")


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copying.deepcopy(model)
    except Exception as error:  # the model may hold locks, open files or tensors of a graph
        reason = str(error).split("\n")[0]
        raise ValueError(f"{type(model).__name__} cannot be copied ({reason}): pass copy=False to adapt it in place") from error


def _uncompiled(model: nn.Module) -> nn.Module:
    """The model with each compiled part replaced by the module it was compiled from: compiled code ignores later hooks."""
    outer = nn.ModuleList([model])
    for module in list(outer.modules()):
        vars(module).pop("_compiled_call_impl", None)
        for name, child in module._modules.items():
            # not by getattr: many wrappers pass on the attributes of the compiled model inside
            module._modules[name] = child._modules.get(COMPILED, child) if child is not None else None
    return outer[0]


def name_in_source(name: str) -> str:
    """The name, in the model that is adapted, of a module or parameter of a model with compiled parts.

    >>> name_in_source("0._orig_mod.norm.weight")
    '0.norm.weight'
    """
    return ".".join(part for part in name.split(".") if part != COMPILED)


def parameter_names(model: nn.Module, patterns: Iterable[str] | None, method: Method) -> set[str]:
    """Names of the parameters that adapt: by these patterns, or by depth; none where the method never updates."""
    known = dict(model.named_parameters())
    if patterns is not None:
        chosen: set[str] = set()
        given = [patterns] if isinstance(patterns, str) else list(patterns) if isinstance(patterns, Iterable) else [patterns]
        for pattern in given:
            if not isinstance(pattern, str):
                raise ValueError(f"parameters= takes names or patterns, such as 'layer1.*', not {type(pattern).__name__}")
            matches = set(fnmatch.filter(known, name_in_source(pattern)))
            if not matches:
                raise ValueError(f"the model has no parameter {pattern!r}; {nearest(pattern, known)}")
            chosen |= matches
        if not chosen and method.update is not None:
            raise ValueError("parameters= names nothing that could adapt: to predict without adapting, method='source'")
        return chosen
    if method.update is None:
        return set()
    names = set(adapted_parameters(model, method.frozen_top))
    if not names:
        where = f" outside the last {method.frozen_top:g} of its depth" if method.frozen_top else ""
        raise ValueError(
            f"{type(model).__name__} has no norm layer with a scale or shift to adapt{where}: name what should adapt, "
            "parameters=['*.bias'], or predict without adapting, method='source'"
        )
    return names


def _importances(fisher: Fisher | str | Path | None, weights: Weights) -> Memory:
    if fisher is None:
        return {}
    if not isinstance(fisher, Fisher | str | Path):
        raise ValueError(f"fisher must come from estimate_fisher, or be the file it wrote, not {type(fisher).__name__}")
    found = fisher if isinstance(fisher, Fisher) else Fisher.load(fisher)
    if found.source != weights.fingerprint or set(found.values) != set(weights.params):
        raise ValueError("the Fisher importance belongs to another model or to other parameters: estimate it for these")
    return {PREFIX + name: value.to(weights.masters[name]) for name, value in found.values.items()}
