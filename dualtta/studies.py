"""Studies: what the paper's numbers are made of, which D- is really wrong, what prevents collapse, and what a user should get.

Settings are chosen on the tuning side of held_out.json alone, and a study that would look at the other side is refused; only
`held-out` runs there. Everything takes the same `Options` as the paper's experiments. `--datasets` chooses among
colored_mnist, waterbirds, pacs, imagenet_c, cifar10_c and, for a look on a laptop, digits_c and colored_digits. `--candidate
KEY=VALUE` gives every variant of `study-minus` and `study-collapse` these settings too, such as another learning rate.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dualtta.grid import Cell
from dualtta.held_out import for_tuning, held_out, members
from dualtta.methods import METHODS
from dualtta.protocols import PAPER_LR, family
from dualtta.setups import CIFAR10_C, IMAGENET_C, NINE, SAFE, Options, Setup, cifar, colored_mnist, imagenet, pacs, waterbirds
from dualtta.source import make_source

VARIANT = "dual_variant"
REAL = ("colored_mnist", "waterbirds", "pacs", IMAGENET_C, CIFAR10_C)
PASSED = ("impulse_noise", "jpeg_compression")  # a hard one and a mild one, where long or sorted streams are looked at
STUDIED = ("impulse_noise", "defocus_blur", "contrast", "jpeg_compression")  # of the tuning side: one of a kind, hard ones
TINY_NETS = ("resnet_tiny", "resnet_tiny_gn")
Settings = Mapping[str, Any]

# Definitions of D-, each against D+ alone ("never"); `lam` says how much it weighs.
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

# What may stop one class from eating the others; the numbers are where each is known, or was seen, to work.
REMEDIES: dict[str, Settings] = {
    "none": {},
    "entropy bound on D+": {"plus_below": 0.4},
    "redundancy filter": {"epsilon": None},  # EATA's: by the number of classes
    "crowd filter": {"crowd": 1.3},  # by a rule that holds for two classes too: EATA's 0.4 of ten is 1.3, its 0.05 1.6
    "marginal entropy": {"marginal": 10.0},
    "marginal entropy, running": {"marginal": 10.0, "marginal_past": 0.9},
    "marginal entropy, long": {"marginal": 1.0, "marginal_past": 0.99},
    "inverse class frequency": {"balance": 1.0},
    "recovery": {"recovery": 0.2},
    "weights lean to the source": {"anchor": 0.01},
    "weights lean more": {"anchor": 0.1},
    "smaller steps by confidence": {"cautious": 2.0},
}

# One change at a time from the method as printed.
CHANGES: dict[str, tuple[Settings, ...]] = {
    "reduction": ({"reduction": "mean"},),
    "learning rate": tuple({"lr": factor} for factor in (0.2, 0.5, 2.0, 5.0, 10.0)),  # times the paper's
    "Ent_0": tuple({"ent0": share} for share in (0.2, 0.6, 0.8, 1.0)),
    "where the style sits": tuple({"layer": f"layer{number}"} for number in (2, 3)),
    "what adapts": ({"spare": 0.0}, {"spare": 0.5}, {"momentum": 0.0}, {"statistics": "source"}),
}

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


def digits(options: Options, corruptions: tuple[str, ...], scenario: str = "mild") -> list[Setup]:
    """The embedded digits on two tiny nets that differ in their norm layers alone."""
    together = "mixed" in scenario or "continual" in scenario
    sets = [list(corruptions)] if together else [[name] for name in corruptions]
    return [
        Setup("digits_c", 10, model, {"corruptions": c, "severities": [5]}, {}, source, scenario=scenario)
        for model in ([options.backbone] if options.backbone else TINY_NETS)
        for source in [make_source("digits", model, choices={"split": "train"}, **options.recipe)]
        for c in sets
    ]


def colored_digits(options: Options) -> list[Setup]:
    """The embedded digits whose colour misleads, on the same two nets."""
    return [
        Setup("colored_digits", 2, model, {"split": "test"}, {}, source)
        for model in ([options.backbone] if options.backbone else TINY_NETS)
        for source in [make_source("colored_digits", model, choices={"split": "train"}, **options.recipe)]
    ]


def sided(options: Options, side: str, corruptions: tuple[str, ...], scenario: str = "mild") -> list[Setup]:
    """The setups of one side; scenarios other than mild are for data whose domains are corruptions."""
    corrupted = {IMAGENET_C: imagenet, CIFAR10_C: cifar, "digits_c": digits}
    found = [s for name, make in corrupted.items() if _wants(options, name) for s in make(options, corruptions, scenario)]
    if scenario != "mild":
        return found
    plain: dict[str, Callable[[Options], list[Setup]]] = {"colored_mnist": colored_mnist, "colored_digits": colored_digits}
    found += [setup for name, make in plain.items() if _wants(options, name) for setup in make(options)]
    if _wants(options, "waterbirds"):
        split = members("waterbirds", side)[0]  # type: ignore[arg-type]
        found += [dataclasses.replace(setup, choices={"split": split}) for setup in waterbirds(options)]
    if _wants(options, "pacs"):
        targets = members("pacs", side)  # type: ignore[arg-type]
        found += [setup for setup in pacs(options) if setup.stream["domains"][0] in targets]
    return found


def _wants(options: Options, dataset: str) -> bool:
    return dataset in (options.datasets or REAL)


def once(options: Options) -> Options:
    """A study takes the first seed: it compares settings on the same stream."""
    return dataclasses.replace(options, seeds=options.seeds[:1])


def for_classes(setup: Setup, settings: Settings) -> dict[str, Any]:
    """EATA's threshold of redundancy goes by the number of classes."""
    epsilon = 0.4 if setup.classes <= 10 else 0.05
    return {key: epsilon if key == "epsilon" and value is None else value for key, value in settings.items()}


