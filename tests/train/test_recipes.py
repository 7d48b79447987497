"""Recipes: the published settings, and what is rejected."""

import pytest

from dualtta.train import make_source
from dualtta.train.recipes import DEFAULT_MODELS, RECIPES, recipe_for
from dualtta.train.split import split_source
from dualtta.zoo.registry import MODELS


def test_colored_mnist_is_trained_exactly_as_published():
    source = make_source("colored_mnist")
    assert (source.model, source.weights) == ("resnet18", "pretrained")
    assert make_source("colored_mnist", weights="random").weights is None
    r = source.recipe
    assert (r.optimizer, r.lr, r.momentum, r.weight_decay, r.batch_size, r.epochs) == ("sgd", 1e-3, 0.9, 1e-4, 64, 20)
    assert (r.augment, r.schedule, r.keep, r.holdout, r.preprocess) == ("none", "constant", "last", 0.0, "colored_mnist")
    split = split_source("colored_digits", recipe=r)
    assert split.validation is None
    assert split.train.domains == ("flip20", "flip10")


def test_every_default_model_has_a_recipe_and_is_registered():
    for dataset, (model, weights) in DEFAULT_MODELS.items():
        assert model in MODELS
        assert dataset in RECIPES
        assert weights != "pretrained" or MODELS[model].tag
    assert recipe_for("cifar10", "resnet26_gn").optimizer == "sgd"
    assert recipe_for("waterbirds", "resnet50").validation == "val"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"lr": 0.0}, "lr must be a positive number"),
        ({"lr": float("nan")}, "lr must be a positive number"),
        ({"batch_size": 1}, "batch_size must be a whole number of at least 2"),
        ({"optimizer": "adam"}, "optimizer must be one of sgd, adamw"),
        ({"holdout": 1.0}, "holdout must be in"),
        ({"holdout": 0.0}, "needs validation images"),
        ({"momentum": 1.0}, "momentum must be"),
    ],
)
def test_invalid_recipes_are_rejected(changes, says):
    with pytest.raises(ValueError, match=says):
        recipe_for("pacs", "resnet50", **changes)
