"""What the experiments are made of: a dataset with the model that meets it, before methods and seeds."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dualtta.bench.cell import Cell
from dualtta.data.published import CIFAR10, CORRUPTIONS, OFFICE_HOME, PACS
from dualtta.methods import METHODS
from dualtta.protocols import Protocol, Situation
from dualtta.train import Source, make_source
from dualtta.zoo.registry import layer_norm_only

SIX = ("source", "tent", "sar", "eata", "deyo", "dualtta")  # the paper's rows
NINE = ("source", "norm", "tent", "eata", "sar", "deyo", "eata_dual", "deyo_dual", "dualtta")
SAFE = "dualtta_safe"  # what `adapt` takes unless told


@dataclass(frozen=True)
class Options:
    """What a person may choose of an experiment."""

    seeds: tuple[int, ...] = (2024, 2025, 2026)
    methods: tuple[str, ...] | None = None  # None: the experiment's own
    datasets: tuple[str, ...] | None = None  # None: the experiment's own
    protocol: Protocol = "paper"
    limit: int | None = None  # at most so many samples of a domain
    repeats: int = 1  # passes over what lies between two resets: a longer stream of the same images, marked as such
    recipe: Mapping[str, Any] = field(default_factory=dict)  # changes to the training of source models
    candidate: Mapping[str, Any] | None = None  # settings of the variant on trial; None: the studies' own
    batch_size: int = 64
    backbone: str | None = None  # instead of the paper's ResNet-50
    speed: str = "safe"  # a word of `dualtta.speed`
    weights: str = "pretrained"  # what ERM starts from, and ImageNet models run with: a file below the data folder, or the hub
    root: Path | None = None

    @property
    def start(self) -> str:
        """What ERM starts from, as `make_source` takes it; a missing file is an error here already."""
        if self.weights == "pretrained":
            return self.weights
        path = Path(self.root or ".", self.weights)
        if not path.is_file():
            raise ValueError(f"there are no weights {path}: name a file below the data folder (--root) with --weights")
        return str(path)

    def wants(self, dataset: str) -> bool:
        return self.datasets is None or dataset in self.datasets


@dataclass(frozen=True)
class Setup:
    """A dataset with the model that meets it, before methods and seeds."""

    dataset: str
    classes: int
    model: str
    choices: dict[str, Any]
    stream: dict[str, Any]
    source: Source | None = None
    weights: str | None = None
    scenario: str = "mild"

    def cells(self, methods: Iterable[str], options: Options, **settings: Any) -> list[Cell]:
        """The setup under each method and seed, by the protocol's settings and these."""
        at = Situation(self.dataset, layer_norm_only(self.model), self.classes, self.scenario != "mild", options.batch_size)
        stream = {"batch_size": options.batch_size, **self.stream}
        if options.limit is not None:
            stream["limit"] = min(options.limit, stream.get("limit", options.limit))
        if options.repeats > 1:
            stream["repeats"] = options.repeats
        return [
            Cell(
                dataset=self.dataset,
                model=self.model,
                method=method,
                scenario=self.scenario,
                seed=seed,
                choices=self.choices,
                settings={**METHODS[method].settings_for(at, options.protocol), **settings},
                stream=stream,
                source=self.source,
                weights=self.weights,
                weights_hash=content_hash(options.root, self.weights),
                speed=options.speed,
                fisher=self.fisher(METHODS[method].fisher_samples),
            )
            for seed in options.seeds
            for method in methods
        ]

    def fisher(self, samples: int) -> dict[str, Any] | None:
        """The source data that a method's Fisher importance is estimated on."""
        if not samples:
            return None
        if self.source is not None:
            choices = dict(self.source.choices)
            domains = choices.pop("domains", None)
            return {"dataset": self.source.dataset, "choices": choices, "domains": domains, "samples": samples}
        if self.dataset == IMAGENET_C:
            return {"dataset": "imagenet", "choices": {}, "domains": None, "samples": samples}
        return None


IMAGENET_C, CIFAR10_C = "imagenet_c", "cifar10_c"


@cache
def content_hash(root: Path | None, weights: str | None) -> str:
    """Names a weights file by what is in it, so that another file is another cell; missing files are found by `validate`."""
    if weights is None or weights == "pretrained":
        return weights or ""
    path = Path(root, weights) if root else Path(weights)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing"


def colored_mnist(options: Options) -> list[Setup]:
    source = make_source("colored_mnist", choices={"split": "train"}, **options.recipe)
    return [Setup("colored_mnist", 2, "resnet18", {"split": "test"}, {}, source)]


def waterbirds(options: Options) -> list[Setup]:
    model = options.backbone or "resnet50"
    source = make_source("waterbirds", model, choices={"split": "train"}, weights=options.start, **options.recipe)
    return [Setup("waterbirds", 2, model, {"split": "test"}, {}, source)]


def pairs(dataset: str, classes: int, domains: Iterable[str], options: Options) -> list[Setup]:
    """All pairs of a source domain, trained on alone, and another domain as the target."""
    model, names = options.backbone or "resnet50", list(domains)
    start: dict[str, Any] = {"weights": options.start, **options.recipe}
    trained = {name: make_source(dataset, model, choices={"domains": [name]}, **start) for name in names}
    return [
        Setup(dataset, classes, model, {}, {"domains": [target]}, trained[origin])
        for origin in names
        for target in names
        if target != origin
    ]


def pacs(options: Options) -> list[Setup]:
    return pairs("pacs", len(PACS.classes), PACS.domains, options)


def office_home(options: Options) -> list[Setup]:
    return pairs("office_home", len(OFFICE_HOME.classes), OFFICE_HOME.domains, options)


BACKBONES = ("resnet50", "resnet50_gn", "vit_base_patch16_224")


def imagenet(options: Options, corruptions: Iterable[str] = CORRUPTIONS, scenario: str = "mild") -> list[Setup]:
    """Each corruption at severity 5 by itself, on each backbone, or all pooled where the scenario mixes them."""
    sets = [list(corruptions)] if "mixed" in scenario else [[name] for name in corruptions]
    return [
        Setup(IMAGENET_C, 1000, model, {"corruptions": c, "severities": [5]}, {}, None, options.weights, scenario)
        for model in ([options.backbone] if options.backbone else BACKBONES)
        for c in sets
    ]


CIFAR_NETS = ("resnet26_gn", "vit_small_cifar")  # GroupNorm and LayerNorm: samples are independent


def cifar(options: Options, corruptions: Iterable[str] = CORRUPTIONS, scenario: str = "mild") -> list[Setup]:
    """Each corruption of CIFAR-10-C at severity 5 by itself, on nets trained on CIFAR-10; all together where domains follow
    each other or mix."""
    together = "mixed" in scenario or "continual" in scenario
    sets = [list(corruptions)] if together else [[name] for name in corruptions]
    return [
        Setup(CIFAR10_C, len(CIFAR10.classes), model, {"corruptions": c, "severities": [5]}, {}, source, scenario=scenario)
        for model in ([options.backbone] if options.backbone else CIFAR_NETS)
        for source in [make_source("cifar10", model, choices={"split": "train"}, **options.recipe)]
        for c in sets
    ]


BENCHMARKS: dict[str, Callable[[Options], list[Setup]]] = {
    "colored_mnist": colored_mnist,
    "waterbirds": waterbirds,
    "pacs": pacs,
    "office_home": office_home,
}


def wanted(options: Options, *names: str) -> list[Setup]:
    return [setup for name in names if options.wants(name) for setup in BENCHMARKS[name](options)]
