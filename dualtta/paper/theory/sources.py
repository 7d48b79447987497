"""The source model that meets a dataset when nobody names one: the usual one, trained here once."""

from pathlib import Path

from dualtta.train import make_source, train
from dualtta.train.recipes import DEFAULT_MODELS

CLEAN = {"digits_c": "digits", "cifar10_c": "cifar10"}  # what a corrupted dataset's source model is trained on


def source_model(dataset: str, model: str | None, sources: Path, root: Path | None, device: str | None) -> Path:
    """The folder of the trained model; what `dualtta train` has made already is found, not made again."""
    trained_on = CLEAN.get(dataset, dataset)
    if model is None and trained_on not in DEFAULT_MODELS:
        raise ValueError(f"no model is usual for {dataset}: name its weights with --weights, and the model with --model")
    return train(make_source(trained_on, model), sources, root, device=device)
