"""Cells and grids. A cell is (dataset, model, method with its settings, scenario, seed); a grid runs those that have no result.

A cell's folder is named by the hash of its settings. What is done is skipped, what failed is tried again, and a kill at any
moment loses no more than the cells that were running.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.bench.presence import Presence, present
from dualtta.data.registry import DATASETS, needs_root, open_dataset
from dualtta.records import format as records
from dualtta.records.verification import verified
from dualtta.streams.scenarios import make_scenario

if TYPE_CHECKING:
    from torch import nn

    from dualtta.data.preprocess import Preprocess
    from dualtta.fisher import Fisher
    from dualtta.train import Source

WIRING = ("lr", "momentum", "layer", "statistics", "parameters")  # settings that are the adapter's, not the method's
Notice = Callable[[int, int, int], None]  # hears of every batch: its size, how many are right, samples in all


def deaf(size: int, right: int, total: int) -> None:
    """Hears nothing."""


@dataclass(frozen=True)
class Cell:
    """One run, by its settings alone: where the data lies and on what it runs is no part of it."""

    dataset: str
    model: str
    method: str
    scenario: str = "mild"
    seed: int = 2024
    choices: Mapping[str, Any] = field(default_factory=dict)  # of the dataset
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method, and lr
    stream: Mapping[str, Any] = field(default_factory=dict)  # of the scenario: batch_size, limit, domains, ...
    source: "Source | None" = None  # the training that makes the model; None: `weights`
    weights: str | None = None  # a file below the data folder, or "pretrained"; None without a source: random weights
    weights_hash: str = ""  # of that file's content
    fisher: Mapping[str, Any] | None = None  # EATA: {"dataset", "choices", "samples"} of the importances
    speed: str = "safe"  # a word of `dualtta.speed`
    stage: str = "result"  # "tuning": chooses settings, is never reported; no part of the key

    def describe(self) -> dict[str, Any]:
        """The settings as JSON could hold them."""
        return {
            "dataset": {"name": self.dataset, **self.choices},
            "model": {"name": self.model, "source": self.source.settings if self.source else None, "weights": self.weights},
            "method": {"name": self.method, **self.settings},
            "scenario": {"name": self.scenario, **self.stream},
            "fisher": dict(self.fisher) if self.fisher else None,
            "seed": self.seed,
            **({"speed": self.speed} if self.speed != "safe" else {}),
        }

    @property
    def key(self) -> str:
        """The hash of the settings: the name of the cell's folder."""
        return records.key_of(self.describe(), self.weights_hash)


@dataclass(frozen=True)
class Place:
    """Where things lie and on what they run. Results do not depend on it, up to the arithmetic of the device."""

    out: Path
    root: Path | None = None  # of the data
    device: str = "cpu"
    threads: int = 1  # of one cell on the CPU: sums are taken in another order with another number
    workers: int = 0  # that decode images for one cell
    sources: Path | None = None  # of source models; None: below `out`

    def home(self, dataset: str) -> Path | None:
        """The folder of a dataset: below the data folder by one of its names, or the data folder itself."""
        if dataset not in DATASETS or not needs_root(dataset):
            return None  # what does not exist is `open_dataset`'s to say
        if self.root is None:
            raise ValueError(f"{dataset} lies in a folder: say where your data is with --root, or set DUALTTA_DATA")
        spellings = [dataset, dataset.replace("_", "-"), dataset.replace("_", "")]
        places = [self.root / name for name in [*spellings, *HOMES.get(dataset, ())]]
        return next((place for place in places if place.is_dir()), self.root)

    def weights(self, name: str | None) -> str | Path | None:
        """A weights file below the data folder; the hub's stay as they are called."""
        return name if name in (None, "pretrained") or self.root is None else self.root / name

    def folder(self, cell: Cell) -> Path:
        return self.out / "cells" / cell.key

    @property
    def models(self) -> Path:
        return self.sources or self.out / "models"


# other names under which people keep a dataset
HOMES = {
    "imagenet_c": ("ImageNet-C", "imagenet-val", "imagenet"),
    "imagenet": ("imagenet-val", "ImageNet", "ILSVRC2012"),
    "office_home": ("OfficeHome", "OfficeHomeDataset_10072016"),
    "pacs": ("PACS",),
    "waterbirds": ("waterbird_complete95_forest2water2",),
    "cifar10_c": ("CIFAR-10-C",),
}


