"""Experiments: plain functions that return cells, each with the paper's numbers and its exact command.

    dualtta run EXPERIMENT --root DATA --out results

Every one takes the same `Options`; sub-sampling is marked in every record.
"""

import dataclasses
from collections.abc import Callable, Generator
from typing import Any

from dualtta.bench.benchmarks import BENCHMARKS, IMAGENET_C, NINE, SAFE, SIX, Options, Setup, imagenet, wanted
from dualtta.bench.cell import Cell
from dualtta.bench.run import Plan
from dualtta.records.reading import Record
from dualtta.studies.questions import STUDIES
from dualtta.studies.trials import TRIALS
from dualtta.train import make_source


def benchmarks(options: Options) -> Plan:
    """Table 1: four benchmarks, six methods; PACS and Office-Home as all 12 pairs each.

    Reported for DualTTA: ColoredMNIST 82.12 / 68.82 (average / worst group), Waterbirds 88.44 / 72.53, Office-Home 61.51,
    PACS 76.02. Command: dualtta run benchmarks --root DATA --out results/benchmarks
    """
    return [c for setup in wanted(options, *BENCHMARKS) for c in setup.cells(options.methods or SIX, options)]


def imagenet_c(options: Options) -> Plan:
    """ImageNet-C, severity 5: 15 corruptions, three backbones, six methods.

    Reported averages for DualTTA: ResNet50-BN 44.52, ResNet50-GN 41.83 (its cells average 37.92), ViT-B 63.00.
    Command: dualtta run imagenet-c --root DATA --out results/imagenet-c
    """
    return [c for setup in imagenet(options) for c in setup.cells(options.methods or SIX, options)]


def wild(options: Options) -> Plan:
    """ImageNet-C with imbalanced labels, and with all corruptions mixed.

    Reported for DualTTA: imbalanced 43.83 (BN), 38.88 (GN), 63.30 (ViT); mixed 27.51, 38.92, 70.90.
    Command: dualtta run wild --root DATA --out results/wild
    """
    setups = [*imagenet(options, scenario="imbalanced"), *imagenet(options, scenario="mixed")]
    return [c for setup in setups for c in setup.cells(options.methods or SIX, options)]


def ablation_filters(options: Options) -> Plan:
    """DualTTA with both filters, without the altering one, without the preserving one.

    Reported: ColoredMNIST 82.12, 74.63, 79.17; PACS 76.02, 75.80, 74.48; Office-Home 61.51, 61.20, 59.70; Waterbirds is named
    in the text alone (the altering filter gains 4.19). Command: dualtta run ablation-filters --root DATA --out results/filters
    """
    switches: list[dict[str, Any]] = [{}, {"filter_sa": False}, {"filter_sp": False}]
    return [c for setup in wanted(options, *BENCHMARKS) for off in switches for c in setup.cells(["dualtta"], options, **off)]


def ablation_incorrect(options: Options) -> Plan:
    """With and without D-: DualTTA, DeYO and EATA.

    Reported with / without on ColoredMNIST, PACS, Office-Home: DualTTA 82.12 / 80.65, 76.02 / 75.52, 61.51 / 61.10;
    DeYO 79.17 / 77.98, 75.65 / 75.16, 59.70 / 59.08; EATA 62.31 / 60.65, 73.47 / 72.46, 55.72 / 52.34.
    Command: dualtta run ablation-incorrect --root DATA --out results/incorrect
    """
    setups = wanted(options, "colored_mnist", "pacs", "office_home")
    methods = options.methods or ("dualtta", "deyo", "deyo_dual", "eata", "eata_dual")
    with_them = [c for setup in setups for c in setup.cells(methods, options)]
    return with_them + [c for setup in setups for c in setup.cells(["dualtta"], options, lam=0.0)]


def efficiency(options: Options) -> Plan:
    """How many samples are used (%adapt) and how many of all are used rightly (%corr-adapt), with the share of low entropy.

    Reported for DualTTA: ColoredMNIST 33.1 / 27.3, Office-Home 42.6 / 33.6, ImageNet-C 25.8 / 19.8.
    Command: dualtta run efficiency --root DATA --out results/efficiency
    """
    setups = wanted(options, "colored_mnist", "office_home")
    setups += imagenet(options) if options.wants(IMAGENET_C) else []
    return [c for setup in setups for c in setup.cells(options.methods or ("eata", "sar", "deyo", "dualtta"), options)]


TAUS = tuple(round(0.1 * i, 1) for i in range(1, 10))


def sensitivity(options: Options) -> Plan:
    """Both thresholds over 0.1 to 0.9 on four datasets, DeYO for reference; the first seed alone.

    Reported: DualTTA above DeYO everywhere. Command: dualtta run sensitivity --root DATA --out results/sensitivity
    """
    once = dataclasses.replace(options, seeds=options.seeds[:1])
    setups = wanted(once, *BENCHMARKS)
    grid = [{"tau_sa": sa, "tau_sp": sp} for sa in TAUS for sp in TAUS]
    return [c for setup in setups for c in setup.cells(["deyo"], once)] + [
        c for setup in setups for taus in grid for c in setup.cells(["dualtta"], once, **taus)
    ]


def sweep_lambda(options: Options) -> Plan:
    """The trade-off coefficient from 0 to 2. Command: dualtta run sweep-lambda --root DATA --out results/lambda"""
    setups = wanted(options, *BENCHMARKS)
    return [c for setup in setups for lam in (0.0, 0.25, 0.5, 1.0, 2.0) for c in setup.cells(["dualtta"], options, lam=lam)]


