"""A conformance suite for adaptation methods. Run it on your own method:

    from dualtta.testing import check_method
    check_method(MyMethod(tau=0.3))

Each check is a function whose `assert` messages state the requirement.
"""

import copy
import dataclasses
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dualtta.adapter import Adapter
from dualtta.method import Appearance, Method, Step
from dualtta.methods import make_method
from dualtta.model.norms import affine_names, norm_layers
from dualtta.wrap import adapt

Check = Callable[[Method, nn.Module, Sequence[Tensor]], None]
DASHES = ("-", "--", "-.", ":")


def small_net(norm: str = "group", classes: int = 10, seed: int = 0) -> nn.Module:
    """A small convolutional classifier with random weights whose predictions are confident enough to be selected.

    >>> small_net("batch")(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 10])
    """
    norms: dict[str, Callable[[int], nn.Module]] = {
        "batch": nn.BatchNorm2d,
        "group": lambda width: nn.GroupNorm(4, width),
        "layer": lambda width: nn.GroupNorm(1, width),
        "instance": lambda width: nn.InstanceNorm2d(width, affine=True),
    }
    widths = (3, 8, 16, 16, 32, 32)
    with _seeded(seed):
        stages = [
            nn.Sequential(nn.Conv2d(a, b, 3, 1 + i % 2, 1), norms[norm](b), nn.ReLU())
            for i, (a, b) in enumerate(pairwise(widths))
        ]
        head = nn.Linear(widths[-1] * 16, classes)  # depends on positions, so that shuffling patches changes its output
        nn.init.normal_(head.weight, std=0.25)  # confident
        body = nn.Sequential(*stages)
        layers = [module for module in body.modules() if isinstance(module, nn.BatchNorm2d)]
        for layer in layers:
            layer.momentum = 1.0
        with torch.no_grad():
            body(torch.randn(16, 3, 16, 16))  # running statistics of some data, but not of the stream's
        for layer in layers:
            layer.momentum = 0.1
            layer.running_var *= torch.empty_like(layer.running_var).uniform_(0.5, 1.5)  # type: ignore[operator,arg-type]
        return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.5), head)


