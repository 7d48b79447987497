"""What the adapter itself costs a call, beyond the passes through the model. See `step_cost.py --overhead`."""

import copy
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from fixed_shares import METHODS, Shares
from torch import Tensor, nn

import dualtta
from dualtta.speed import Speed

SELECTED = {"yes": Shares(1, 1.0, 1.0), "no": Shares(1, 0.0, 0.0)}  # the one sample: above tau_sa and selected, or neither


@dataclass(frozen=True)
class Overhead:
    model: str
    method: str
    speed: str
    selected: str
    forwards: int
    backwards: int
    ms: float  # a call
    bare_ms: float  # its forwards and backwards alone
    overhead_ms: float


def overheads(
    name: str, model: nn.Module, x: Tensor, methods: list[str], speeds: dict[str, Speed], rounds: int
) -> Iterator[Overhead]:
    """The overhead on a batch of one, of each method, with the sample selected and not."""
    for method in methods:
        for speed, chosen in speeds.items():
            for selected, shares in SELECTED.items():
                if selected == "yes" or method not in ("source", "norm", "tent"):  # these ask nobody
                    adapter = dualtta.adapt(model, METHODS[method](shares), lr=1e-9, speed=chosen)
                    yield Overhead(name, method, speed, selected, *overhead(adapter, x, rounds))


def overhead(adapter: dualtta.Adapter, x: Tensor, rounds: int) -> tuple[int, int, float, float, float]:
    for _ in range(20):  # what is done once; and who was selected decides whether the next call keeps its graph
        step = adapter.step(x)
    model = copy.deepcopy(adapter.model).eval()
    adapted = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def bare() -> None:
        with torch.no_grad():
            for _ in range(step.forwards - step.backwards):
                model(x)
        for _ in range(step.backwards):
            torch.autograd.grad(model(x).sum(), adapted)

    pairs = [(milliseconds(lambda: adapter.step(x)), milliseconds(bare)) for _ in range(20 + rounds)][20:]
    called, alone = (statistics.median(each) for each in zip(*pairs, strict=True))
    return step.forwards, step.backwards, called, alone, statistics.median(own - passes for own, passes in pairs)


def milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begun)
