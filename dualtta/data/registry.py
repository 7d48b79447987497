"""Datasets by name. Other packages register theirs by the entry point `dualtta.datasets`."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualtta.data.datasets.base import Dataset
from dualtta.data.datasets.ccc import cifar10_ccc, digits_ccc, folder_ccc, imagenet_ccc
from dualtta.data.datasets.cifar import Cifar10, cifar10_c
from dualtta.data.datasets.colored_mnist import ColoredMnist
from dualtta.data.datasets.digits import ColoredDigits, Digits, digits_c
from dualtta.data.datasets.folders import Folder, OfficeHome, Pacs
from dualtta.data.datasets.imagenet import ImageNet, imagenet_c
from dualtta.data.datasets.stress import cifar10_stress, digits_stress, folder_stress, imagenet_stress
from dualtta.data.datasets.waterbirds import Waterbirds
from dualtta.plugins import Registry, nearest

DATASETS: Registry[Callable[..., Dataset]] = Registry(
    "dataset",
    lambda found: bool(inspect.signature(found)),  # its settings are read from it
    {
        "colored_mnist": ColoredMnist,
        "waterbirds": Waterbirds,
        "pacs": Pacs,
        "office_home": OfficeHome,
        "imagenet": ImageNet,
        "imagenet_c": imagenet_c,
        "cifar10": Cifar10,
        "cifar10_c": cifar10_c,
        "digits": Digits,
        "digits_c": digits_c,
        "colored_digits": ColoredDigits,
        "folder": Folder,
        "imagenet_stress": imagenet_stress,
        "cifar10_stress": cifar10_stress,
        "digits_stress": digits_stress,
        "folder_stress": folder_stress,
        "imagenet_ccc": imagenet_ccc,
        "cifar10_ccc": cifar10_ccc,
        "digits_ccc": digits_ccc,
        "folder_ccc": folder_ccc,
    },
)


def open_dataset(name: str, root: str | Path | None = None, **choices: Any) -> Dataset:
    """Open a dataset by its name.

    Args:
        name: A key of `DATASETS`.
        root: The folder that holds it; not needed for datasets that are part of a package.
        choices: Settings of the dataset, such as split="train".

    >>> open_dataset("pac", "somewhere")
    Traceback (most recent call last):
    ...
    ValueError: there is no dataset 'pac'; did you mean 'pacs'?
    >>> open_dataset("pacs", "somewhere", spilt="test")
    Traceback (most recent call last):
    ...
    ValueError: pacs has no setting 'spilt'; it has none
    """
    if name not in DATASETS:
        raise ValueError(f"there is no dataset {name!r}; {nearest(name, DATASETS)}")
    known = settings(name)
    for key in choices:
        if key not in known:
            raise ValueError(f"{name} has no setting {key!r}; {nearest(key, known) if known else 'it has none'}")
    if root is None and needs_root(name):
        raise ValueError(f"{name} needs the folder that holds it: pass it as the second argument")
    data = DATASETS[name](**choices) if root is None else DATASETS[name](root, **choices)
    if not len(data):
        raise ValueError(f"{name}{f' in {root}' if root is not None else ''} has no images of {', '.join(data.domains)}")
    return data


def settings(name: str) -> dict[str, Any]:
    """The settings of a dataset, with their defaults."""
    parameters = inspect.signature(DATASETS[name]).parameters.values()
    return {p.name: p.default for p in parameters if p.name != "root" and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


def needs_root(name: str) -> bool:
    """Whether a dataset must be given its folder."""
    root = inspect.signature(DATASETS[name]).parameters.get("root")
    return root is not None and root.default is root.empty
