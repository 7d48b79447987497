"""Ablations on tuning cells: the settings that the paper leaves open, definitions of D-, and remedies against collapse.

Nothing is chosen on held-out cells: a study that contains one raises a ValueError. `--candidate KEY=VALUE` adds settings to
every variant of `study-minus` and `study-collapse`, such as another learning rate. How the default was put together is in
`step_size.py` and `candidates.py`.
"""

import dataclasses
from typing import Any

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import Cell
from dualtta.train import make_source
from dualtta.zoo.registry import layer_norm_only
from studies.setups import (
    HARD_AND_MILD,
    ONE_OF_EACH_KIND,
    PRINTED,
    VARIANT,
    Settings,
    absolute_rate,
    colored_mnist_from_random,
    epsilon_by_classes,
    first_seed,
    setups_of,
    without_batch_norm,
)
from studies.split import require_tuning

NONE: Settings = {}

# Definitions of D-, each against D+ alone ("never"); `lam` is its weight.
MINUS: dict[str, Settings] = {
    "D+ alone": {"breaks_by": "never"},
    "as printed": {},
    "relative drops": {"drop": "relative"},
    "lower threshold": {"tau_minus": 0.2},
    "top 5 % of the stream": {"breaks_by": "quantile", "top": 0.05},
    "top 5 %, uncertain": {"breaks_by": "quantile", "top": 0.05, "minus_above": 0.4},
    "flip": {"breaks_by": "flip"},
    "flip, certain": {"breaks_by": "flip", "minus_below": 0.4},
    "flip, uncertain": {"breaks_by": "flip", "minus_above": 0.4},
}
LAMBDAS = (0.5, 2.0)

# Remedies against collapse onto one class, at values where each is known, or was measured, to work.
REMEDIES: dict[str, Settings] = {
    "none": {},
    "entropy bound on D+": {"plus_below": 0.4},
    "redundancy filter": {"epsilon": None},  # EATA's, by the number of classes
    "crowd filter": {"crowd": 1.3},  # for any number of classes: EATA's 0.4 at ten is 1.3, its 0.05 at a thousand 1.6
    "marginal entropy": {"marginal": 10.0},
    "marginal entropy, running": {"marginal": 10.0, "marginal_past": 0.9},
    "marginal entropy, long": {"marginal": 1.0, "marginal_past": 0.99},
    "inverse class frequency": {"balance": 1.0},
    "recovery": {"recovery": 0.2},
    "decay to the source": {"anchor": 0.01},
    "faster decay to the source": {"anchor": 0.1},
    "confidence-scaled steps": {"cautious": 2.0},
}

# One change at a time from the method as printed.
CHANGES: dict[str, tuple[Settings, ...]] = {
    "reduction": ({"reduction": "mean"},),
    "learning rate": tuple({"lr": factor} for factor in (0.2, 0.5, 2.0, 5.0, 10.0)),  # times the paper's
    "Ent_0": tuple({"ent0": share} for share in (0.2, 0.6, 0.8, 1.0)),
    "layer of the style view": tuple({"layer": f"layer{number}"} for number in (2, 3)),
    "adapted parameters": ({"spare": 0.0}, {"spare": 0.5}, {"momentum": 0.0}, {"statistics": "source"}),
}


def study_settings(options: Options) -> list[Cell]:
    """Sum or mean, learning rate, Ent_0, layer of the style view, adapted parameters: one change at a time, on tuning cells.

    Reported: 5e-4 for ResNets, a sum, the first layer; Ent_0 and momentum are not given.
    Command: python -m studies run study-settings --root DATA --datasets colored_mnist,imagenet_c --out results/settings
    """
    first = first_seed(options)
    setups = setups_of(first, "tuning", ONE_OF_EACH_KIND)
    cells = [c for setup in setups for c in setup.cells(("source", "norm"), first)]
    for setup in setups:
        cells += setup.cells(["dualtta"], first, **PRINTED)
        changes = [change for some in CHANGES.values() for change in some]
        if layer_norm_only(setup.model):
            changes = [change for change in changes if "layer" not in change]
        for change in changes:
            cells += setup.cells(["dualtta"], first, **{**PRINTED, **absolute_rate(setup, change)})
    return require_tuning(cells)


def gap(options: Options) -> list[Cell]:
    """ColoredMNIST, reported 82.12 / 68.82: the effect of initialisation, order, passes and batch size, on tuning cells.

    `study-settings` has the rest (learning rate, Ent_0, layer, adapted parameters). With --backbone and --weights one more
    source model starts from ImageNet. Command: python -m studies run gap --root DATA --out results/gap
    """
    first = first_seed(options)
    mnist = colored_mnist_from_random(first)[0]
    assert mnist.source is not None
    start: dict[str, Any] = {"choices": {"split": "train"}, **options.recipe}
    sources = [dataclasses.replace(mnist.source, seed=seed) for seed in (0, 1, 2)]
    if options.backbone:
        sources.append(make_source("colored_mnist", options.backbone, weights=options.start, **start))
    setups = [dataclasses.replace(mnist, model=source.model, source=source) for source in sources]
    setups += [dataclasses.replace(mnist, scenario=order) for order in ("imbalanced", "correlated")]
    setups += [dataclasses.replace(mnist, stream={"repeats": passes}) for passes in (2, 4)]
    cells = [c for setup in setups for c in setup.cells(("source", "norm", "deyo"), first)]
    cells += [c for setup in setups for c in setup.cells(["dualtta"], first, **PRINTED)]
    for size in (16, 32, 128, 256):
        cells += mnist.cells(["dualtta"], dataclasses.replace(first, batch_size=size), **PRINTED)
    return require_tuning(cells)


def study_minus(options: Options, candidate: Settings = NONE) -> list[Cell]:
    """Definitions of D-: the share of each that is wrong, and whether it helps beyond D+ alone; on tuning cells.

    Reported: 18 % of D- right on impulse noise.
    Command: python -m studies run study-minus --root DATA --datasets imagenet_c,cifar10_c --out results/minus
    """
    first = first_seed(options)
    cells: list[Cell] = []
    for setup in setups_of(first, "tuning", ONE_OF_EACH_KIND):
        cells += setup.cells(("source", "norm"), first)
        for words, definition in MINUS.items():
            for lam in (0.5,) if words == "D+ alone" else LAMBDAS:
                base = {"reduction": "mean", **REMEDIES["marginal entropy"]} if without_batch_norm(setup) else {}
                cells += setup.cells([VARIANT], first, **{**base, **definition, "lam": lam, **candidate})
    return require_tuning(cells)


def study_collapse(options: Options, candidate: Settings = NONE) -> list[Cell]:
    """Remedies against collapse: shuffled and imbalanced streams of two passes, sum and mean, on tuning cells.

    Reported: nothing on collapse.
    Command: python -m studies run study-collapse --root DATA --datasets cifar10_c,imagenet_c --out results/collapse
    """
    first = dataclasses.replace(first_seed(options), repeats=max(options.repeats, 2))
    cells: list[Cell] = []
    for scenario in ("mild", "imbalanced"):
        for setup in setups_of(first, "tuning", HARD_AND_MILD, scenario):
            cells += setup.cells(("source", "norm", "tent"), first)
            for reduction in ("sum", "mean") if without_batch_norm(setup) else ("sum",):
                for remedy in REMEDIES.values():
                    chosen = {"reduction": reduction, **epsilon_by_classes(setup, remedy), **candidate}
                    cells += setup.cells([VARIANT], first, **chosen)
    return require_tuning(cells)
