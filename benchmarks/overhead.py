"""What the adapter itself costs a call, beyond the passes through the model: `step_cost.py --overhead`."""

import copy
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import dualtta
from dualtta.speed import Speed

# The methods as they are, equations and all, by settings that select whatever comes, or nobody.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "source": {"no": {}},
    "norm": {"no": {}},
    "tent": {"yes": {}},
    "eata": {"yes": {"tau_ent": 2.0, "epsilon": 1.0}, "no": {"tau_ent": 0.0}},
    "sar": {"yes": {"ent0": 2.0, "recovery": 0.0}, "no": {"ent0": 0.0}},
    "deyo": {"yes": {"tau_ent": 2.0, "tau_plpd": -1.0}, "no": {"tau_ent": 0.0}},
    "dualtta": {"yes": {"tau_sa": -1.0, "tau_sp": 1.0}, "no": {"tau_sa": 1.0, "tau_sp": 1.0}},
}
WARM = 20  # calls: what is done once, and who was selected decides how the next call forwards


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


def overheads(
    name: str, model: nn.Module, samples: Tensor, methods: list[str], speeds: dict[str, Speed], rounds: int
) -> Iterator[Overhead]:
    """The overhead of each method on single samples, with the sample selected and with it not."""
    for method in methods:
        for speed, chosen in speeds.items():
            for selected, settings in SETTINGS[method].items():
                adapter = dualtta.adapt(model, method, lr=1e-9, speed=chosen, **settings)
                yield Overhead(name, method, speed, selected, *_overhead(adapter, samples, selected == "yes", rounds))


def _overhead(adapter: dualtta.Adapter, samples: Tensor, selected: bool, rounds: int) -> tuple[int, int, float, float, float]:
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
    beyond = [call - alone for call, alone in pairs[WARM:]]
    return step.forwards, step.backwards, *map(statistics.median, (calls, bare, beyond))
