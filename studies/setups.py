"""The setups (dataset, source model, scenario) of one part of the split, and how studies write their settings.

`--datasets` chooses among colored_mnist, waterbirds, pacs, imagenet_c, cifar10_c and, for a quick run without downloads,
digits_c and colored_digits.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dualtta.bench.benchmarks import CIFAR10_C, IMAGENET_C, Options, Setup, cifar, colored_mnist, imagenet, pacs, waterbirds
from dualtta.bench.cell import Cell
from dualtta.method import Method
from dualtta.protocols import DEFAULT_METHOD
from dualtta.train import make_source
from dualtta.zoo.registry import layer_norm_only
from studies.split import Part, members

VARIANT = "dual_variant"
REAL = ("colored_mnist", "waterbirds", "pacs", IMAGENET_C, CIFAR10_C)
HARD_AND_MILD = ("impulse_noise", "jpeg_compression")  # for long and sorted streams
ONE_OF_EACH_KIND = ("impulse_noise", "defocus_blur", "contrast", "jpeg_compression")  # tuning corruptions, hard ones
TINY_NETS = ("resnet_tiny", "resnet_tiny_gn")
Settings = Mapping[str, Any]

# The equation to the letter, which the studies started from: every change is against it.
PRINTED: dict[str, Any] = {"reduction": "sum"}

# What `dualtta_safe` is made of, as settings of the variant: `candidates` leaves out one part at a time.
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
    """The embedded digits with a misleading colour, on the same two nets."""
    return [
        Setup("colored_digits", 2, model, {"split": "test"}, {}, source)
        for model in ([options.backbone] if options.backbone else TINY_NETS)
        for source in [make_source("colored_digits", model, choices={"split": "train"}, **options.recipe)]
    ]


def colored_mnist_from_random(options: Options) -> list[Setup]:
    """ColoredMNIST as the studies have it, whatever --backbone and --weights say: a ResNet-18 from random weights."""
    return colored_mnist(dataclasses.replace(options, backbone=None, weights="random"))


def setups_of(options: Options, part: Part, corruptions: tuple[str, ...], scenario: str = "mild") -> list[Setup]:
    """The setups of one part; scenarios other than mild apply to data whose domains are corruptions."""
    corrupted = {IMAGENET_C: imagenet, CIFAR10_C: cifar, "digits_c": digits}
    found = [s for name, make in corrupted.items() if _wants(options, name) for s in make(options, corruptions, scenario)]
    if scenario != "mild":
        return found
    plain: dict[str, Callable[[Options], list[Setup]]] = {
        "colored_mnist": colored_mnist_from_random,
        "colored_digits": colored_digits,
    }
    found += [setup for name, make in plain.items() if _wants(options, name) for setup in make(options)]
    if _wants(options, "waterbirds"):
        split = members("waterbirds", part)[0]
        found += [dataclasses.replace(setup, choices={"split": split}) for setup in waterbirds(options)]
    if _wants(options, "pacs"):
        targets = members("pacs", part)
        found += [setup for setup in pacs(options) if setup.stream["domains"][0] in targets]
    return found


def _wants(options: Options, dataset: str) -> bool:
    return dataset in (options.datasets or REAL)


def first_seed(options: Options) -> Options:
    """A study runs the first seed alone: it compares settings on the same stream."""
    return dataclasses.replace(options, seeds=options.seeds[:1])


def default_cells(setup: Setup, options: Options, **settings: Any) -> list[Cell]:
    """Cells of the default method; of the variant with the same settings where the default has no such switch."""
    if settings.get("reduction") == "backed":
        return setup.cells([VARIANT], options, **{**CANDIDATE, **settings})
    return setup.cells([DEFAULT_METHOD], options, **settings)


def epsilon_by_classes(setup: Setup, settings: Settings) -> dict[str, Any]:
    """These settings; an `epsilon` of None becomes EATA's threshold for this number of classes."""
    epsilon = 0.4 if setup.classes <= 10 else 0.05
    return {key: epsilon if key == "epsilon" and value is None else value for key, value in settings.items()}


def absolute_rate(setup: Setup, settings: Settings) -> dict[str, Any]:
    """These settings; `lr`, written as a multiple of the paper's, becomes the rate itself."""
    return {
        key: value * Method.rates[layer_norm_only(setup.model)] if key == "lr" else value for key, value in settings.items()
    }


def without_batch_norm(setup: Setup) -> bool:
    """Whether the model has no BatchNorm, which re-centres what a step shifts: there the method as printed collapses."""
    return layer_norm_only(setup.model) or setup.model.endswith("_gn")


def other_than_variant(methods: Iterable[str]) -> list[str]:
    """Names of methods, without the variant that the studies register."""
    return [name for name in methods if name != VARIANT]