def compute(cell: Cell, place: Place, notice: Notice = deaf) -> records.Files:
    """Run one cell and return the files of its record; nothing is written."""
    import torch

    from dualtta.bench.evaluate import evaluate
    from dualtta.bench.provenance import provenance
    from dualtta.collapse import CollapseWarning
    from dualtta.data.loading import load
    from dualtta.methods import settings
    from dualtta.records.metrics import summarise
    from dualtta.wrap import adapt

    torch.set_num_threads(place.threads)
    begun = time.perf_counter()
    dataset = open_dataset(cell.dataset, place.home(cell.dataset), **cell.choices)
    model, preprocess, card = open_source(cell, place, len(dataset.classes))
    stream = make_scenario(cell.scenario, **cell.stream).stream(dataset, cell.seed)
    model.to(place.device)
    fisher = importances(cell, place, model, preprocess)
    adapter = adapt(model, cell.method, seed=cell.seed, fisher=fisher, speed=cell.speed, **cell.settings)
    if place.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()

    def heard(size: int, right: int) -> None:
        notice(size, right, len(stream))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the summary counts it
        run = evaluate(adapter, load(dataset, stream, preprocess, device=place.device, workers=place.workers), heard)
    rows, method = run.rows, settings(adapter.method)
    summary = summarise(rows, len(dataset.classes), dataset.domains, dataset.groups, method)
    about = {
        "version": records.VERSION,
        "key": cell.key,
        "title": title(cell),
        "stage": cell.stage,
        "cell": cell.describe(),
        "method": {**method, "name": cell.method, "lr": adapter.lr, "momentum": adapter.momentum, **adapter.wiring},
        "data": dataset.about(),
        "classes": list(dataset.classes),
        "domains": list(dataset.domains),
        "groups": list(dataset.groups),
        "subset": cell.stream.get("limit") is not None,
        "model": {"card": card, "weights_hash": cell.weights_hash, "preprocess": preprocess.about()},
        "threads": place.threads,
        "provenance": provenance(),
    }
    seconds = time.perf_counter() - begun
    cost = {
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": seconds,
        "images_per_second": len(rows["label"]) / max(run.seconds, 1e-9),
        "peak_memory_mb": peak_memory(place.device),
        "device": place.device,
    }
    return {
        "cell.json": records.to_json(about),
        "indices.npz": stream.to_bytes(),
        "rows.npz": records.to_npz(rows),
        "summary.json": records.to_json({**summary, **run.counts}),
        "done": records.to_json(cost),
    }


def open_source(cell: Cell, place: Place, classes: int) -> tuple["nn.Module", "Preprocess", dict[str, Any] | None]:
    """The cell's model with its preprocessing and, where it was trained here, its card."""
    import torch

    from dualtta.train import load_source
    from dualtta.zoo.registry import open_model

    if cell.source is not None:
        return load_source(place.models / cell.source.key)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.seed)
        model, preprocess = open_model(cell.model, classes, place.weights(cell.weights))
    return model, preprocess, None


def importances(cell: Cell, place: Place, model: "nn.Module", preprocess: "Preprocess") -> "Fisher | None":
    """EATA's Fisher importances on source data, estimated once and kept beside the models."""
    if cell.fisher is None:
        return None
    from dualtta.data.loading import load
    from dualtta.fisher import estimate_fisher

    name, choices, samples = (cell.fisher[key] for key in ("dataset", "choices", "samples"))
    dataset = open_dataset(name, place.home(name), **choices)
    stream = make_scenario("mixed", limit=samples, domains=cell.fisher.get("domains")).stream(dataset, seed=0)
    origin = f"{len(stream)} of {name} {json.dumps({**cell.fisher, 'choices': choices}, sort_keys=True)}"
    model_key = cell.source.key if cell.source else cell.weights_hash or "random"
    cache = place.models / f"fisher-{hashlib.sha256(f'{model_key} {origin}'.encode()).hexdigest()[:16]}.safetensors"
    place.models.mkdir(parents=True, exist_ok=True)
    batches = (batch.x for batch in load(dataset, stream, preprocess, device=place.device, workers=place.workers))
    return estimate_fisher(model, batches, origin=origin, cache=cache, progress=False)


def peak_memory(device: str) -> float:
    """Megabytes: of the GPU where it is used, else of this process."""
    import resource

    import torch

    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def run_cell(cell: Cell, place: Place, notice: Notice = deaf) -> str:
    """Compute and store a cell; returns the reason where it failed, and leaves it in the folder."""
    folder = place.folder(cell)
    try:
        with present(place.out, Presence("cell", cell.key, title(cell))):
            records.store(folder, compute(cell, place, notice))
    except Exception as error:  # whatever a model, a dataset or the disk may raise: the other cells go on
        return note_failure(folder, error)
    return ""


def run_source(source: "Source", place: Place) -> str:
    """Train a source model; returns the reason where it failed."""
    import torch

    from dualtta.train import train

    torch.set_num_threads(place.threads)
    try:
        with present(place.out, Presence("training", source.key, title(source))):
            train(source, place.models, place.home(source.dataset), device=place.device, progress=False)
    except Exception as error:  # its cells will say so too
        return reason_of(error)
    return ""


def reason_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def note_failure(folder: Path, error: BaseException) -> str:
    with suppress(OSError):  # the disk may be what failed
        records.fail(folder, reason_of(error))
    return reason_of(error)


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """Each cell once, in order."""
    return list({cell.key: cell for cell in cells}.values())


def pending(cells: Iterable[Cell], place: Place) -> list[Cell]:
    """Those without a result, or with one that cannot be believed."""
    return [cell for cell in distinct(cells) if verified(place.folder(cell)) is None]


def sources(cells: Iterable[Cell], place: Place) -> list["Source"]:
    """The source models that have to be trained first."""
    from dualtta.train.card import CARD

    wanted = {cell.source.key: cell.source for cell in cells if cell.source is not None}
    return [source for source in wanted.values() if not (place.models / source.key / CARD).is_file()]


def title(task: "Cell | Source") -> str:
    """One line for people."""
    if not isinstance(task, Cell):
        which = "+".join(task.choices.get("domains", ()))
        return f"train {task.model} on {task.dataset}{' ' + which if which else ''}"
    parts = [*task.choices.get("corruptions", ()), *(task.stream.get("domains") or ())]
    trained = f" from {'+'.join(task.source.choices['domains'])}" if task.source and task.source.choices.get("domains") else ""
    what = f"{task.dataset} {'+'.join(parts)}".strip() + trained
    settings = ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in task.settings.items()
    )
    return f"{task.method}({settings}) on {what}, {task.model}, {task.scenario}, seed {task.seed}"
