"""BatchNorm statistics, step size and decay to the source of the default method, on tuning cells."""

import dataclasses
from typing import Any

from dualtta.bench.benchmarks import CIFAR10_C, IMAGENET_C, Options, Setup
from dualtta.bench.cell import Cell
from dualtta.methods import METHODS
from dualtta.protocols import DEFAULT_METHOD
from dualtta.zoo.registry import layer_norm_only
from studies.setups import (
    HARD_AND_MILD,
    ONE_OF_EACH_KIND,
    Settings,
    absolute_rate,
    default_cells,
    first_seed,
    setups_of,
    without_batch_norm,
)
from studies.split import members, require_tuning

# BatchNorm statistics, of `norm` and of the default.
STATISTICS: tuple[str | float, ...] = ("batch", 0.7, 0.5, 0.3, 0.2)
SUMMED: dict[str, Any] = {
    "reduction": "auto",
    "cautious": 0.0,
    "anchor": 0.0,
}  # the default then

# Step sizes with blended statistics, which re-centre less of what a step shifts. `lr` is a multiple of the paper's.
BLENDS = (0.5, 0.3)
STEPS: tuple[Settings, ...] = (
    {"reduction": "sum"},
    {"reduction": "sum", "anchor": 0.03},
    {"reduction": "sum", "cautious": 1.0},
    {"reduction": "backed"},
    {"reduction": "backed", "lr": 2.0},
    {"reduction": "mean"},
    {"reduction": "mean", "lr": 4.0},
)

# Bounds on drift in long streams, by the batch's share in the blend: with decay the weights stay within a step / `anchor` of
# the source; "backed" takes small steps where D+ has few samples per class.
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

# The same for nets without BatchNorm: multiples of the default's rate, and the decay. With decay larger rates may be stable.
DECAYS: tuple[tuple[float, float], ...] = (
    (2.0, 0.0),
    (1.0, 0.03),
    (1.0, 0.1),
    (2.0, 0.03),
    (2.0, 0.1),
    (4.0, 0.03),
    (4.0, 0.1),
)


def study_statistics(options: Options) -> list[Cell]:
    """BatchNorm statistics: the batch's, or blends with the source's; on tuning cells.

    Reported: nothing, the paper uses the batch's.
    Command: python -m studies run study-statistics --root DATA --out results/statistics
    """
    first = first_seed(options)
    cells: list[Cell] = []
    for setup in _with_batch_norm(first):
        cells += setup.cells(["source"], first)
        for statistics in STATISTICS:
            cells += setup.cells(["norm"], first, statistics=statistics)
            cells += setup.cells([DEFAULT_METHOD], first, statistics=statistics, **SUMMED)
    return require_tuning(cells)


def study_steps(options: Options) -> list[Cell]:
    """Step size with blended BatchNorm statistics, in short and in long streams; on tuning cells.

    Reported: nothing on blends. Command: python -m studies run study-steps --root DATA --out results/steps
    """
    first = first_seed(options)
    cells: list[Cell] = []
    for setup in _with_batch_norm(first):
        cells += setup.cells(["source", "norm", DEFAULT_METHOD], first)
        cells += setup.cells([DEFAULT_METHOD], first, statistics="batch", **SUMMED)
        for statistics in BLENDS:
            cells += setup.cells(["norm"], first, statistics=statistics)
            for step in STEPS:
                settings = {"cautious": 0.0, "anchor": 0.0, **absolute_rate(setup, step)}
                cells += default_cells(setup, first, statistics=statistics, **settings)
    return require_tuning(cells)


def study_drift(options: Options) -> list[Cell]:
    """Bounds on drift with blended statistics: their gain in long mixed streams, their cost in short ones; on tuning cells.

    Reported: nothing on blends. Command: python -m studies run study-drift --root DATA --out results/drift
    """
    first = first_seed(options)
    twice = dataclasses.replace(first, repeats=2 * first.repeats)
    cells: list[Cell] = []
    for setup in _with_batch_norm(first):
        some = twice if setup.scenario == "mixed" else first
        cells += setup.cells(["source", "norm", DEFAULT_METHOD], some)
        for statistics, steps in BOUNDED.items():
            cells += setup.cells(["norm"], some, statistics=statistics)
            for step in steps:
                cells += default_cells(setup, some, statistics=statistics, **{"anchor": 0.0, **absolute_rate(setup, step)})
    return require_tuning(cells)


def study_decay(options: Options) -> list[Cell]:
    """Decay to the source on nets without BatchNorm, by learning rate; on tuning cells.

    Reported: nothing on decay.
    Command: python -m studies run study-decay --root DATA --datasets cifar10_c --out results/decay
    """
    first, cells = first_seed(options), list[Cell]()
    together = tuple(members(CIFAR10_C, "tuning"))
    scenarios = (("mild", ONE_OF_EACH_KIND), ("imbalanced", HARD_AND_MILD), ("mixed", together), ("continual", together))
    for setup in [s for scenario, corruptions in scenarios for s in setups_of(first, "tuning", corruptions, scenario)]:
        if not without_batch_norm(setup):
            continue
        rate = METHODS[DEFAULT_METHOD].rates[layer_norm_only(setup.model)]
        cells += setup.cells(["source", "norm", "eata", DEFAULT_METHOD], first)
        for factor, anchor in DECAYS:
            cells += setup.cells([DEFAULT_METHOD], first, lr=factor * rate, anchor=anchor)
    return require_tuning(cells)


def _with_batch_norm(options: Options) -> list[Setup]:
    """Tuning setups of nets with BatchNorm: short streams, sorted ones, and a long one of all corruptions."""
    scenarios = (("mild", ONE_OF_EACH_KIND), ("imbalanced", HARD_AND_MILD), ("mixed", tuple(members(IMAGENET_C, "tuning"))))
    found = [setup for scenario, corruptions in scenarios for setup in setups_of(options, "tuning", corruptions, scenario)]
    return [setup for setup in found if not without_batch_norm(setup)]
