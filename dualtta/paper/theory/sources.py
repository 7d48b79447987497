"""The default source model of a dataset, trained once."""

from pathlib import Path

from dualtta.train import make_source, train
from dualtta.train.recipes import DEFAULT_MODELS

CLEAN = {"digits_c": "digits", "cifar10_c": "cifar10"}  # training data of the source models for corrupted datasets


def source_model(dataset: str, model: str | None, sources: Path, root: Path | None, device: str | None) -> Path:
    """The folder of the trained model; one that `dualtta train` has made is used as it is."""
    trained_on = CLEAN.get(dataset, dataset)
    if model is None and trained_on not in DEFAULT_MODELS:
        raise ValueError(f"{dataset} has no default model: name its weights with --weights, and the model with --model")
    return train(make_source(trained_on, model), sources, root, device=device)
