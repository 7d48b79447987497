"""Training recipes of source models: one entry per dataset, or per dataset and model where a model needs its own."""

from dataclasses import dataclass, fields, replace
from typing import Any

from dualtta.plugins import nearest

CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": ("sgd", "adamw"),
    "schedule": ("constant", "cosine"),
    "augment": ("none", "crop_flip", "crop_flip_cut", "zoom_flip"),
    "keep": ("best", "last"),
}


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters of empirical risk minimisation.

    warmup: number of epochs over which the learning rate rises linearly to `lr`.
    keep: "best" keeps the weights of the epoch with the best validation accuracy, "last" those of the last epoch.
    validation: the dataset's validation split; None: a share `holdout` of the source, drawn by the seed.
    reports: further splits whose accuracy the model card reports; they are not used for model selection.
    preprocess: a name in PREPROCESS, for small images; None: the model's own preprocessing.
    """

    epochs: int = 20
    lr: float = 1e-3
    optimizer: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    batch_size: int = 64
    schedule: str = "constant"
    warmup: int = 0
    augment: str = "zoom_flip"
    keep: str = "best"
    validation: str | None = None
    holdout: float = 0.1
    reports: tuple[str, ...] = ()
    preprocess: str | None = None

    def __post_init__(self) -> None:
        for key, known in CHOICES.items():
            if getattr(self, key) not in known:
                raise ValueError(f"{key} must be one of {', '.join(known)}, not {getattr(self, key)!r}")
        for key, least in (("epochs", 1), ("batch_size", 2), ("warmup", 0)):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{key} must be a whole number of at least {least}, not {value!r}")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"lr must be a positive number, not {self.lr!r}")
        if not 0 <= self.momentum < 1 or not 0 <= self.weight_decay < float("inf"):
            raise ValueError(
                f"momentum must be in [0, 1) and weight_decay at least 0, not {self.momentum} and {self.weight_decay}"
            )
        if not 0 <= self.holdout < 1:
            raise ValueError(f"holdout must be in [0, 1), not {self.holdout!r}")
        if self.keep == "best" and self.validation is None and self.holdout == 0:
            raise ValueError("keep='best' needs validation images: set holdout above 0 or a validation split, or keep='last'")


CUT = "crop_flip_cut"
_TINY = Recipe(
    epochs=10, lr=0.05, weight_decay=5e-4, schedule="cosine", augment="none", keep="last", reports=("test",),
    preprocess="digits",
)  # fmt: skip
_CIFAR = Recipe(
    epochs=40, lr=0.1, weight_decay=5e-4, batch_size=256, schedule="cosine", warmup=1, augment="crop_flip", keep="last",
    holdout=0.02, reports=("test",), preprocess="cifar10",
)  # fmt: skip

RECIPES: dict[str, Recipe] = {
    # as published with DeYO (https://arxiv.org/abs/2403.07366): from ImageNet weights, all of both environments, no
    # augmentation, the last epoch
    "colored_mnist": Recipe(augment="none", keep="last", holdout=0.0, reports=("test",), preprocess="colored_mnist"),
    "waterbirds": Recipe(epochs=30, validation="val", reports=("test",)),
    "pacs": Recipe(epochs=30, holdout=0.1),
    "office_home": Recipe(epochs=30, holdout=0.1),
    "cifar10": _CIFAR,
    "cifar10/vit_small_cifar": replace(
        _CIFAR, optimizer="adamw", epochs=100, lr=1e-3, weight_decay=0.05, warmup=5, augment=CUT
    ),
    "digits": _TINY,
    "colored_digits": replace(_TINY, preprocess="colored_mnist"),
}

# The default model of a dataset and the weights it starts from; None: random.
DEFAULT_MODELS: dict[str, tuple[str, str | None]] = {
    "colored_mnist": ("resnet18", "pretrained"),
    "waterbirds": ("resnet50", "pretrained"),
    "pacs": ("resnet50", "pretrained"),
    "office_home": ("resnet50", "pretrained"),
    "cifar10": ("resnet26_gn", None),
    "digits": ("resnet_tiny", None),
    "colored_digits": ("resnet_tiny", None),
}


def recipe_for(dataset: str, model: str, **changes: Any) -> Recipe:
    """The recipe of a dataset and a model, with changes. Datasets without an entry get the defaults of `Recipe`.

    >>> recipe_for("cifar10", "vit_small_cifar").optimizer
    'adamw'
    >>> recipe_for("pacs", "resnet50", epoch=3)
    Traceback (most recent call last):
    ...
    ValueError: a recipe has no setting 'epoch'; did you mean 'epochs'?
    """
    known = {spec.name for spec in fields(Recipe)}
    for key in changes:
        if key not in known:
            raise ValueError(f"a recipe has no setting {key!r}; {nearest(key, known)}")
    return replace(RECIPES.get(f"{dataset}/{model}") or RECIPES.get(dataset) or Recipe(), **changes)
