"""Whole variants of DualTTA side by side, the candidate with one part left out at a time, and the runs of its acceptance test.

Settings are chosen on tuning cells alone; `held-out` is the only experiment on held-out cells.
"""

from dualtta.bench.benchmarks import IMAGENET_C, Options
from dualtta.bench.cell import Cell
from dualtta.methods import METHODS
from dualtta.protocols import DEFAULT_METHOD
from studies.setups import (
    CANDIDATE,
    HARD_AND_MILD,
    ONE_OF_EACH_KIND,
    PRINTED,
    VARIANT,
    Settings,
    absolute_rate,
    epsilon_by_classes,
    first_seed,
    other_than_variant,
    setups_of,
    without_batch_norm,
)
from studies.split import members, only_held_out, require_tuning

NONE: Settings = {}

# Steps, as the reduction and a multiple of the paper's learning rate, by whether the net has no BatchNorm.
STEPS: dict[bool, tuple[tuple[str, float], ...]] = {
    False: (("sum", 1.0), ("sum", 2.0), ("mean", 5.0)),
    True: (("mean", 1.0), ("mean", 3.0), ("mean", 10.0)),
}
GUARDS: dict[str, Settings] = {
    "crowd": {"crowd": 1.3},
    "crowd, steady": {"crowd": 1.3, "steady": 0.03},
    "balance": {"balance": 1.0},
    "crowd, flip": {"crowd": 1.3, "breaks_by": "flip", "lam": 1.0},
    "crowd, decay": {"crowd": 1.3, "anchor": 0.01},
    "marginal": {"marginal": 1.0, "marginal_past": 0.99},
    "crowd, marginal": {"crowd": 1.3, "marginal": 1.0, "marginal_past": 0.99},
}


def study_variants(options: Options, candidate: Settings = NONE) -> list[Cell]:
    """Whole variants, steps by safeguards, shuffled and imbalanced, beside EATA and DeYO; on tuning cells.

    Reported: nothing on variants.
    Command: python -m studies run study-variants --protocol own --root DATA --out results/variants
    """
    first = first_seed(options)
    cells: list[Cell] = []
    for scenario, corruptions in (("mild", ONE_OF_EACH_KIND), ("imbalanced", HARD_AND_MILD)):
        for setup in setups_of(first, "tuning", corruptions, scenario):
            cells += setup.cells(("source", "norm", "eata", "deyo"), first)
            cells += setup.cells(["dualtta"], first, **PRINTED)
            for reduction, factor in STEPS[without_batch_norm(setup)]:
                step = absolute_rate(setup, {"reduction": reduction, "lr": factor})
                for guard in GUARDS.values():
                    cells += setup.cells([VARIANT], first, **{**step, **guard, **candidate})
    return require_tuning(cells)


def candidates(options: Options, candidate: Settings = NONE) -> list[Cell]:
    """The candidate with one of its parts left out at a time, beside every baseline at its own settings; on tuning cells.

    Reported: nothing on variants.
    Command: python -m studies run candidates --protocol own --root DATA --out results/candidates
    """
    first, chosen = first_seed(options), dict(candidate or CANDIDATE)
    baselines = [name for name in other_than_variant(METHODS) if name != DEFAULT_METHOD]
    without = [{key: value for key, value in chosen.items() if key != left_out} for left_out in chosen]
    cells: list[Cell] = []
    for setup in setups_of(first, "tuning", tuple(members(IMAGENET_C, "tuning"))):
        cells += setup.cells(options.methods or baselines, first)
        for settings in [chosen, *without]:
            cells += setup.cells([VARIANT], first, **epsilon_by_classes(setup, settings))
    return require_tuning(cells)


def held_out(options: Options, candidate: Settings = NONE) -> list[Cell]:
    """The default of `adapt` and every baseline at its own settings on all held-out cells, for `accept`.

    Reported: nothing on the default.
    Command: python -m studies run held-out --protocol own --root DATA --out results/held-out
    """
    corruptions = tuple(members(IMAGENET_C, "held_out"))
    cells: list[Cell] = []
    for scenario in ("mild", "imbalanced", "mixed", "continual"):
        some = options if scenario == "mild" else first_seed(options)
        for setup in setups_of(some, "held_out", corruptions, scenario):
            if scenario == "continual" and setup.dataset == IMAGENET_C:
                continue  # not among the runs
            cells += setup.cells(options.methods or other_than_variant(METHODS), some)
            if candidate:
                cells += setup.cells([VARIANT], some, **epsilon_by_classes(setup, candidate))
    return only_held_out(cells)