def study_settings(options: Options) -> list[Cell]:
    """Sum or mean, learning rate, Ent_0, where the style sits, what adapts: one change at a time, on tuning cells.

    Reported: 5e-4 for ResNets, the sum, the first layer; Ent_0 and momentum are not given.
    Command: dualtta run study-settings --root DATA --datasets colored_mnist,imagenet_c --out results/settings
    """
    first = once(options)
    setups = sided(first, "tuning", STUDIED)
    cells = [c for setup in setups for c in setup.cells(("source", "norm", "dualtta"), first)]
    for setup in setups:
        rate = PAPER_LR[family(setup.model)]
        changes = [change for some in CHANGES.values() for change in some]
        if family(setup.model) == "vit":
            changes = [change for change in changes if "layer" not in change]
        for change in changes:
            scaled = {key: value * rate if key == "lr" else value for key, value in change.items()}
            cells += setup.cells(["dualtta"], first, **scaled)
    return for_tuning(cells)


def gap(options: Options) -> list[Cell]:
    """ColoredMNIST: what lies between the reported 82.12 / 68.82 and what is measured: initialisation, order, passes, batches.

    `study-settings` has the rest (learning rate, Ent_0, layer, adapted parameters). With --backbone and --weights the source
    model starts from ImageNet. Command: dualtta run gap --root DATA --out results/gap
    """
    first = once(options)
    mnist = colored_mnist(first)[0]
    assert mnist.source is not None
    start: dict[str, Any] = {"choices": {"split": "train"}, **options.recipe}
    sources = [dataclasses.replace(mnist.source, seed=seed) for seed in (0, 1, 2)]
    if options.backbone:
        sources.append(make_source("colored_mnist", options.backbone, weights=options.start, **start))
    setups = [dataclasses.replace(mnist, model=source.model, source=source) for source in sources]
    setups += [dataclasses.replace(mnist, scenario=order) for order in ("imbalanced", "correlated")]
    setups += [dataclasses.replace(mnist, stream={"repeats": passes}) for passes in (2, 4)]
    cells = [c for setup in setups for c in setup.cells(("source", "norm", "deyo", "dualtta"), first)]
    for size in (16, 32, 128, 256):
        cells += mnist.cells(["dualtta"], dataclasses.replace(first, batch_size=size))
    return for_tuning(cells)


def study_minus(options: Options) -> list[Cell]:
    """Definitions of D-: how much of each is wrong, and whether maximising its entropy helps beyond D+ alone; on tuning cells.

    Reported: 18 % of D- right on impulse noise. Command: dualtta run study-minus --root DATA --datasets imagenet_c,cifar10_c
    --out results/minus
    """
    first = once(options)
    cells: list[Cell] = []
    for setup in sided(first, "tuning", STUDIED):
        cells += setup.cells(("source", "norm"), first)
        for words, definition in MINUS.items():
            for lam in (0.5,) if words == "D+ alone" else LAMBDAS:
                base = {"reduction": "mean", **REMEDIES["marginal entropy"]} if _fragile(setup) else {}
                cells += setup.cells([VARIANT], first, **{**base, **definition, "lam": lam, **(options.candidate or {})})
    return for_tuning(cells)


def _fragile(setup: Setup) -> bool:
    """Nets on which the method as printed collapses: there a D- can only be judged behind a remedy."""
    return family(setup.model) == "vit" or setup.model.endswith("_gn")  # no BatchNorm re-centres what a step shifts


