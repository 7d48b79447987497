"""The benchmarks: datasets with their models, and the options that every experiment takes."""

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


@dataclass(frozen=True)
class Options:
    """The options of an experiment, as `dualtta run` takes them."""

    seeds: tuple[int, ...] = (2024, 2025, 2026)
    methods: tuple[str, ...] | None = None  # None: those of the experiment
    datasets: tuple[str, ...] | None = None  # None: those of the experiment
    protocol: Protocol = "paper"
    limit: int | None = None  # the maximal number of samples of a domain
    repeats: int = 1  # passes over the samples between two resets: a longer stream of the same images, marked in every output
    recipe: Mapping[str, Any] = field(default_factory=dict)  # changes to the training of source models
    batch_size: int = 64
    backbone: str | None = None  # instead of the benchmark's model
    speed: str = "safe"  # a name in `dualtta.speed.SPEEDS`
    # initial weights of training, and those of ImageNet models: the hub's, or a file below the data folder; for training also
    # "random"
    weights: str = "pretrained"
    calibration: str | None = None  # of difficulty: a file below the data folder, instead of the dataset's own
    root: Path | None = None

    @property
    def start(self) -> str:
        """The initial weights of training, as `make_source` takes them; a ValueError where the file is missing."""
        if self.weights in ("pretrained", "random"):
            return self.weights
        path = Path(self.root or ".", self.weights)
        if not path.is_file():
            raise ValueError(f"there are no weights {path}: name a file below the data folder (--root) with --weights")
        return str(path)

    def wants(self, dataset: str) -> bool:
        """Whether the options keep a dataset."""
        return self.datasets is None or dataset in self.datasets


@dataclass(frozen=True)
class Setup:
    """A dataset, a model and a scenario, before methods and seeds."""

    dataset: str
    classes: int
    model: str
    choices: dict[str, Any]
    stream: dict[str, Any]
    source: Source | None = None
    weights: str | None = None
    scenario: str = "mild"

    def cells(self, methods: Iterable[str], options: Options, **settings: Any) -> list[Cell]:
        """A cell for each method and seed, at the settings of the protocol and these."""
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
                protocol=options.protocol,
                fisher=self.fisher(METHODS[method].fisher_samples),
            )
            for seed in options.seeds
            for method in methods
        ]

    def fisher(self, samples: int) -> dict[str, Any] | None:
        """The source data on which a method's Fisher importance is estimated."""
        if not samples:
            return None
        if self.source is not None:
            choices = dict(self.source.choices)
            domains = choices.pop("domains", None)
            return {"dataset": self.source.dataset, "choices": choices, "domains": domains, "samples": samples}
        if self.dataset in CLEAN_DATA:
            return {"dataset": CLEAN_DATA[self.dataset], "choices": {}, "domains": None, "samples": samples}
        return None


IMAGENET_C, CIFAR10_C = "imagenet_c", "cifar10_c"
IMAGENET_STRESS, IMAGENET_CCC = "imagenet_stress", "imagenet_ccc"
# clean images for a Fisher importance, of datasets whose models are not trained here
CLEAN_DATA = dict.fromkeys((IMAGENET_C, IMAGENET_STRESS, IMAGENET_CCC), "imagenet")


@cache
def content_hash(root: Path | None, weights: str | None) -> str:
    """A hash of a weights file, so that another file is another cell; `validate` reports missing files."""
    if weights is None or weights == "pretrained":
        return weights or ""
    path = Path(root, weights) if root else Path(weights)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing"


def colored_mnist(options: Options) -> list[Setup]:
    """ColoredMNIST, test environment, ResNet-18 trained from ImageNet weights, as the recipe of DeYO does."""
    model = options.backbone or "resnet18"
    source = make_source("colored_mnist", model, choices={"split": "train"}, weights=options.start, **options.recipe)
    return [Setup("colored_mnist", 2, model, {"split": "test"}, {}, source)]


def waterbirds(options: Options) -> list[Setup]:
    """Waterbirds, test split."""
    model = options.backbone or "resnet50"
    source = make_source("waterbirds", model, choices={"split": "train"}, weights=options.start, **options.recipe)
    return [Setup("waterbirds", 2, model, {"split": "test"}, {}, source)]


