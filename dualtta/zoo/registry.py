"""Models by name, each with the preprocessing its weights need. Those of other packages come in by `dualtta.models`.

model, preprocess = open_model("resnet50", 1000, weights="resnet50.safetensors")
model, preprocess = open_model("timm:convnext_tiny", 7)               # random weights
model, preprocess = open_model("resnet50", 7, "pretrained", new_head=True)   # asks the hub; everything else stays local
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
from dualtta.plugins import plug_in
from dualtta.zoo.checkpoint import classes_in, in_order, put_weights, read_weights
from dualtta.zoo.hub import published_weights
from dualtta.zoo.small import resnet26_gn, resnet_tiny, resnet_tiny_gn, vit_small_cifar

PRETRAINED = "pretrained"  # weights by this name come from the hub


@dataclass(frozen=True)
class ModelSpec:
    """How a net is built, what its images must look like, and which published weights are meant."""

    summary: str
    build: Callable[[int], nn.Module]  # from the number of classes, random weights
    preprocess: Preprocess
    tag: str | None = None  # timm's name of its weights, with the tag that pins them
    head: str = "fc"
    arrange: Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]] | None = None  # other files' keys to the net's own


def torchvision_net(name: str) -> Callable[[int], nn.Module]:
    def build(classes: int) -> nn.Module:
        import torchvision

        net: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=classes)
        return net

    return build


def timm_net(name: str) -> Callable[[int], nn.Module]:
    def build(classes: int) -> nn.Module:
        import timm

        net: nn.Module = timm.create_model(name, pretrained=False, num_classes=classes)
        return net

    return build


def resnet50_v1(classes: int) -> nn.Module:
    """ResNet-50 as first published, the stride on a bottleneck's first convolution; BatchNorm eps 1e-3 as in Keras."""
    net = torchvision_net("resnet50")(classes)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
    for stage in ("layer2", "layer3", "layer4"):
        for conv, stride in (("conv1", (2, 2)), ("conv2", (1, 1))):
            moved = net.get_submodule(f"{stage}.0.{conv}")
            assert isinstance(moved, nn.Conv2d)
            moved.stride = stride
    return net


IMAGENET = PREPROCESS["imagenet"]
MODELS: dict[str, ModelSpec] = {
    "resnet18": ModelSpec("ResNet-18, BatchNorm", torchvision_net("resnet18"), IMAGENET, "resnet18.tv_in1k"),
    "resnet50": ModelSpec("ResNet-50, BatchNorm", torchvision_net("resnet50"), IMAGENET, "resnet50.tv_in1k"),
    "resnet50_gn": ModelSpec(
        "ResNet-50, GroupNorm",
        timm_net("resnet50_gn.a1h_in1k"),
        Preprocess(crop=0.94, interpolation="bicubic"),  # timm tests at 288; the benchmarks' images are 224
        "resnet50_gn.a1h_in1k",
    ),
    "vit_base_patch16_224": ModelSpec(
        "ViT-B/16, LayerNorm",
        timm_net("vit_base_patch16_224.augreg_in21k_ft_in1k"),
        PREPROCESS["vit"],
        "vit_base_patch16_224.augreg_in21k_ft_in1k",  # what the name alone meant when the baselines were published
        head="head",
    ),
    "resnet50_v1": ModelSpec("ResNet-50 v1 of Keras, BatchNorm", resnet50_v1, PREPROCESS["resnet50_v1"]),
    "efficientnet_lite0": ModelSpec(
        "EfficientNet-Lite0, BatchNorm",
        timm_net("tf_efficientnet_lite0.in1k"),
        PREPROCESS["efficientnet_lite0"],
        "tf_efficientnet_lite0.in1k",
        head="classifier",
        arrange=in_order,  # its other published file names the layers differently, in the same order
    ),
    "resnet_tiny": ModelSpec("a ResNet of 4 blocks for digits of 28 x 28, BatchNorm", resnet_tiny, PREPROCESS["digits"]),
    "resnet_tiny_gn": ModelSpec("the same net, GroupNorm", resnet_tiny_gn, PREPROCESS["digits"]),
    "resnet26_gn": ModelSpec("ResNet-26 for CIFAR's 32 x 32, GroupNorm", resnet26_gn, PREPROCESS["cifar10"]),
    "vit_small_cifar": ModelSpec(
        "a ViT of 8 blocks for CIFAR's 32 x 32, LayerNorm", vit_small_cifar, PREPROCESS["cifar10"], head="head"
    ),
}

plug_in(MODELS, "model", lambda found: isinstance(found, ModelSpec))


def find_model(name: str) -> ModelSpec:
    """A registered model, or any of timm's: by `timm:NAME`, or by its name alone where no registered one has it."""
    if name in MODELS:
        return MODELS[name]
    import timm

    plain = name.removeprefix("timm:")
    if not plain or not timm.is_model(plain):
        near = difflib.get_close_matches(name, [*MODELS, *timm.list_models()], 1)
        way = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(MODELS)}, and timm's as timm:NAME"
        raise ValueError(f"there is no model {name!r}; {way}")
    if "." in plain and plain not in timm.list_pretrained(f"{plain.partition('.')[0]}.*"):
        known = ", ".join(timm.list_pretrained(f"{plain.partition('.')[0]}.*")) or "none"
        raise ValueError(f"timm has no weights {plain!r}; it has: {known}")
    cfg = timm.get_pretrained_cfg(plain)
    if cfg is None:
        raise ValueError(f"timm does not say how the images of {plain!r} are made: choose a model that has a configuration")
    head = cfg.classifier if isinstance(cfg.classifier, str) else "head"
    tag = f"{cfg.architecture}.{cfg.tag}" if cfg.tag else None
    return ModelSpec(f"timm's {plain}", timm_net(plain), Preprocess.of(cfg.to_dict()), tag, head)


def open_model(
    name: str, classes: int | None = None, weights: str | Path | None = None, *, new_head: bool = False
) -> tuple[nn.Module, Preprocess]:
    """A model by name, with the preprocessing that belongs to it, in evaluation mode.

    Args:
        name: one of MODELS, or any of timm's, as `timm:NAME` or by its name.
        classes: how many; None: as many as the weights have.
        weights: None: random, from torch's global generator; a file; or "pretrained", which asks the hub.
        new_head: keep the classifier random, for weights of other classes that are to be trained on these.

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
        raise ValueError(f"{name} with random weights can have any number of classes: say how many")
    if classes is not None and classes < 2:
        raise ValueError(f"a classifier tells two classes apart or more, not {classes}")
    state: dict[str, Tensor] = {}
    of = f"{name}'s published weights" if weights == PRETRAINED else str(weights)
    if weights == PRETRAINED:
        state = published_weights(name, spec.tag)
    elif weights is not None:
        state = read_weights(weights)
    if spec.arrange is not None:
        state = spec.arrange(spec.build(classes or 2), state)
    if classes is None:
        classes = classes_in(state, spec.head, of=of)
    model = spec.build(classes)
    if state:
        put_weights(model, state, spec.head, of=of, new_head=new_head)
    return model.eval(), spec.preprocess


@cache
def layer_norm_only(name: str) -> bool:
    """Whether a model's norm layers are all LayerNorm or RMSNorm; it is built without memory for its weights.

    >>> layer_norm_only("vit_base_patch16_224"), layer_norm_only("resnet18")
    (True, False)
    """
    with torch.device("meta"):
        return depth.layer_norm_only(find_model(name).build(2))
