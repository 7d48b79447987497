"""What the guard costs in each of its states, beside plain prediction and Tent: mean seconds of a batch, all timed in turn.

python benchmarks/guard_cost.py --model torchvision:mobilenet_v3_small --batch 64
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import dualtta
from dualtta.guard import LEARNING, PAUSED, TRIAL, Watch
from dualtta.guarded import GuardedAdapter
from dualtta.zoo.registry import open_model

FOREVER = 10**12  # samples
# settings by which samples of random weights are selected
LOOSE: dict[str, Any] = {"tau_sa": -1.0, "tau_sp": 0.0, "crowd": 1e3, "steady": 1e3}


def guarded(name: str, mode: float, blended: bool) -> GuardedAdapter:
    """The default method, held in a state of its guard."""
    guard = dualtta.Guard(trial=FOREVER, pause=FOREVER, harm=1e9, gain=0.0 if blended else 1e9, caution=0.0)
    adapter = dualtta.adapt(open_model(name, 1000)[0], guard=guard, **LOOSE)
    assert isinstance(adapter, GuardedAdapter)
    adapter.watch = Watch(mode=mode, blended=float(blended), pause=float(FOREVER), moved=float(mode != PAUSED))
    adapter._alarm = lambda *found: False  # type: ignore[method-assign]  # random weights predict few classes
    adapter.watch.compare = lambda source, blend, guard: False  # type: ignore[method-assign]
    return adapter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="torchvision:mobilenet_v3_small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=12, help="batches of each; checks come every second to sixteenth")
    chosen = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(chosen.batch, 3, chosen.side, chosen.side)
    model = open_model(chosen.model, 1000)[0]

    def plain(x: Tensor) -> None:
        with torch.no_grad():
            model(x)

    runs: dict[str, Callable[[Tensor], object]] = {
        "plain prediction": plain,
        "Tent": dualtta.adapt(model, "tent", lr=1e-6).step,
        "default without its guard": dualtta.adapt(model, guard=False, lr=1e-6, **LOOSE).step,
    }
    for name, mode in (("trial", TRIAL), ("learning", LEARNING), ("paused", PAUSED)):
        runs[f"default, {name}, source statistics"] = guarded(chosen.model, mode, blended=False).step
        runs[f"default, {name}, blended statistics"] = guarded(chosen.model, mode, blended=True).step
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(chosen.rounds + 2):
        for name, run in runs.items():
            begun = time.perf_counter()
            run(x)
            if number >= 2:  # the first batches find shortcuts
                seconds[name].append(time.perf_counter() - begun)
    reference = statistics.mean(seconds["plain prediction"])
    print(f"{chosen.model}, batches of {chosen.batch}, {chosen.rounds} batches each\n\n| | plain predictions |\n| --- | ---: |")
    for name, each in seconds.items():
        print(f"| {name} | {statistics.mean(each) / reference:.2f} |")


if __name__ == "__main__":
    main()