def pairs(dataset: str, classes: int, domains: Iterable[str], options: Options) -> list[Setup]:
    """All pairs of one source domain and another domain as the target."""
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
    """PACS, twelve pairs of domains."""
    return pairs("pacs", len(PACS.classes), PACS.domains, options)


def office_home(options: Options) -> list[Setup]:
    """Office-Home, twelve pairs of domains."""
    return pairs("office_home", len(OFFICE_HOME.classes), OFFICE_HOME.domains, options)


BACKBONES = ("resnet50", "resnet50_gn", "vit_base_patch16_224")


def imagenet(options: Options, corruptions: Iterable[str] = CORRUPTIONS, scenario: str = "mild") -> list[Setup]:
    """Each corruption at severity 5 on each backbone; all together where the scenario mixes them."""
    sets = [list(corruptions)] if "mixed" in scenario else [[name] for name in corruptions]
    return [
        Setup(IMAGENET_C, 1000, model, {"corruptions": c, "severities": [5]}, {}, None, options.weights, scenario)
        for model in ([options.backbone] if options.backbone else BACKBONES)
        for c in sets
    ]


CIFAR_NETS = ("resnet26_gn", "vit_small_cifar")  # GroupNorm and LayerNorm: samples are independent


def cifar(options: Options, corruptions: Iterable[str] = CORRUPTIONS, scenario: str = "mild") -> list[Setup]:
    """Each corruption of CIFAR-10-C at severity 5 on nets trained on CIFAR-10; all together in mixed and continual
    scenarios."""
    together = "mixed" in scenario or "continual" in scenario
    sets = [list(corruptions)] if together else [[name] for name in corruptions]
    return [
        Setup(CIFAR10_C, len(CIFAR10.classes), model, {"corruptions": c, "severities": [5]}, {}, source, scenario=scenario)
        for model in ([options.backbone] if options.backbone else CIFAR_NETS)
        for source in [make_source("cifar10", model, choices={"split": "train"}, **options.recipe)]
        for c in sets
    ]


def any_model(kind: str, options: Options) -> list[Setup]:
    """Setups for a model of one's own, on those of the datasets imagenet_KIND, folder_KIND, cifar10_KIND and digits_KIND that
    the options name; by default the first."""
    bases = {"imagenet": _pretrained, "folder": _of_a_file, "cifar10": _trained, "digits": _trained}
    wanted = options.datasets or (f"imagenet_{kind}",)
    return [make(f"{base}_{kind}", base, options) for base, make in bases.items() if f"{base}_{kind}" in wanted]


def _pretrained(name: str, base: str, options: Options) -> Setup:
    return Setup(name, 1000, options.backbone or "resnet50", {}, {}, None, options.weights)


def _of_a_file(name: str, base: str, options: Options) -> Setup:
    """A model whose classes are those of a folder."""
    if options.backbone is None or options.weights == "pretrained":
        raise ValueError(f"{name} needs your model: name it with --backbone, and its file with --weights")
    return Setup(name, 2, options.backbone, {}, {}, None, options.weights)


def _trained(name: str, base: str, options: Options) -> Setup:
    """A net that is trained on the clean images, unless --weights names a file; both datasets have ten classes."""
    model = options.backbone or {"cifar10": CIFAR_NETS[0], "digits": "resnet_tiny"}[base]
    if options.weights != "pretrained":
        return Setup(name, 10, model, {}, {}, None, options.weights)
    return Setup(name, 10, model, {}, {}, make_source(base, model, choices={"split": "train"}, **options.recipe))


BENCHMARKS: dict[str, Callable[[Options], list[Setup]]] = {
    "colored_mnist": colored_mnist,
    "waterbirds": waterbirds,
    "pacs": pacs,
    "office_home": office_home,
}


def wanted(options: Options, *names: str) -> list[Setup]:
    """The setups of these benchmarks, without datasets that the options leave out."""
    return [setup for name in names if options.wants(name) for setup in BENCHMARKS[name](options)]
