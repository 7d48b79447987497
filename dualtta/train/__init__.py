"""Training of source models: each is saved with a model card in a folder named by a hash of its settings.

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
from dualtta.files import exclusive, write_bytes
from dualtta.plugins import nearest
from dualtta.progress import progress as progress_bar
from dualtta.train.card import CARD, FORMAT, MODEL, make_card, read_card
from dualtta.train.images import Images
from dualtta.train.recipes import DEFAULT_MODELS, Recipe, recipe_for
from dualtta.train.split import SourceSplit, open_split, split_source
from dualtta.train.training import Trainer, preserved_random_state
from dualtta.zoo.checkpoint import file_hash, load_weights, read_weights
from dualtta.zoo.registry import PRETRAINED, find_model, open_model

KIND = "dualtta-source"
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Source:
    """The settings of a source model. Its `key` is a hash of all of them.

    choices: settings of the dataset, such as `split`, and `domains`, the domains to train on.
    weights: initial weights: None (random), "pretrained" (from the Hugging Face hub), or a file.
    limit: train on at most this many images, drawn by the seed.
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
        """The settings as JSON values. A weights file stands as the hash of its content, so that its path does not matter."""
        start = self.weights
        if start not in (None, PRETRAINED):
            if not Path(str(start)).expanduser().is_file():
                raise ValueError(f"there is no weights file {start}")
            start = f"sha256:{file_hash(str(start))}"
        settings = {**asdict(self), "weights": start, "choices": dict(self.choices)}
        return json.loads(json.dumps(settings))  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        """A hash of the settings; the name of the model's folder."""
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
    """The default source model of a dataset, with changes.

    Args:
        dataset: a name in `dualtta.data.DATASETS`.
        model: a model's name; default: the dataset's, see `recipes.DEFAULT_MODELS`.
        weights: "random", "pretrained" or a file; default: the dataset's.
        choices: settings of the dataset, and `domains`, the domains to train on.
        seed: of the initial weights, the order of the images and the held-out images.
        limit: train on at most this many images.
        **recipe: changes of the recipe, such as `epochs=5`.

    >>> make_source("colored_mnist").model
    'resnet18'
    >>> make_source("pacs", "resnet_tiny").weights is None
    True
    """
    if dataset not in DATASETS:
        raise ValueError(f"there is no dataset {dataset!r}; {nearest(dataset, DATASETS)}")
    default, default_weights = DEFAULT_MODELS.get(dataset, (None, None))
    chosen = model or default
    if chosen is None:
        raise ValueError(f"{dataset} has no default model: name one")
    published = find_model(chosen).tag is not None
    if weights is None:
        weights = default_weights if published else "random"
    start = None if weights == "random" else weights
    part = dict(choices or {})
    if "split" in settings_of(dataset):
        part.setdefault("split", "train")  # the default, written out so that both have the same key
    return Source(dataset, chosen, part, start, recipe_for(dataset, chosen, **recipe), seed, limit)


def train(
    source: Source, folder: str | Path, root: str | Path | None = None, *, device: str | None = None, progress: bool = True
) -> Path:
    """Train a source model and return its folder. An interrupted training is resumed; a finished one is not repeated.

    Args:
        source: the settings of the model.
        folder: where source models are saved; this one goes to `folder / source.key`.
        root: the dataset's folder.
        device: default: the first GPU, or the CPU.
        progress: show a progress bar on a terminal.
    """
    home = Path(folder).expanduser() / source.key
    if root is None and needs_root(source.dataset) and (home / CARD).is_file():
        read_card(home)  # finished; without the images there is nothing to compare
        return home
    split = split_source(source.dataset, root, source.choices, source.recipe, seed=source.seed, limit=source.limit)
    if is_done(home, split):
        return home
    place = pick_device(device)
    with preserved_random_state():
        torch.manual_seed(source.seed)
        model, preprocess = open_model(source.model, len(split.train.classes), source.weights, new_head=True)
    if source.recipe.preprocess is not None:
        preprocess = PREPROCESS[source.recipe.preprocess]
    reported = {name: open_split(source.dataset, root, source.choices, name) for name in source.recipe.reports}
    home.mkdir(parents=True, exist_ok=True)
    with exclusive(home):
        if is_done(home, split):  # another process has trained it meanwhile
            return home
        images = Images.of(split.train, preprocess, source.recipe.augment)
        validation = None if split.validation is None else Images.of(split.validation, preprocess)
        trainer = Trainer(model, source.recipe, source.seed, place)
        with progress_bar(f"{source.model} on {source.dataset}", shown=progress) as bar:
            about = {"key": source.key, "data": split.about}
            trainer.run(images, validation, home / CHECKPOINT, about, lambda now: bar(now.done, now.total, now.note))
        tested = {name: Images.of(data, preprocess) for name, data in reported.items()}
        card = make_card(source.key, source.settings, split, trainer, images, tested)
        state.write(home / MODEL, KIND, trainer.weights(), {"model": source.model, "key": source.key})
        card["weights"] = {"file": MODEL, "sha256": file_hash(home / MODEL)}
        write_bytes(home / CARD, (json.dumps(card, indent=2) + "\n").encode())  # last: the card marks the end
        (home / CHECKPOINT).unlink(missing_ok=True)
    return home


def is_done(home: Path, split: SourceSplit) -> bool:
    """Whether the folder holds the finished model; a ValueError if it was trained on other images."""
    if not (home / CARD).is_file():
        return False
    data = read_card(home)["data"]
    if data["labels"] != split.about["labels"]:
        there, here = data["train_images"], split.about["train_images"]
        raise ValueError(
            f"the model in {home} was trained on other images ({there}, not {here}): give another folder, or remove it"
        )
    return True


def load_source(path: str | Path) -> tuple[nn.Module, Preprocess, dict[str, Any]]:
    """Load a model in evaluation mode, its preprocessing and its card from the folder that `train` returned."""
    home = Path(path).expanduser()
    home = home.parent if home.is_file() else home
    card = read_card(home)
    spec = find_model(card["model"])
    with preserved_random_state():
        model = spec.build(len(card["classes"]))
    load_weights(model, read_weights(home / MODEL), spec.head, of=str(home / MODEL))
    values = card["preprocess"]
    return model.eval(), Preprocess(**{**values, "mean": tuple(values["mean"]), "std": tuple(values["std"])}), card
