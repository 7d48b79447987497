"""The cost of a step of each method, as a ratio to plain prediction by the bare model, measured in one run.

python benchmarks/step_cost.py [--models resnet50 resnet50_gn vit_base_patch16_224] [--methods ...] [--speeds naive safe fast]
                               [--batch 64] [--device cpu|cuda] [--repeats 5] [--statistics 0.3] [--json FILE] [--profile]
python benchmarks/step_cost.py --grow batch|classes|depth          how the cost grows
python benchmarks/step_cost.py --overhead                          what the adapter itself costs, on a tiny net

Random weights do not reproduce which samples are selected, so the paper's shares are fixed: 45 % of the samples have a
confidence above tau_sa, 25.8 % are selected. `operations` are those of convolutions and matrix products, in units of one plain
forward, counted on the CPU; `forwards` and `backwards` are samples in units of the batch; memory is the peak beyond what the
model itself holds, on a GPU. The collapse alarm's forward of the source model (a quarter of one, while predictions are
concentrated) is left out, because with random weights it would always run.

`--overhead` measures single samples on one CPU thread, for the unchanged methods with settings that select every sample and
with settings that select none. Each call alternates with the passes that it reports, through a copy of the model in eval():
`backwards` forwards that keep their graph, each with a backward from the sum of the logits to the parameters that adapt, and
`forwards` less `backwards` forwards without a graph. (A view that starts at its layer counts as a whole forward: the layers
below forward the one sample.) The overhead is the median, over --repeats such pairs, of the call less its passes: views, loss,
update and everything else.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import timm
import torch
from fixed_shares import METHODS, Shares
from overhead import NETS as TINY
from overhead import Overhead, overheads
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import dualtta
import dualtta.adapter
from dualtta.model.batchnorm import Statistics, check_statistics
from dualtta.speed import SPEEDS
from dualtta.zoo.registry import MODELS

NETS = ("resnet50", "resnet50_gn", "vit_base_patch16_224")
HEADS = {"images_per_second": "images/s", "ratio": "x plain", "memory_mib": "MiB"}
PROFILE = False
STATISTICS: Statistics | None = None


@dataclass(frozen=True)
class Cost:
    model: str
    method: str
    speed: str
    batch: int
    ms: float
    images_per_second: float
    ratio: float  # to plain prediction
    operations: float | None = None
    forwards: float | None = None
    backwards: float | None = None
    memory_mib: float | None = None


def build(name: str, classes: int) -> tuple[nn.Module, int]:
    torch.manual_seed(0)
    if name in MODELS and name not in timm.list_models():
        return MODELS[name].build(classes).eval(), 32
    return timm.create_model(name, num_classes=classes).eval(), 224


def clock(work: Callable[[], object], plain: Callable[[], object], device: str, repeats: int) -> tuple[float, float]:
    """Milliseconds a call, and the ratio to plain prediction, which is timed in between so that both see the same machine."""

    def time_of(call: Callable[[], object], times: int) -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(times):
            call()
        if device == "cuda":
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begun) / times

    in_a_row = 10 if device == "cuda" else 1  # as a stream of batches comes
    for call in (plain, work):
        time_of(call, 3)
    pairs = [(time_of(plain, in_a_row), time_of(work, in_a_row)) for _ in range(repeats)]
    return statistics.median(own for _, own in pairs), statistics.median(own / bare for bare, own in pairs)


def operations(work: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def peak(work: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def measure(
    name: str, methods: list[str], speeds: list[str], shares: Shares, device: str, repeats: int, classes: int
) -> Iterator[Cost]:
    model, side = build(name, classes)
    model, x = model.to(device), torch.randn(shares.batch, 3, side, side, device=device)

    @torch.no_grad()
    def plain() -> Tensor:
        logits: Tensor = model(x)
        return logits

    (ms, _), unit = clock(plain, plain, device, repeats), operations(plain)
    memory = peak(plain) if device == "cuda" else None
    yield Cost(name, "plain", "", len(x), ms, 1e3 * len(x) / ms, 1.0, 1.0, 1.0, 0.0, memory)
    for method in methods:
        for speed in speeds:
            adapter = dualtta.adapt(model, METHODS[method](shares), lr=1e-9, speed=SPEEDS[speed], statistics=STATISTICS)
            made = measured(adapter, x, plain, device, repeats, unit)
            if PROFILE:
                profiled(adapter, x, device)
            yield replace(made, model=name, method=method, speed=speed)
            del adapter
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()
    if device == "cuda":
        torch._dynamo.reset()  # methods share what was compiled of a model


def measured(adapter: dualtta.Adapter, x: Tensor, plain: Callable[[], Tensor], device: str, repeats: int, unit: float) -> Cost:
    adapter.step(x)  # what is done once: examining, compiling
    ms, ratio = clock(lambda: adapter.step(x), plain, device, repeats)
    step = adapter.step(x)
    compiled = adapter.net.speed.compile
    count = None if compiled or device == "cuda" else operations(lambda: adapter.step(x)) / unit
    memory = peak(lambda: adapter.step(x)) if device == "cuda" and not compiled else None
    forwards, backwards = step.forwards / len(x), step.backwards / len(x)
    return Cost("", "", "", len(x), ms, 1e3 * len(x) / ms, ratio, count, forwards, backwards, memory)


def profiled(adapter: dualtta.Adapter, x: Tensor, device: str, steps: int = 5) -> None:
    """Where the time of a step goes: the device's own time, and the kernels or operators that take most of it."""
    on = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=on) as seen:
        for _ in range(steps):
            adapter.step(x)
        if device == "cuda":
            torch.cuda.synchronize()
    events = seen.key_averages()
    if device == "cuda":
        busy = sum(event.self_device_time_total for event in events if event.device_type.name == "CUDA") / steps
        print(f"the GPU computes {busy / 1e3:.2f} ms a step")
    by = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    print(events.table(sort_by=by, row_limit=15, max_name_column_width=60))


