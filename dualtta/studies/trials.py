"""Trials: what the default of `adapt` is made of, whole variants against each other, and the verdict on it.

Settings are chosen on the tuning side of held_out.json alone; only `held-out` runs on the other, and `long` on both together.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from dualtta.bench.benchmarks import CIFAR10_C, IMAGENET_C, NINE, SAFE, Options, Setup, imagenet
from dualtta.bench.cell import Cell
from dualtta.methods import METHODS
from dualtta.studies.held_out import for_tuning, held_out, members
from dualtta.studies.sides import PASSED, STUDIED, VARIANT, Settings, for_classes, fragile, once, scaled, sided
from dualtta.zoo.registry import layer_norm_only

# Whole variants: how large a step, and what keeps it safe. Steps are reduction and times the paper's learning rate.
STEPS: dict[bool, tuple[tuple[str, float], ...]] = {
    False: (("sum", 1.0), ("sum", 2.0), ("mean", 5.0)),  # BatchNorm re-centres what a step shifts
    True: (("mean", 1.0), ("mean", 3.0), ("mean", 10.0)),  # fragile nets
}
GUARDS: dict[str, Settings] = {
    "crowd": {"crowd": 1.3},
    "crowd, steady": {"crowd": 1.3, "steady": 0.03},
    "balance": {"balance": 1.0},
    "crowd, flip": {"crowd": 1.3, "breaks_by": "flip", "lam": 1.0},
    "crowd, leaning": {"crowd": 1.3, "anchor": 0.01},
    "marginal": {"marginal": 1.0, "marginal_past": 0.99},
    "crowd, marginal": {"crowd": 1.3, "marginal": 1.0, "marginal_past": 0.99},
}

# What BatchNorm goes by, of `norm` and of the default.
STATISTICS: tuple[str | float, ...] = ("batch", 0.7, 0.5, 0.3, 0.2)
SUMMED: dict[str, Any] = {"reduction": "auto", "cautious": 0.0, "anchor": 0.0}  # the default's steps when these were compared

# How large a step blends bear: they re-centre less of what it shifts. Rates are times the paper's.
BLENDS = (0.5, 0.3)
BEARABLE: tuple[Settings, ...] = (
    {"reduction": "sum"},
    {"reduction": "sum", "anchor": 0.03},
    {"reduction": "sum", "cautious": 1.0},
    {"reduction": "backed"},
    {"reduction": "backed", "lr": 2.0},
    {"reduction": "mean"},
    {"reduction": "mean", "lr": 4.0},
)

# What keeps a blend's steps from adding up in long streams, by the share of the batch: what leans back to the source cannot go
# further from it than a step / `anchor`; "backed" takes small steps where many classes have nobody to speak for them.
BOUNDED: dict[float, tuple[Settings, ...]] = {
    0.3: (
        {},
        {"anchor": 0.01},  # 0.03 is the default
        {"anchor": 0.1},
        {"reduction": "backed"},
        {"reduction": "backed", "cautious": 0.0, "lr": 2.0},
        {"reduction": "backed", "cautious": 0.0, "lr": 2.0, "anchor": 0.03},
    ),
    0.5: (
        {},
        {"anchor": 0.03},
        {"reduction": "backed", "cautious": 0.0, "lr": 2.0, "anchor": 0.03},
    ),
}

# The same of the mean, where there is no BatchNorm: times the default's rate, and how far back. What leans may take more.
LEANING: tuple[tuple[float, float], ...] = (
    (2.0, 0.0),
    (1.0, 0.03),
    (1.0, 0.1),
    (2.0, 0.03),
    (2.0, 0.1),
    (4.0, 0.03),
    (4.0, 0.1),
)

# What `dualtta_safe` is made of: `candidates` takes each part away.
CANDIDATE: dict[str, Any] = {
    "reduction": "auto",
    "cautious": None,
    "anchor": None,
    "statistics": 0.3,
    "crowd": 1.3,
    "steady": 0.03,
}


def study_statistics(options: Options) -> list[Cell]:
    """What BatchNorm normalises by: the batch, or blends with the source; on tuning cells.

    Reported: nothing, the paper takes the batch's. Command: dualtta run study-statistics --root DATA --out results/statistics
    """
    first = once(options)
    cells: list[Cell] = []
    for setup in _with_batch_norm(first):
        cells += setup.cells(["source"], first)
        for statistics in STATISTICS:
            cells += setup.cells(["norm"], first, statistics=statistics)
            cells += setup.cells([SAFE], first, statistics=statistics, **SUMMED)
    return for_tuning(cells)


def study_steps(options: Options) -> list[Cell]:
    """How large a step BatchNorm by a blend of statistics bears, in short and in long streams; on tuning cells.

    Reported: nothing, the blend is ours. Command: dualtta run study-steps --root DATA --out results/steps
    """
    first = once(options)
    cells: list[Cell] = []
    for setup in _with_batch_norm(first):
        cells += setup.cells(["source", "norm", SAFE], first)
        cells += setup.cells([SAFE], first, statistics="batch", **SUMMED)
        for statistics in BLENDS:
            cells += setup.cells(["norm"], first, statistics=statistics)
            for step in BEARABLE:
                settings = {"cautious": 0.0, "anchor": 0.0, **scaled(setup, step)}
                cells += setup.cells([SAFE], first, statistics=statistics, **settings)
    return for_tuning(cells)


def study_drift(options: Options) -> list[Cell]:
    """What keeps steps by a blend from adding up in long mixed streams, and what it costs in short ones; on tuning cells.

    Reported: nothing, the blend is ours. Command: dualtta run study-drift --root DATA --out results/drift
    """
    first = once(options)
    twice = dataclasses.replace(first, repeats=2 * first.repeats)
    cells: list[Cell] = []
    for setup in _with_batch_norm(first):
        some = twice if setup.scenario == "mixed" else first
        cells += setup.cells(["source", "norm", SAFE], some)
        for statistics, steps in BOUNDED.items():
            cells += setup.cells(["norm"], some, statistics=statistics)
            for step in steps:
                cells += setup.cells([SAFE], some, statistics=statistics, **{"anchor": 0.0, **scaled(setup, step)})
    return for_tuning(cells)


def study_lean(options: Options) -> list[Cell]:
    """Whether leaning back to the source pays on nets without BatchNorm, and what rates it bears; on tuning cells.

    Reported: nothing, it is ours. Command: dualtta run study-lean --root DATA --datasets cifar10_c --out results/lean
    """
    first, cells = once(options), list[Cell]()
    together = tuple(members(CIFAR10_C, "tuning"))
    scenarios = (("mild", STUDIED), ("imbalanced", PASSED), ("mixed", together), ("continual", together))
    for setup in [s for scenario, corruptions in scenarios for s in sided(first, "tuning", corruptions, scenario)]:
        if not fragile(setup):
            continue
        rate = METHODS[SAFE].rates[layer_norm_only(setup.model)]
        cells += setup.cells(["source", "norm", "eata", SAFE], first)
        for factor, anchor in LEANING:
            cells += setup.cells([SAFE], first, lr=factor * rate, anchor=anchor)
    return for_tuning(cells)


def _with_batch_norm(options: Options) -> list[Setup]:
    """Tuning cells of nets that have it: short streams, sorted ones, and a long one of all corruptions."""
    scenarios = (("mild", STUDIED), ("imbalanced", PASSED), ("mixed", tuple(members(IMAGENET_C, "tuning"))))
    found = [setup for scenario, corruptions in scenarios for setup in sided(options, "tuning", corruptions, scenario)]
    return [setup for setup in found if not fragile(setup)]


def trials(options: Options) -> list[Cell]:
    """Whole variants, steps by guards, shuffled and imbalanced, beside EATA and DeYO at their own settings; on tuning cells.

    Reported: nothing, they are ours. Command: dualtta run trials --protocol own --root DATA --out results/trials
    """
    first = once(options)
    cells: list[Cell] = []
    for scenario, corruptions in (("mild", STUDIED), ("imbalanced", PASSED)):
        for setup in sided(first, "tuning", corruptions, scenario):
            cells += setup.cells(("source", "norm", "eata", "deyo", "dualtta"), first)
            for reduction, factor in STEPS[fragile(setup)]:
                step = scaled(setup, {"reduction": reduction, "lr": factor})
                for guard in GUARDS.values():
                    cells += setup.cells([VARIANT], first, **{**step, **guard, **(options.candidate or {})})
    return for_tuning(cells)


def candidates(options: Options) -> list[Cell]:
    """The variant on trial with each of its parts taken away, beside every baseline at its own settings; on tuning cells.

    Reported: nothing, it is ours. Command: dualtta run candidates --protocol own --root DATA --out results/candidates
    """
    first, chosen = once(options), dict(options.candidate or CANDIDATE)
    without = [{key: value for key, value in chosen.items() if key != left_out} for left_out in chosen]
    cells: list[Cell] = []
    for setup in sided(first, "tuning", tuple(members(IMAGENET_C, "tuning"))):
        cells += setup.cells(options.methods or NINE, first)
        for settings in [chosen, *without]:
            cells += setup.cells([VARIANT], first, **for_classes(setup, settings))
    return for_tuning(cells)


def verdict(options: Options) -> list[Cell]:
    """The default of `adapt` and every baseline at its own settings on all that was held out; `dualtta accept` judges.

    Reported: nothing, it is ours. Command: dualtta run held-out --protocol own --root DATA --out results/held-out
    """
    corruptions = tuple(members(IMAGENET_C, "held_out"))
    cells: list[Cell] = []
    for scenario in ("mild", "imbalanced", "mixed", "continual"):
        some = options if scenario == "mild" else once(options)
        for setup in sided(some, "held_out", corruptions, scenario):
            if scenario == "continual" and setup.dataset == IMAGENET_C:
                continue  # not among the runs
            cells += setup.cells(options.methods or (*NINE, SAFE), some)
            if options.candidate:
                cells += setup.cells([VARIANT], some, **for_classes(setup, options.candidate))
    return held_out(cells)


PASSES = 4  # over the mixed stream: 120,000 samples of the 30,000 corrupted images that are at hand


def long(options: Options) -> list[Cell]:
    """How long until it harms: all corruptions of ImageNet-C mixed, four passes or `--repeats`, by the default and its rivals.

    Reported: one pass alone, DualTTA 27.51. All corruptions are on neither side, and nothing is chosen by them.
    Command: dualtta run long --protocol own --root DATA --out results/long
    """
    first = once(options)
    passes = dataclasses.replace(first, repeats=first.repeats if first.repeats > 1 else PASSES)
    methods = options.methods or ("source", "eata", "dualtta", SAFE)
    return [c for setup in imagenet(passes, scenario="mixed") for c in setup.cells(methods, passes)]


TRIALS: dict[str, Callable[[Options], Any]] = {
    "study-statistics": study_statistics,
    "study-steps": study_steps,
    "study-drift": study_drift,
    "study-lean": study_lean,
    "trials": trials,
    "candidates": candidates,
    "held-out": verdict,
    "long": long,
}
