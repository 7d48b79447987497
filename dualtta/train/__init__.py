"""Source models: what a model is before it adapts, named by all that made it, trained once and kept with its card.

source = make_source("colored_mnist", seed=2024)
folder = train(source, "sources", root="data")          # sources/<key>/model.safetensors and card.json
model, preprocess, card = load_source(folder)
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dualtta import state
from dualtta.data.preprocess import PREPROCESS, Preprocess
from dualtta.data.registry import DATASETS, needs_root
from dualtta.data.registry import settings as settings_of
from dualtta.device import pick_device
from dualtta.files import alone, write_bytes
from dualtta.plugins import nearest
from dualtta.train.card import CARD, FORMAT, MODEL, make_card, read_card
from dualtta.train.images import Images
from dualtta.train.parts import Parts, open_parts, open_split
from dualtta.train.progress import watching
from dualtta.train.recipes import USUAL, Recipe, recipe_for
from dualtta.train.training import Fit, own_randomness
from dualtta.zoo.checkpoint import file_hash, put_weights, read_weights
from dualtta.zoo.registry import PRETRAINED, find_model, open_model

KIND = "dualtta-source"
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Source:
    """All that decides what a source model becomes.

    choices: settings of the dataset, such as `split`, and `domains`, the ones to train on.
    weights: what it starts from: None (random), "pretrained" (the hub's), or a file.
    limit: at most so many images of the source, drawn by the seed.
    """

    dataset: str
    model: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    weights: str | Path | None = None
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"a seed is a whole number from 0 to {2**32 - 1}, not {self.seed}")
        if self.limit is not None and self.limit < 2:
            raise ValueError(f"limit must be a whole number of at least 2, not {self.limit!r}")

    @property
    def settings(self) -> dict[str, Any]:
        """As JSON holds them. A weights file counts by its content: where it lies changes nothing."""
        start = self.weights
        if start not in (None, PRETRAINED):
            if not Path(str(start)).expanduser().is_file():
                raise ValueError(f"there is no weights file {start}")
            start = f"sha256:{file_hash(str(start))}"
        settings = {**asdict(self), "weights": start, "choices": dict(self.choices)}
        return json.loads(json.dumps(settings))  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        """Names the source model: the same settings, the same key."""
        return hashlib.sha256(json.dumps([FORMAT, self.settings], sort_keys=True).encode()).hexdigest()[:16]


def make_source(
    dataset: str,
    model: str | None = None,
    *,
    weights: str | Path | None = None,
    choices: Mapping[str, Any] | None = None,
    seed: int = 0,
    limit: int | None = None,
    **recipe: Any,
) -> Source:
    """A dataset's usual source model, with changes. `weights`: "random", "pretrained", a file; None: the dataset's usual.

    >>> make_source("colored_mnist").model
    'resnet18'
    >>> make_source("pacs", "resnet_tiny").weights is None
    True
    """
    if dataset not in DATASETS:
        raise ValueError(f"there is no dataset {dataset!r}; {nearest(dataset, DATASETS)}")
    usual, usual_weights = USUAL.get(dataset, (None, None))
    chosen = model or usual
    if chosen is None:
        raise ValueError(f"no model is usual for {dataset}: name one")
    published = find_model(chosen).tag is not None
    if weights is None:
        weights = usual_weights if published else "random"
    start = None if weights == "random" else weights
    part = dict(choices or {})
    if "split" in settings_of(dataset):
        part.setdefault("split", "train")  # said or not, it is the same model
    return Source(dataset, chosen, part, start, recipe_for(dataset, chosen, **recipe), seed, limit)


def train(
    source: Source, folder: str | Path, root: str | Path | None = None, *, device: str | None = None, progress: bool = True
) -> Path:
    """Train a source model, or go on with it, or return at once where it is done. Returns the folder that holds it."""
    home = Path(folder).expanduser() / source.key
    if root is None and needs_root(source.dataset) and (home / CARD).is_file():
        read_card(home)  # done, and nothing here to compare its images with
        return home
    parts = open_parts(source.dataset, root, source.choices, source.recipe, seed=source.seed, limit=source.limit)
    if is_done(home, parts):
        return home
    place = pick_device(device)
    with own_randomness():
        torch.manual_seed(source.seed)
        model, preprocess = open_model(source.model, len(parts.train.classes), source.weights, new_head=True)
    if source.recipe.preprocess is not None:
        preprocess = PREPROCESS[source.recipe.preprocess]
    splits = {name: open_split(source.dataset, root, source.choices, name) for name in source.recipe.reports}
    home.mkdir(parents=True, exist_ok=True)
    with alone(home):
        if is_done(home, parts):  # by whoever was here before us
            return home
        images = Images.of(parts.train, preprocess, source.recipe.augment)
        validation = None if parts.validation is None else Images.of(parts.validation, preprocess)
        fit = Fit(model, source.recipe, source.seed, place)
        with watching(f"{source.model} on {source.dataset}", progress) as announce:
            fit.run(images, validation, home / CHECKPOINT, {"key": source.key, "data": parts.about}, announce)
        tested = {name: Images.of(data, preprocess) for name, data in splits.items()}
        card = make_card(source.key, source.settings, parts, fit, images, tested)
        state.write(home / MODEL, KIND, fit.weights(), {"model": source.model, "key": source.key})
        card["weights"] = {"file": MODEL, "sha256": file_hash(home / MODEL)}
        write_bytes(home / CARD, (json.dumps(card, indent=2) + "\n").encode())  # last: the card says that all is there
        (home / CHECKPOINT).unlink(missing_ok=True)
    return home


def is_done(home: Path, parts: Parts) -> bool:
    """Whether a folder holds the finished model of these images; a ValueError where it is that of others."""
    if not (home / CARD).is_file():
        return False
    data = read_card(home)["data"]
    if data["labels"] != parts.about["labels"]:
        there, here = data["train_images"], parts.about["train_images"]
        raise ValueError(
            f"{home} was trained on other images of this name ({there}; here are {here}): give another folder, or remove it"
        )
    return True


def load_source(path: str | Path) -> tuple[nn.Module, Preprocess, dict[str, Any]]:
    """The model, in evaluation mode, its preprocessing and its card, from the folder that `train` returned."""
    home = Path(path).expanduser()
    home = home.parent if home.is_file() else home
    card = read_card(home)
    spec = find_model(card["model"])
    with own_randomness():
        model = spec.build(len(card["classes"]))
    put_weights(model, read_weights(home / MODEL), spec.head, of=str(home / MODEL))
    values = card["preprocess"]
    return model.eval(), Preprocess(**{**values, "mean": tuple(values["mean"]), "std": tuple(values["std"])}), card
