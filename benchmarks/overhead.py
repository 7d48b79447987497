"""The cost of a call beyond the passes through the model: `step_cost.py --overhead`."""

import copy
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import dualtta
from dualtta.speed import Speed
from dualtta.testing import OperatorCounter
from dualtta.zoo.small import resnet_tiny, resnet_tiny_gn

# settings with which the unchanged methods select every sample, or none
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "source": {"no": {}},
    "norm": {"no": {}},
    "tent": {"yes": {}},
    "eata": {"yes": {"tau_ent": 2.0, "epsilon": 1.0}, "no": {"tau_ent": 0.0}},
    "sar": {"yes": {"ent0": 2.0, "recovery_share": 0.0}, "no": {"ent0": 0.0}},
    "deyo": {"yes": {"tau_ent": 2.0, "tau_plpd": -1.0}, "no": {"tau_ent": 0.0}},
    "eata_dual": {"yes": {"tau_ent": 2.0, "epsilon": 1.0}, "no": {"tau_ent": 0.0}},
    "deyo_dual": {"yes": {"tau_ent": 2.0, "tau_plpd": -1.0}, "no": {"tau_ent": 0.0}},
    "dualtta": {"yes": {"tau_sa": -1.0, "tau_sp": 1.0}, "no": {"tau_sa": 1.0, "tau_sp": 1.0}},
    "dualtta_safe": {
        "yes": {"guard": False, "tau_sa": -1.0, "tau_sp": 1.0, "crowd": 100.0, "steady": 10.0},
        "no": {"guard": False, "tau_sa": 1.0, "tau_sp": 1.0},
    },
}
NETS: dict[str, Callable[[int], nn.Module]] = {  # the first two take a twentieth of the time of the others
    "one_bn": lambda classes: one_layer(nn.BatchNorm2d(8), classes),
    "one_gn": lambda classes: one_layer(nn.GroupNorm(2, 8), classes),
    "resnet_tiny": resnet_tiny,
    "resnet_tiny_gn": resnet_tiny_gn,
}
WARM = 20  # calls before the first that is timed: some work is done once, and a selection decides how the next call forwards


@dataclass(frozen=True)
class Overhead:
    model: str
    method: str
    speed: str
    selected: str
    forwards: int
    backwards: int
    ms: float  # a call
    bare_ms: float  # its passes alone
    overhead_ms: float
    operators: int  # of torch's, beyond those of the passes: what does not depend on the machine


def one_layer(norm: nn.Module, classes: int) -> nn.Module:
    """A convolution, its norm layer, and a classifier: next to nothing."""
    return nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))


def overheads(name: str, methods: list[str], speeds: dict[str, Speed], rounds: int) -> Iterator[Overhead]:
    """The overhead of each method on single samples, when the sample is selected and when it is not."""
    torch.manual_seed(0)
    model, samples = NETS[name](10).eval(), torch.randn(16, 3, 32, 32)
    for method in methods:
        for speed, chosen in speeds.items():
            for selected, settings in SETTINGS[method].items():
                adapter = dualtta.adapt(model, method, lr=1e-9, speed=chosen, **settings)
                yield Overhead(name, method, speed, selected, *_overhead(adapter, samples, selected == "yes", rounds))


def _overhead(
    adapter: dualtta.Adapter, samples: Tensor, selected: bool, rounds: int
) -> tuple[int, int, float, float, float, int]:
    model = copy.deepcopy(adapter.model).eval()
    adapted = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def passes(x: Tensor, forwards: int, backwards: int) -> None:
        with torch.no_grad():
            for _ in range(forwards - backwards):
                model(x)
        for _ in range(backwards):
            torch.autograd.grad(model(x).sum(), adapted)

    pairs = []
    for number in range(WARM + rounds):
        x = samples[number % len(samples)][None]
        begun = time.perf_counter()
        step = adapter.step(x)
        called = time.perf_counter()
        passes(x, step.forwards, step.backwards)
        pairs.append((1e3 * (called - begun), 1e3 * (time.perf_counter() - called)))
        assert step.updated == selected
    calls, bare = zip(*pairs[WARM:], strict=True)
    beyond = [call - passed for call, passed in pairs[WARM:]]
    with OperatorCounter() as counted:
        adapter.step(x)
    with OperatorCounter() as needed:
        passes(x, step.forwards, step.backwards)
    times = [statistics.median(each) for each in (calls, bare, beyond)]
    return step.forwards, step.backwards, times[0], times[1], times[2], counted.calls - needed.calls
