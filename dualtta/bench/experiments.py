"""Experiments by name: functions of `Options` that return the cells of a grid, with their command in the docstring.

    dualtta run EXPERIMENT --root DATA --out results

Here are the general ones. Packages register theirs under the entry point `dualtta.experiments`, as `dualtta.paper` does.
"""

import dataclasses
from collections.abc import Callable, Generator

from dualtta.bench.benchmarks import Options, Setup, cifar, imagenet
from dualtta.bench.ccc import ccc
from dualtta.bench.cell import Cell
from dualtta.bench.run import Plan
from dualtta.bench.safety import safety
from dualtta.methods import METHODS
from dualtta.plugins import Registry
from dualtta.protocols import DEFAULT_METHOD
from dualtta.records.reading import Record
from dualtta.train import make_source

DEFAULTS = Options()
RATES = (5e-4, 1e-3, 2e-3, 8e-3, 3e-2)
TUNING_SEED = 1999


def demo(options: Options) -> Plan:
    """The embedded digits, with a misleading colour and with corruptions; no download.

    Each method's learning rate is chosen from RATES by its accuracy on a seed that is not reported; then three other seeds are
    run. Command: dualtta run demo --out results/demo
    """
    options = dataclasses.replace(options, batch_size=16)
    setups = [setup for setup in demo_setups(options) if options.wants(setup.dataset)]
    return rates_first(setups, options) if setups else []


def rates_first(setups: list[Setup], options: Options) -> Generator[list[Cell], list[Record], None]:
    """Two stages: each method's learning rate on TUNING_SEED, then the seeds of `options` at the best one."""
    methods = options.methods or tuple(METHODS)
    tuning = dataclasses.replace(options, seeds=(TUNING_SEED,))
    learns = [name for name in methods if METHODS[name].learns()]
    candidates = [c for setup in setups for lr in RATES for c in setup.cells(learns, tuning, lr=lr)]
    tried = yield [dataclasses.replace(cell, stage="tuning") for cell in candidates]
    best = best_rates(tried)
    yield [
        c
        for setup in setups
        for name in methods
        for c in setup.cells([name], options, **({"lr": best[setup.dataset, name]} if name in learns else {}))
    ]


def demo_setups(options: Options = DEFAULTS) -> list[Setup]:
    """The datasets and source models of `demo`."""
    model, start = options.backbone or "resnet_tiny", {"choices": {"split": "train"}, **options.recipe}
    colored, plain = (make_source(name, model, **start) for name in ("colored_digits", "digits"))
    corrupted = {"corruptions": ["gaussian_noise", "contrast", "defocus_blur"], "severities": [5]}
    return [
        Setup("colored_digits", 2, model, {"split": "test"}, {}, colored),
        Setup("digits_c", 10, model, corrupted, {"limit": 500}, plain),
    ]


def best_rates(tried: list[Record]) -> dict[tuple[str, str], float]:
    """By dataset and method, the learning rate of the highest accuracy (with groups: their mean); the lower of two equals."""
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for record in tried:
        cell, summary = record.cell["cell"], record.summary
        score = summary["accuracy"] if summary["mean_of_groups"] is None else summary["mean_of_groups"]
        at, lr = (cell["dataset"]["name"], cell["method"]["name"]), cell["method"]["lr"]
        if at not in best or (score, -lr) > (best[at][0], -best[at][1]):
            best[at] = (score, lr)
    return {at: lr for at, (_, lr) in best.items()}


def debug(options: Options) -> Plan:
    """Six cells of seconds on the embedded digits with random weights, to try launchers and settings.

    Command: dualtta run debug --out results/debug
    """
    setup = Setup("colored_digits", 2, options.backbone or "resnet_tiny", {"split": "test"}, {})
    once = dataclasses.replace(options, seeds=options.seeds[:2], limit=options.limit or 640)
    return setup.cells(options.methods or ("source", "tent", "dualtta"), once)


def cifar10_c(options: Options) -> Plan:
    """CIFAR-10-C, severity 5, on nets with GroupNorm and LayerNorm that are trained here: 15 corruptions, all methods.

    Command: dualtta run cifar10-c --root DATA --out results/cifar10-c
    """
    return [c for setup in cifar(options) for c in setup.cells(options.methods or METHODS, options)]


def cifar10_wild(options: Options) -> Plan:
    """CIFAR-10-C with imbalanced labels, with all corruptions mixed, and with one after the other without a reset.

    Command: dualtta run cifar10-wild --root DATA --out results/cifar10-wild
    """
    setups = [setup for scenario in ("imbalanced", "mixed", "continual") for setup in cifar(options, scenario=scenario)]
    return [c for setup in setups for c in setup.cells(options.methods or METHODS, options)]


PASSES = 4  # over the mixed stream


def long(options: Options) -> Plan:
    """A long stream: all corruptions of ImageNet-C mixed, four passes or `--repeats`, to see whether adaptation stays stable.

    Command: dualtta run long --protocol own --root DATA --out results/long
    """
    passes = dataclasses.replace(options, seeds=options.seeds[:1], repeats=options.repeats if options.repeats > 1 else PASSES)
    methods = options.methods or ("source", "eata", "dualtta", DEFAULT_METHOD)
    return [c for setup in imagenet(passes, scenario="mixed") for c in setup.cells(methods, passes)]


# printed below an experiment's table
NOTES = {
    "demo": f"every method chose its learning rate from {', '.join(f'{rate:g}' for rate in RATES)} on seed {TUNING_SEED}, "
    "which is not reported",
}

EXPERIMENTS: Registry[Callable[[Options], Plan]] = Registry(
    "experiment",
    callable,
    {
        "demo": demo,
        "debug": debug,
        "cifar10-c": cifar10_c,
        "cifar10-wild": cifar10_wild,
        "long": long,
        "safety": safety,
        "ccc": ccc,
    },
)


def plan_of(experiment: str, options: Options) -> Plan:
    """The cells of an experiment, without those of datasets that the options leave out."""
    plan = EXPERIMENTS[experiment](options)
    return [cell for cell in plan if options.wants(cell.dataset)] if isinstance(plan, list) else plan


def without_effect(experiment: str, options: Options) -> list[str]:
    """Names of options that differ from their defaults and change no cell of the experiment."""

    def keys(some: Options) -> set[str] | None:
        try:
            plan = plan_of(experiment, some)
        except ValueError:  # an invalid option counts as a change
            return None
        return {cell.key for cell in (plan if isinstance(plan, list) else next(plan))}

    staged = not isinstance(EXPERIMENTS[experiment](options), list)
    unseen = {"root", "seeds", "methods"} if staged else {"root"}  # a later stage may use what the first does not
    usual = {name: value for name, value in vars(DEFAULTS).items() if name not in unseen and value != getattr(options, name)}
    planned = keys(options)
    return [name for name, value in usual.items() if keys(dataclasses.replace(options, **{name: value})) == planned]
