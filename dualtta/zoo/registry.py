"""Models by name, each with the preprocessing its weights need. Those of other packages come in by `dualtta.models`.

model, preprocess = open_model("resnet50", 1000, weights="resnet50.safetensors")
model, preprocess = open_model("timm:convnext_tiny", 7)               # random weights
model, preprocess = open_model("torchvision:mobilenet_v3_small", 1000, weights="mobilenet_v3_small.pth")
model, preprocess = open_model("resnet50", 7, "pretrained", new_head=True)   # downloads from the hub; nothing else does
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from dualtta.data.preprocess import PREPROCESS, Preprocess
from dualtta.model import depth
from dualtta.plugins import Registry, nearest
from dualtta.zoo.checkpoint import classes_in, load_weights, match_by_order, read_weights
from dualtta.zoo.hub import published_weights
from dualtta.zoo.small import resnet26_gn, resnet_tiny, resnet_tiny_gn, vit_small_cifar

PRETRAINED = "pretrained"  # `weights` of this value are downloaded from the hub


@dataclass(frozen=True)
class ModelSpec:
    """How to build a model, how to preprocess its images, and the name of its pretrained weights."""

    summary: str
    build: Callable[[int], nn.Module]  # from the number of classes; random weights
    preprocess: Preprocess
    tag: str | None = None  # timm's name of the pretrained weights, including the tag that fixes their version
    head: str = "fc"  # name of the classifier layer
    map_keys: Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]] | None = None  # renames the keys of a file


def torchvision_model(name: str) -> Callable[[int], nn.Module]:
    def build(classes: int) -> nn.Module:
        import torchvision

        net: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=classes)
        return net

    return build


def timm_model(name: str) -> Callable[[int], nn.Module]:
    def build(classes: int) -> nn.Module:
        import timm

        net: nn.Module = timm.create_model(name, pretrained=False, num_classes=classes)
        return net

    return build


def resnet50_v1(classes: int) -> nn.Module:
    """ResNet-50 v1: the stride is on a bottleneck's first convolution, and BatchNorm has eps 1e-3 as in Keras."""
    net = torchvision_model("resnet50")(classes)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
    for stage in ("layer2", "layer3", "layer4"):
        for conv, stride in (("conv1", (2, 2)), ("conv2", (1, 1))):
            layer = net.get_submodule(f"{stage}.0.{conv}")
            assert isinstance(layer, nn.Conv2d)
            layer.stride = stride
    return net


IMAGENET = PREPROCESS["imagenet"]
MODELS: Registry[ModelSpec] = Registry(
    "model",
    lambda found: isinstance(found, ModelSpec),
    {
        "resnet18": ModelSpec("ResNet-18, BatchNorm", torchvision_model("resnet18"), IMAGENET, "resnet18.tv_in1k"),
        "resnet50": ModelSpec("ResNet-50, BatchNorm", torchvision_model("resnet50"), IMAGENET, "resnet50.tv_in1k"),
        "resnet50_gn": ModelSpec(
            "ResNet-50, GroupNorm",
            timm_model("resnet50_gn.a1h_in1k"),
            Preprocess(crop=0.94, interpolation="bicubic"),  # timm evaluates at 288; the benchmarks use 224
            "resnet50_gn.a1h_in1k",
        ),
        "vit_base_patch16_224": ModelSpec(
            "ViT-B/16, LayerNorm",
            timm_model("vit_base_patch16_224.augreg_in21k_ft_in1k"),
            PREPROCESS["vit"],
            "vit_base_patch16_224.augreg_in21k_ft_in1k",  # the meaning of the bare name when the baselines were published
            head="head",
        ),
        "resnet50_v1": ModelSpec("ResNet-50 v1 of Keras, BatchNorm", resnet50_v1, PREPROCESS["resnet50_v1"]),
        "efficientnet_lite0": ModelSpec(
            "EfficientNet-Lite0, BatchNorm",
            timm_model("tf_efficientnet_lite0.in1k"),
            PREPROCESS["efficientnet_lite0"],
            "tf_efficientnet_lite0.in1k",
            head="classifier",
            map_keys=match_by_order,  # a published file has the same layers in the same order under other names
        ),
        "resnet_tiny": ModelSpec("ResNet of 4 blocks for 28 x 28 digits, BatchNorm", resnet_tiny, PREPROCESS["digits"]),
        "resnet_tiny_gn": ModelSpec("ResNet of 4 blocks for 28 x 28 digits, GroupNorm", resnet_tiny_gn, PREPROCESS["digits"]),
        "resnet26_gn": ModelSpec("ResNet-26 for 32 x 32 CIFAR images, GroupNorm", resnet26_gn, PREPROCESS["cifar10"]),
        "vit_small_cifar": ModelSpec(
            "ViT of 8 blocks for 32 x 32 CIFAR images, LayerNorm", vit_small_cifar, PREPROCESS["cifar10"], head="head"
        ),
    },
)


