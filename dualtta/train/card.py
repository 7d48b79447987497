"""Model cards: the data, settings, accuracy and versions of a trained source model."""

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dualtta import __version__
from dualtta.train.images import Images
from dualtta.train.split import SourceSplit
from dualtta.train.training import Trainer
from dualtta.zoo.checkpoint import file_hash

FORMAT = 1
MODEL, CARD = "model.safetensors", "card.json"


def make_card(
    key: str, settings: dict[str, Any], split: SourceSplit, trainer: Trainer, train: Images, tested: dict[str, Images]
) -> dict[str, Any]:
    """The card, without the hash of the weights, which are written later."""
    validation = trainer.history[trainer.best_epoch - 1]["validation"]
    accuracy: dict[str, Any] = {"train": scores(trainer, Images(train.dataset, train.preprocess, "none", train.cached))}
    if validation is not None:
        images = len(split.validation or ())
        accuracy["validation"] = {"images": images, "accuracy": validation, "from": split.validation_source}
    return {
        "format": FORMAT,
        "key": key,
        "model": settings["model"],
        "classes": list(train.dataset.classes),
        "preprocess": train.preprocess.about(),
        "source": settings,
        "data": {**split.about, "validation": split.validation_source, "kept_in_memory": train.cached is not None},
        "sampled": settings["limit"] is not None,
        "accuracy": accuracy | {name: scores(trainer, data) for name, data in tested.items()},
        "epoch": trainer.best_epoch,
        "chosen": "best on the validation images" if trainer.recipe.keep == "best" else "the last epoch",
        "history": trainer.history,
        "seconds": round(trainer.seconds, 2),
        "device": torch.cuda.get_device_name(trainer.device) if trainer.device.type == "cuda" else trainer.device.type,
        "threads": torch.get_num_threads(),  # results on a CPU depend on it in the last bits
        "precision": "bfloat16 autocast" if trainer.device.type == "cuda" else "float32",
        "versions": {"dualtta": __version__, "python": platform.python_version()}
        | {name: version(name) for name in ("torch", "torchvision", "timm", "numpy", "pillow")},
    }


def scores(trainer: Trainer, images: Images) -> dict[str, Any]:
    """Number of images and accuracy; accuracy per group and of the worst group where the dataset has groups."""
    data = images.dataset
    right = torch.cat(list(trainer.predictions(images))).numpy() == data.labels
    found: dict[str, Any] = {"images": len(data), "accuracy": float(right.mean())}
    groups = {name: right[data.group == number] for number, name in enumerate(data.groups)}
    if by_group := {name: float(np.mean(values)) for name, values in groups.items() if len(values)}:
        found |= {"groups": by_group, "worst_group": min(by_group.values())}
    return found


def read_card(folder: Path) -> dict[str, Any]:
    """Read the card in a folder, and check that it belongs to the weights beside it."""
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
        version_of_card, weights_hash = card["format"], card["weights"]["sha256"]
    except FileNotFoundError as error:
        raise ValueError(f"{folder} holds no trained source model: there is no {CARD}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / CARD} is damaged ({error}): remove it and train again") from error
    if version_of_card != FORMAT:
        raise ValueError(f"{folder / CARD} has format {version_of_card}; this version of dualtta reads format {FORMAT}")
    if not (folder / MODEL).is_file() or file_hash(folder / MODEL) != weights_hash:
        raise ValueError(f"{folder / MODEL} is missing or not the file that {CARD} describes: remove both and train again")
    return card
