"""Model cards: what a source model was trained on, with what, and how well."""

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dualtta import __version__
from dualtta.train.images import Images
from dualtta.train.parts import Parts
from dualtta.train.training import Fit
from dualtta.zoo.checkpoint import file_hash

FORMAT = 1
MODEL, CARD = "model.safetensors", "card.json"


def make_card(
    key: str, settings: dict[str, Any], parts: Parts, fit: Fit, train: Images, tested: dict[str, Images]
) -> dict[str, Any]:
    """All of the card but the hash of the weights, which are not written yet."""
    validation = fit.history[fit.best_epoch - 1]["validation"]
    accuracy: dict[str, Any] = {"train": scores(fit, Images(train.dataset, train.preprocess, "none", train.cached))}
    if validation is not None:
        accuracy["validation"] = {"images": len(parts.validation or ()), "accuracy": validation, "from": parts.words}
    return {
        "format": FORMAT,
        "key": key,
        "model": settings["model"],
        "classes": list(train.dataset.classes),
        "preprocess": train.preprocess.about(),
        "source": settings,
        "data": {**parts.about, "validation": parts.words, "kept_in_memory": train.cached is not None},
        "sampled": settings["limit"] is not None,
        "accuracy": accuracy | {name: scores(fit, images) for name, images in tested.items()},
        "epoch": fit.best_epoch,
        "chosen": "best on the validation images" if fit.recipe.keep == "best" else "the last epoch",
        "history": fit.history,
        "seconds": round(fit.seconds, 2),
        "device": torch.cuda.get_device_name(fit.device) if fit.device.type == "cuda" else fit.device.type,
        "threads": torch.get_num_threads(),  # on a CPU the last bits depend on it
        "precision": "bfloat16 autocast" if fit.device.type == "cuda" else "float32",
        "versions": {"dualtta": __version__, "python": platform.python_version()}
        | {name: version(name) for name in ("torch", "torchvision", "timm", "numpy", "pillow")},
    }


def scores(fit: Fit, images: Images) -> dict[str, Any]:
    """Accuracy, and by group where the dataset has groups."""
    data = images.dataset
    right = torch.cat(list(fit.predictions(images))).numpy() == data.labels
    found: dict[str, Any] = {"images": len(data), "accuracy": float(right.mean())}
    groups = {name: right[data.group == number] for number, name in enumerate(data.groups)}
    if by_group := {name: float(np.mean(values)) for name, values in groups.items() if len(values)}:
        found |= {"groups": by_group, "worst_group": min(by_group.values())}
    return found


def read_card(folder: Path) -> dict[str, Any]:
    """The card in a folder; a ValueError where it is damaged or does not belong to the weights beside it."""
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
        known, named = card["format"], card["weights"]["sha256"]
    except FileNotFoundError as error:
        raise ValueError(f"{folder} holds no trained source model: it lacks {CARD}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / CARD} is damaged ({error}): remove it and train again") from error
    if known != FORMAT:
        raise ValueError(f"{folder / CARD} has format {known}; this version of dualtta reads format {FORMAT}")
    if not (folder / MODEL).is_file() or file_hash(folder / MODEL) != named:
        raise ValueError(f"{folder / MODEL} is missing or not the file that {CARD} describes: remove both and train again")
    return card
