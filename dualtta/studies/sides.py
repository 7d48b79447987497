"""What studies are made of: the setups of one side of held_out.json, and how their settings are written.

`--datasets` chooses among colored_mnist, waterbirds, pacs, imagenet_c, cifar10_c and, for a look on a laptop, digits_c and
colored_digits.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dualtta.bench.benchmarks import CIFAR10_C, IMAGENET_C, Options, Setup, cifar, colored_mnist, imagenet, pacs, waterbirds
from dualtta.method import Method
from dualtta.studies.held_out import members
from dualtta.train import make_source
from dualtta.zoo.registry import layer_norm_only

VARIANT = "dual_variant"
REAL = ("colored_mnist", "waterbirds", "pacs", IMAGENET_C, CIFAR10_C)
PASSED = ("impulse_noise", "jpeg_compression")  # a hard one and a mild one, where long or sorted streams are looked at
STUDIED = ("impulse_noise", "defocus_blur", "contrast", "jpeg_compression")  # of the tuning side: one of a kind, hard ones
TINY_NETS = ("resnet_tiny", "resnet_tiny_gn")
Settings = Mapping[str, Any]


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


def scaled(setup: Setup, settings: Settings) -> dict[str, Any]:
    """Learning rates are written as times the paper's."""
    return {
        key: value * Method.rates[layer_norm_only(setup.model)] if key == "lr" else value for key, value in settings.items()
    }


def fragile(setup: Setup) -> bool:
    """Nets on which the method as printed collapses: there a D- can only be judged behind a remedy."""
    return layer_norm_only(setup.model) or setup.model.endswith("_gn")  # no BatchNorm re-centres what a step shifts