def study_collapse(options: Options) -> list[Cell]:
    """Remedies against collapse, shuffled and imbalanced, two passes, the mean too where the sum collapses; tuning cells.

    Reported: nothing, the paper does not name collapse. Command: dualtta run study-collapse --root DATA
    --datasets cifar10_c,imagenet_c --out results/collapse
    """
    first = dataclasses.replace(once(options), repeats=max(options.repeats, 2))
    cells: list[Cell] = []
    for scenario in ("mild", "imbalanced"):
        for setup in sided(first, "tuning", PASSED, scenario):
            cells += setup.cells(("source", "norm", "tent"), first)
            for reduction in ("sum", "mean") if _fragile(setup) else ("sum",):
                for remedy in REMEDIES.values():
                    chosen = {"reduction": reduction, **for_classes(setup, remedy), **(options.candidate or {})}
                    cells += setup.cells([VARIANT], first, **chosen)
    return for_tuning(cells)


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
        rate = PAPER_LR[family(setup.model)]
        cells += setup.cells(["source", "norm", SAFE], first)
        cells += setup.cells([SAFE], first, statistics="batch", **SUMMED)
        for statistics in BLENDS:
            cells += setup.cells(["norm"], first, statistics=statistics)
            for step in BEARABLE:
                scaled = {key: value * rate if key == "lr" else value for key, value in step.items()}
                cells += setup.cells([SAFE], first, statistics=statistics, **{"cautious": 0.0, "anchor": 0.0, **scaled})
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
        rate = PAPER_LR[family(setup.model)]
        cells += setup.cells(["source", "norm", SAFE], some)
        for statistics, steps in BOUNDED.items():
            cells += setup.cells(["norm"], some, statistics=statistics)
            for step in steps:
                scaled = {key: value * rate if key == "lr" else value for key, value in step.items()}
                cells += setup.cells([SAFE], some, statistics=statistics, **{"anchor": 0.0, **scaled})
    return for_tuning(cells)


def study_lean(options: Options) -> list[Cell]:
    """Whether leaning back to the source pays on nets without BatchNorm, and what rates it bears; on tuning cells.

    Reported: nothing, it is ours. Command: dualtta run study-lean --root DATA --datasets cifar10_c --out results/lean
    """
    first, cells = once(options), list[Cell]()
    together = tuple(members(CIFAR10_C, "tuning"))
    scenarios = (("mild", STUDIED), ("imbalanced", PASSED), ("mixed", together), ("continual", together))
    for setup in [s for scenario, corruptions in scenarios for s in sided(first, "tuning", corruptions, scenario)]:
        if not _fragile(setup):
            continue
        rate = METHODS[SAFE].rates[family(setup.model) == "vit"]
        cells += setup.cells(["source", "norm", "eata", SAFE], first)
        for factor, anchor in LEANING:
            cells += setup.cells([SAFE], first, lr=factor * rate, anchor=anchor)
    return for_tuning(cells)


def _with_batch_norm(options: Options) -> list[Setup]:
    """Tuning cells of nets that have it: short streams, sorted ones, and a long one of all corruptions."""
    scenarios = (("mild", STUDIED), ("imbalanced", PASSED), ("mixed", tuple(members(IMAGENET_C, "tuning"))))
    found = [setup for scenario, corruptions in scenarios for setup in sided(options, "tuning", corruptions, scenario)]
    return [setup for setup in found if not _fragile(setup)]


def trials(options: Options) -> list[Cell]:
    """Whole variants, steps by guards, shuffled and imbalanced, beside EATA and DeYO at their own settings; on tuning cells.

    Reported: nothing, they are ours. Command: dualtta run trials --protocol own --root DATA --out results/trials
    """
    first = once(options)
    cells: list[Cell] = []
    for scenario, corruptions in (("mild", STUDIED), ("imbalanced", PASSED)):
        for setup in sided(first, "tuning", corruptions, scenario):
            cells += setup.cells(("source", "norm", "eata", "deyo", "dualtta"), first)
            for reduction, factor in STEPS[_fragile(setup)]:
                step = {"reduction": reduction, "lr": factor * PAPER_LR[family(setup.model)]}
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


def cifar10_c(options: Options) -> list[Cell]:
    """CIFAR-10-C, severity 5, on nets with GroupNorm and LayerNorm that the tool trains: 15 corruptions, nine methods.

    Reported: nothing on CIFAR; ImageNet's GroupNorm net 41.83 (its cells average 37.92).
    Command: dualtta run cifar10-c --root DATA --out results/cifar10-c
    """
    return [c for setup in cifar(options) for c in setup.cells(options.methods or NINE, options)]


def cifar10_wild(options: Options) -> list[Cell]:
    """CIFAR-10-C with imbalanced labels, with all corruptions mixed, and one after the other without a reset.

    Reported: nothing on CIFAR. Command: dualtta run cifar10-wild --root DATA --out results/cifar10-wild
    """
    setups = [setup for scenario in ("imbalanced", "mixed", "continual") for setup in cifar(options, scenario=scenario)]
    return [c for setup in setups for c in setup.cells(options.methods or NINE, options)]


STUDIES: dict[str, Callable[[Options], Any]] = {
    "cifar10-c": cifar10_c,
    "cifar10-wild": cifar10_wild,
    "gap": gap,
    "study-settings": study_settings,
    "study-minus": study_minus,
    "study-collapse": study_collapse,
    "study-statistics": study_statistics,
    "study-steps": study_steps,
    "study-drift": study_drift,
    "study-lean": study_lean,
    "trials": trials,
    "candidates": candidates,
    "held-out": verdict,
}