TORCHVISION = "torchvision:"


def torchvision_spec(name: str) -> ModelSpec:
    """A classifier of torchvision, with the preprocessing of its default weights, which are read from a file."""
    from torchvision import models

    known = models.list_models(module=models)
    if name not in known:
        raise ValueError(f"torchvision has no classifier {name!r}; {nearest(name, known)}")
    kind = models.get_model_weights(name)
    preset = next(iter(kind)).transforms()
    size, resized = preset.crop_size[0], preset.resize_size[0]
    preprocess = Preprocess(tuple(preset.mean), tuple(preset.std), size, size / resized, preset.interpolation.value)
    with torch.device("meta"):
        layers = [key for key, module in models.get_model(name, weights=None).named_modules() if isinstance(module, nn.Linear)]
    return ModelSpec(f"torchvision's {name}", torchvision_model(name), preprocess, head=layers[-1] if layers else "fc")


def find_model(name: str) -> ModelSpec:
    """A registered model, one of torchvision as `torchvision:NAME`, or one of timm: as `timm:NAME`, or as `NAME` where no
    registered model has that name."""
    if name in MODELS:
        return MODELS[name]
    if name.startswith(TORCHVISION):
        return torchvision_spec(name.removeprefix(TORCHVISION))
    import timm

    plain = name.removeprefix("timm:")
    if not plain or not timm.is_model(plain):
        near = difflib.get_close_matches(name, [*MODELS, *timm.list_models()], 1)
        known = f"there are: {', '.join(MODELS)}, and timm models as timm:NAME, torchvision's as {TORCHVISION}NAME"
        hint = f"did you mean {near[0]!r}?" if near else known
        raise ValueError(f"there is no model {name!r}; {hint}")
    if "." in plain and plain not in timm.list_pretrained(f"{plain.partition('.')[0]}.*"):
        known = ", ".join(timm.list_pretrained(f"{plain.partition('.')[0]}.*")) or "none"
        raise ValueError(f"timm has no weights {plain!r}; it has: {known}")
    cfg = timm.get_pretrained_cfg(plain)
    if cfg is None:
        raise ValueError(f"timm has no preprocessing configuration for {plain!r}: choose another model")
    head = cfg.classifier if isinstance(cfg.classifier, str) else "head"
    tag = f"{cfg.architecture}.{cfg.tag}" if cfg.tag else None
    return ModelSpec(f"timm's {plain}", timm_model(plain), Preprocess.of(cfg.to_dict()), tag, head)


def open_model(
    name: str, classes: int | None = None, weights: str | Path | None = None, *, new_head: bool = False
) -> tuple[nn.Module, Preprocess]:
    """Open a model by name, in evaluation mode, with its preprocessing.

    Args:
        name: a name in MODELS, or of any model of torchvision, as `torchvision:NAME`, or of timm, as `timm:NAME` or `NAME`.
        classes: number of classes; None: that of the weights.
        weights: None (random, from torch's global generator), a file, or "pretrained" (from the Hugging Face hub).
        new_head: do not load the classifier, so that the model can be trained on other classes.

    >>> model, preprocess = open_model("resnet_tiny", 10)
    >>> preprocess.size is None
    True
    >>> open_model("resnet_tiney", 10)
    Traceback (most recent call last):
    ...
    ValueError: there is no model 'resnet_tiney'; did you mean 'resnet_tiny'?
    """
    spec = find_model(name)
    if classes is None and weights is None:
        raise ValueError(f"{name} with random weights needs a number of classes: give classes=")
    if classes is not None and classes < 2:
        raise ValueError(f"a classifier needs at least two classes, not {classes}")
    state: dict[str, Tensor] = {}
    of = f"{name}'s pretrained weights" if weights == PRETRAINED else str(weights)
    if weights == PRETRAINED:
        state = published_weights(name, spec.tag)
    elif weights is not None:
        state = read_weights(weights)
    if spec.map_keys is not None:
        state = spec.map_keys(spec.build(classes or 2), state)
    if classes is None:
        classes = classes_in(state, spec.head, of=of)
    model = spec.build(classes)
    if state:
        load_weights(model, state, spec.head, of=of, new_head=new_head)
    return model.eval(), spec.preprocess


@cache
def layer_norm_only(name: str) -> bool:
    """Whether all norm layers of a model are LayerNorm or RMSNorm; the model is built on the meta device.

    >>> layer_norm_only("vit_base_patch16_224"), layer_norm_only("resnet18")
    (True, False)
    """
    with torch.device("meta"):
        return depth.layer_norm_only(find_model(name).build(2))