def sweep_layer(options: Options) -> Plan:
    """The style view at each stage of the ResNets. Command: dualtta run sweep-layer --root DATA --out results/layer"""
    setups, stages = wanted(options, *BENCHMARKS), ("layer1", "layer2", "layer3", "layer4")
    return [c for setup in setups for layer in stages for c in setup.cells(["dualtta"], options, layer=layer)]


def quadrants(options: Options) -> Plan:
    """Impulse noise of ImageNet-C by ResNet-50: what is right in each quadrant of the two drops, absolute and relative.

    Reported: 71 % of D+ and 18 % of D- right. Command: dualtta run quadrants --root DATA --out results/quadrants
    """
    model = dataclasses.replace(options, backbone=options.backbone or "resnet50", speed="naive")  # everybody's drops
    setups = imagenet(model, ["impulse_noise"])
    return [c for setup in setups for drop in ("absolute", "relative") for c in setup.cells(["dualtta"], model, drop=drop)]


DEFAULTS = Options()
RATES = (5e-4, 1e-3, 2e-3, 8e-3, 3e-2)
TUNING_SEED = 1999


def demo(options: Options) -> Plan:
    """The embedded digits: coloured ones whose colour misleads, and corrupted ones. No download.

    Every method first chooses its learning rate from one list, by accuracy on a seed that is not reported; then three fresh
    seeds are run. Nothing of this is in the paper. Command: dualtta run demo --out results/demo
    """
    options = dataclasses.replace(options, batch_size=16)
    setups = [setup for setup in demo_setups(options) if options.wants(setup.dataset)]
    return rates_first(setups, options) if setups else []


def rates_first(setups: list[Setup], options: Options) -> Generator[list[Cell], list[Record], None]:
    """Each method's learning rate by one seed, then the others with it."""
    methods = options.methods or (*NINE, SAFE)
    tuning = dataclasses.replace(options, seeds=(TUNING_SEED,))
    learns = [name for name in methods if name not in ("source", "norm")]
    trials = [c for setup in setups for lr in RATES for c in setup.cells(learns, tuning, lr=lr)]
    tried = yield [dataclasses.replace(cell, stage="tuning") for cell in trials]
    best = best_rates(tried)
    yield [
        c
        for setup in setups
        for name in methods
        for c in setup.cells([name], options, **({"lr": best[setup.dataset, name]} if name in learns else {}))
    ]


def demo_setups(options: Options = DEFAULTS) -> list[Setup]:
    model, start = options.backbone or "resnet_tiny", {"choices": {"split": "train"}, **options.recipe}
    colored, plain = (make_source(name, model, **start) for name in ("colored_digits", "digits"))
    corrupted = {"corruptions": ["gaussian_noise", "contrast", "defocus_blur"], "severities": [5]}
    return [
        Setup("colored_digits", 2, model, {"split": "test"}, {}, colored),
        Setup("digits_c", 10, model, corrupted, {"limit": 500}, plain),
    ]


def best_rates(tried: list[Record]) -> dict[tuple[str, str], float]:
    """Each dataset's and method's learning rate of the highest average accuracy, over groups where there are groups."""
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for record in tried:
        cell, summary = record.cell["cell"], record.summary
        score = summary["accuracy"] if summary["mean_of_groups"] is None else summary["mean_of_groups"]
        at, lr = (cell["dataset"]["name"], cell["method"]["name"]), cell["method"]["lr"]
        if at not in best or (score, -lr) > (best[at][0], -best[at][1]):
            best[at] = (score, lr)
    return {at: lr for at, (_, lr) in best.items()}


def debug(options: Options) -> Plan:
    """Six small cells on the embedded digits and random weights: seconds each, for trying launchers and settings.

    Command: dualtta run debug --out results/debug
    """
    setup = Setup("colored_digits", 2, options.backbone or "resnet_tiny", {"split": "test"}, {})
    once = dataclasses.replace(options, seeds=options.seeds[:2], limit=options.limit or 640)
    return setup.cells(options.methods or ("source", "tent", "dualtta"), once)


# what has to be said below an experiment's table
NOTES = {
    "demo": f"every method chose its learning rate from {', '.join(f'{rate:g}' for rate in RATES)} on seed {TUNING_SEED}, "
    "which is not reported",
}

EXPERIMENTS: dict[str, Callable[[Options], Plan]] = {
    "demo": demo,
    "benchmarks": benchmarks,
    "imagenet-c": imagenet_c,
    "wild": wild,
    "ablation-filters": ablation_filters,
    "ablation-incorrect": ablation_incorrect,
    "efficiency": efficiency,
    "sensitivity": sensitivity,
    "sweep-lambda": sweep_lambda,
    "sweep-layer": sweep_layer,
    "quadrants": quadrants,
    "debug": debug,
    **STUDIES,
    **TRIALS,
}


def plan_of(experiment: str, options: Options) -> Plan:
    """What an experiment would run, of the wanted datasets alone."""
    plan = EXPERIMENTS[experiment](options)
    return [cell for cell in plan if options.wants(cell.dataset)] if isinstance(plan, list) else plan


def without_effect(experiment: str, options: Options) -> list[str]:
    """Options that somebody gave and that change no cell: whoever gave them should hear of it."""

    def keys(some: Options) -> set[str] | None:
        try:
            plan = plan_of(experiment, some)
        except ValueError:  # refused: another plan
            return None
        return {cell.key for cell in (plan if isinstance(plan, list) else next(plan))}

    staged = not isinstance(EXPERIMENTS[experiment](options), list)
    unseen = {"root", "seeds", "methods"} if staged else {"root"}  # a later stage may go by what the first does not
    usual = {name: value for name, value in vars(DEFAULTS).items() if name not in unseen and value != getattr(options, name)}
    planned = keys(options)
    return [name for name, value in usual.items() if keys(dataclasses.replace(options, **{name: value})) == planned]
