"""Datasets, corruptions, preprocessing and loading. Nothing here depends on a model or a method."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.data.datasets.base import Dataset
    from dualtta.data.datasets.corrupted import Corrupted
    from dualtta.data.loading import Batch, load
    from dualtta.data.preprocess import Preprocess
    from dualtta.data.registry import DATASETS, open_dataset

# Imported on first use, so that `dualtta data --help` does not import torch.
_MODULES = {
    "Batch": "loading",
    "Corrupted": "datasets.corrupted",
    "DATASETS": "registry",
    "Dataset": "datasets.base",
    "Preprocess": "preprocess",
    "load": "loading",
    "open_dataset": "registry",
}

__all__ = ["DATASETS", "Batch", "Corrupted", "Dataset", "Preprocess", "load", "open_dataset"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'dualtta.data' has no attribute {name!r}")
    return getattr(import_module(f"dualtta.data.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