def small_stream(batches: int = 4, size: int = 16, side: int = 16, seed: int = 0) -> list[Tensor]:
    """Batches of random images with structure, so that views change their predictions."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batches, size, 3, 4, 4, generator=generator)
    fine = torch.randn(batches, size, 3, side, side, generator=generator)
    grown = nn.functional.interpolate(coarse.flatten(0, 1), side, mode="bilinear").reshape(fine.shape)
    return list(2 * grown + 0.3 * fine)


def check_method(
    method: str | Method | type[Method], model: nn.Module | None = None, batches: Sequence[Tensor] | None = None
) -> None:
    """Run all checks on a method.

    Args:
        method: a registered name, a method or its class.
        model: the model to adapt; default: small models with BatchNorm, GroupNorm and LayerNorm.
        batches: the stream of inputs; default: `small_stream()`.

    Raises:
        AssertionError: with the requirement that the method does not meet.
    """
    made = make_method(method)
    models = [model] if model is not None else [small_net(norm) for norm in ("batch", "group", "layer")]
    for each in models:
        for check in CHECKS:
            check(made, each, batches or small_stream())


def check_metadata(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    kind = type(method)
    assert kind.name == "" or kind.name.isidentifier(), f"`name` is an identifier, such as my_method, not {kind.name!r}"
    for key in ("title", "paper"):
        value = getattr(kind, key)
        assert isinstance(value, str), f"`{key}` is one line of text, not {value!r}"
        assert [value] == (value.strip().splitlines() or [""]), f"`{key}` is one line of text, not {value!r}"
    assert re.fullmatch(r"(\d{4}-(0[1-9]|1[0-2]))?", kind.published), f"`published` is YYYY-MM or empty, not {kind.published!r}"
    look = kind.appearance
    assert look is None or isinstance(look, Appearance), "`appearance` is an Appearance or None"
    if look is not None:
        assert re.fullmatch(r"#[0-9a-f]{6}", look.color), f"the color of `appearance` is #rrggbb, not {look.color!r}"
        assert look.marker, "`appearance` has a marker"
        assert look.dash in DASHES, f"the dash of `appearance` is one of {', '.join(DASHES)}, not {look.dash!r}"


def check_holds_no_state(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    assert dataclasses.is_dataclass(method), "a method is a dataclass"
    params = type(method).__dataclass_params__  # type: ignore[attr-defined]
    assert params.frozen, "a method is a frozen dataclass: @dataclass(frozen=True, kw_only=True)"
    before = copy.deepcopy(vars(method))
    run(adapt(model, method), batches)
    assert vars(method) == before, "a method's fields do not change: its state is the memory, an argument and a return value"


def check_predicts_before_adapting(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    adapter = adapt(model, method, lr=0.01)
    for x in batches:
        expected = adapter.predict(x)
        assert torch.equal(adapter.step(x).logits, expected), "the prediction for a batch is made before adapting on it"


def check_only_norm_parameters_move(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    before, modes = copy.deepcopy(model.state_dict()), [(m, m.training) for m in model.modules()]
    required = [p.requires_grad for p in model.parameters()]
    adapter = adapt(model, method, lr=0.01)
    run(adapter, batches)
    assert same(model.state_dict(), before), "the caller's model does not change"
    assert all(m.training == mode for m, mode in modes), "the modes of the caller's model do not change"
    assert [p.requires_grad for p in model.parameters()] == required, "requires_grad of the caller's model does not change"
    norms = {full for name, norm in norm_layers(model).items() for full in affine_names(name, norm)}
    moved = {name for name, value in adapter.model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved <= norms, f"only parameters of norm layers are adapted, not {sorted(moved - norms)}"


def check_selection_is_valid(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    for step in run(adapt(model, method), batches):
        assert not (step.plus & step.minus).any(), "D+ and D- are disjoint"
        selected = step.plus | step.minus
        assert (step.weight[selected] > 0).all(), "the weight of a selected sample is positive"
        assert (step.weight[~selected] == 0).all(), "the weight of a sample that is not selected is zero"
        assert step.plus.shape == step.minus.shape == step.weight.shape == step.logits.shape[:1], "one entry per sample"


def check_reset_is_exact(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    adapter = adapt(model, method, lr=0.01)
    source = copy.deepcopy(adapter.model.state_dict())
    first = run(adapter, batches)
    adapter.reset()
    assert same(adapter.model.state_dict(), source), "reset restores the source parameters"
    assert all(map(same_step, first, run(adapter, batches))), "after reset the same stream gives the same steps"


def check_save_and_load_are_exact(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    half = len(batches) // 2
    adapter, other = adapt(model, method, lr=0.01), adapt(model, method, lr=0.01)
    run(adapter, batches[:half])
    with tempfile.TemporaryDirectory() as folder:
        adapter.save(Path(folder, "state.safetensors"))
        other.load(Path(folder, "state.safetensors"))
    steps = zip(run(adapter, batches[half:]), run(other, batches[half:]), strict=True)
    assert all(same_step(a, b) for a, b in steps), "a loaded adapter continues bit for bit"
    assert same(adapter.model.state_dict(), other.model.state_dict()), "and has the same parameters at the end"
    assert same(dict(adapter.memory), dict(other.memory)), "and the same memory"


def check_leaves_random_state_alone(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    def numpy_state() -> NDArray[np.uint32]:
        key: NDArray[np.uint32] = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
        return key.copy()

    before = torch.get_rng_state(), numpy_state(), random.getstate()
    run(adapt(model, method), batches)
    assert torch.equal(torch.get_rng_state(), before[0]), "torch's global generator is not used"
    assert np.array_equal(numpy_state(), before[1]), "numpy's global generator is not used"
    assert random.getstate() == before[2], "Python's global generator is not used"


def check_leaves_no_hook(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    adapter = adapt(model, method)
    run(adapter, batches)
    for module in [*model.modules(), *adapter.model.modules()]:
        hooks = [*module._forward_hooks, *module._forward_pre_hooks, *module._backward_hooks]
        assert not hooks, "all hooks are removed"


def check_works_without_grad(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    plain = run(adapt(model, method, lr=0.01), batches)
    with torch.no_grad():
        assert all(map(same_step, plain, run(adapt(model, method, lr=0.01), batches))), "no_grad changes nothing"
    with torch.inference_mode():
        fresh = [x.clone() for x in batches]
        assert all(map(same_step, plain, run(adapt(model, method, lr=0.01), fresh))), "inference_mode changes nothing"


def check_parameters_stay_finite(method: Method, model: nn.Module, batches: Sequence[Tensor]) -> None:
    adapter = adapt(model, method, lr=3e38)
    run(adapter, batches)
    assert all(p.isfinite().all() for p in adapter.model.parameters()), "parameters never become non-finite"


CHECKS: tuple[Check, ...] = (
    check_metadata,
    check_holds_no_state,
    check_predicts_before_adapting,
    check_only_norm_parameters_move,
    check_selection_is_valid,
    check_reset_is_exact,
    check_save_and_load_are_exact,
    check_leaves_random_state_alone,
    check_leaves_no_hook,
    check_works_without_grad,
    check_parameters_stay_finite,
)


class OperatorCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the torch operators that are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def run(adapter: Adapter, batches: Sequence[Tensor]) -> list[Step]:
    """The adapter's steps on a stream."""
    return [adapter.step(x) for x in batches]


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two state dicts are equal bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def same_step(a: Step, b: Step) -> bool:
    """Whether two steps are equal bit for bit, NaN included."""

    def equal(x: object, y: object) -> bool:
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            return torch.equal(x.nan_to_num(7.0), y.nan_to_num(7.0)) and torch.equal(x.isnan(), y.isnan())
        if isinstance(x, dict) and isinstance(y, dict):
            return x.keys() == y.keys() and all(equal(x[key], y[key]) for key in x)
        if isinstance(x, tuple) and isinstance(y, tuple):
            return all(map(equal, x, y))
        return x == y

    return all(equal(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator, and restore it at the end."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
