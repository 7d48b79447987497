"""Training and validation images of a source model."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.data.datasets.base import Dataset, Rows
from dualtta.data.registry import DATASETS, open_dataset
from dualtta.data.registry import settings as settings_of
from dualtta.plugins import nearest
from dualtta.train.recipes import Recipe


@dataclass(frozen=True)
class SourceSplit:
    """A dataset's source images, split into training and validation images, with their description for the model card."""

    train: Dataset
    validation: Dataset | None
    validation_source: str  # where the validation images come from, in words
    about: dict[str, Any]  # the `data` entry of the model card


def split_source(
    dataset: str,
    root: str | Path | None = None,
    choices: Mapping[str, Any] | None = None,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    limit: int | None = None,
) -> SourceSplit:
    """Open a dataset and split it into training and validation images.

    Args:
        dataset: a name in `dualtta.data.DATASETS`.
        root: the dataset's folder.
        choices: settings of the dataset, and `domains`, the domains to train on.
        recipe: its `validation` names the validation split, or `holdout` the share of the source to hold out.
        seed: of the images that are held out or drawn by `limit`.
        limit: use at most this many images.
    """
    recipe, choices = recipe or Recipe(), dict(choices or {})
    whole = open_split(dataset, root, choices)
    rows = np.random.default_rng([seed, 0]).permutation(len(whole))[:limit]
    validation: Dataset | None = None
    origin = "none: all of the source is trained on"
    if recipe.validation is not None:
        other = open_split(dataset, root, choices, recipe.validation)
        some = np.random.default_rng([seed, 1]).permutation(len(other))[:limit]  # the first of a sorted list are of one class
        validation, origin = Rows(other, np.sort(some)), f"the split {recipe.validation!r}"
    elif recipe.holdout > 0:
        count = max(1, round(len(rows) * recipe.holdout))
        validation, rows = Rows(whole, np.sort(rows[:count])), rows[count:]
        origin = f"held out: {recipe.holdout:.0%} of the source, drawn by the seed; the dataset has no validation split"
    if len(rows) < 2:
        raise ValueError(f"{len(rows)} images of {dataset} are left to train on: choose more domains or a higher limit")
    train = Rows(whole, np.sort(rows))
    digest = hashlib.sha256(json.dumps([whole.classes, train.labels.tolist()]).encode()).hexdigest()[:16]
    about = {**whole.about(), "domains": list(whole.domains), "classes": list(whole.classes)}
    return SourceSplit(train, validation, origin, {**about, "train_images": len(train), "labels": digest})


def open_split(dataset: str, root: str | Path | None, choices: Mapping[str, Any], split: str | None = None) -> Dataset:
    """One split of a dataset (default: the training split), restricted to the chosen `domains`."""
    settings = dict(choices)
    wanted = settings.pop("domains", None)
    if dataset in DATASETS and "split" in settings_of(dataset):
        settings["split"] = split or settings.get("split", "train")
    data = open_dataset(dataset, root, **settings)
    if wanted is None or (split is not None and not set(_names(wanted)) <= set(data.domains)):
        return data  # the domains of this dataset are its splits, so other splits have other domains
    for domain in _names(wanted):
        if domain not in data.domains:
            raise ValueError(f"{dataset} has no domain {domain!r}; {nearest(domain, data.domains)}")
    numbers = sorted(data.domains.index(domain) for domain in set(_names(wanted)))
    rows = np.flatnonzero(np.isin(data.domain, numbers))
    if not len(rows):
        raise ValueError(f"there are no images of {', '.join(_names(wanted))}")
    return Rows(data, rows, np.searchsorted(numbers, data.domain[rows]), [data.domains[number] for number in numbers])


def _names(domains: Any) -> list[str]:
    return [domains] if isinstance(domains, str) else list(domains)