def grow(along: str, device: str, repeats: int) -> Iterator[Cost]:
    """DualTTA against plain prediction as one thing grows, on a small net."""
    cases: dict[str, list[tuple[str, int, int]]] = {
        "batch": [("resnet26_gn", size, 10) for size in (1, 4, 16, 64, 256)],
        "classes": [("resnet26_gn", 64, classes) for classes in (10, 100, 1000, 20_000)],
        "depth": [(name, 16, 1000) for name in ("resnet18", "resnet34", "resnet50", "resnet101")],
    }
    for name, size, classes in cases[along]:
        for cost in measure(name, ["tent", "dualtta"], ["naive", "safe"], Shares(size), device, repeats, classes):
            yield replace(cost, model=f"{name}, {classes} classes")


def table(rows: list[Cost] | list[Overhead], title: str) -> Table:
    shown = Table(title=title)
    for name, first in vars(rows[0]).items():
        shown.add_column(HEADS.get(name, name.replace("_", " ")), justify="left" if isinstance(first, str) else "right")

    def text(value: Any) -> str:
        if isinstance(value, str) or value is None:
            return value or ""
        return f"{value:.2f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"

    for row in rows:
        shown.add_row(*map(text, vars(row).values()))
    return shown


def statistics_of(word: str) -> Statistics:
    try:
        chosen: Any = word if word in ("batch", "source") else float(word)
        check_statistics(chosen)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"batch", "source" or a share of the batch from 0 to 1, not {word!r}') from None
    return cast(Statistics, chosen)


def main() -> None:
    global PROFILE, STATISTICS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", help=f"by default {' '.join(NETS)}; with --overhead {' '.join(TINY)}")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--speeds", nargs="+", choices=list(SPEEDS), help="by default naive and safe; with --overhead safe")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, help="by default 5; with --overhead 300")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--grow", choices=["batch", "classes", "depth"])
    parser.add_argument("--overhead", action="store_true", help="what the adapter costs a call on a batch of one, on the CPU")
    parser.add_argument(
        "--statistics",
        type=statistics_of,
        help='what BatchNorm goes by: "batch", "source", or the share of the batch in a blend',
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true", help="also where the time of a step goes, by torch.profiler")
    args = parser.parse_args()
    setattr(dualtta.adapter, "suspicious", lambda memory: False)  # noqa: B010 (see above)
    PROFILE = args.profile
    STATISTICS = args.statistics
    console = Console(width=132)

    def costs() -> Iterator[Cost]:
        repeats = args.repeats or 5
        if args.grow:
            yield from grow(args.grow, args.device, repeats)
            return
        for name in args.models or NETS:
            speeds, shares = args.speeds or ["naive", "safe"], Shares(args.batch)
            yield from measure(name, args.methods, speeds, shares, args.device, repeats, args.classes)

    def host() -> Iterator[Overhead]:
        torch.set_num_threads(1)
        args.device = "cpu"
        speeds = {speed: SPEEDS[speed] for speed in args.speeds or ["safe"]}
        for name in args.models or TINY:
            yield from overheads(name, args.methods, speeds, args.repeats or 300)

    rows: list[Any] = []
    for row in host() if args.overhead else costs():
        rows.append(row)
        console.print(f"{row.model} {row.method} {row.speed}: {row.ms:.2f} ms", style="dim")
        if args.json:
            args.json.write_text(json.dumps([vars(each) for each in rows], indent=1) + "\n")
    device = torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    console.print(table(rows, f"{device}, torch {torch.__version__}"))


if __name__ == "__main__":
    main()
