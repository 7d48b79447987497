"""The small networks that recorded cases name, built here with the sizes of the recorded weights."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from dualtta.conformance.verdict import Arrays


def to_input(images: NDArray[Any]) -> Tensor:
    """Images (B, H, W, 3) of bytes as the networks take them."""
    return (torch.from_numpy(images).double() / 255 - 0.5).div(0.25).permute(0, 3, 1, 2).contiguous()


def build_net(name: str, arrays: Arrays) -> nn.Module:
    """A network with the recorded weights, in float64."""
    weights = {key: torch.from_numpy(np.asarray(value)) for key, value in arrays.items()}
    builders = {"bn": small_resnet, "gn": small_resnet, "vit": small_vit}
    if name not in builders:
        raise ValueError(f"there is no net {name!r} among {', '.join(builders)}")
    net = builders[name](weights, name)
    net.load_state_dict(weights)
    return net.double().eval()


def small_resnet(weights: dict[str, Tensor], norm: str) -> nn.Module:
    """A stem and four stages of one convolution each, the second and the fourth halving the map."""

    def block(key: str, stride: int) -> list[nn.Module]:
        out, into, size, _ = weights[key].shape
        conv = nn.Conv2d(into, out, size, stride, size // 2, bias=False)
        return [conv, nn.BatchNorm2d(out) if norm == "bn" else nn.GroupNorm(4, out), nn.ReLU()]

    net = nn.Sequential()
    for part, module in zip(("conv1", "bn1", "relu"), block("conv1.weight", 1), strict=True):
        net.add_module(part, module)
    for stage, stride in enumerate((1, 2, 1, 2), 1):
        net.add_module(f"layer{stage}", nn.Sequential(*block(f"layer{stage}.0.weight", stride)))
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc", nn.Linear(weights["fc.weight"].shape[1], weights["fc.weight"].shape[0]))
    return net


def small_vit(weights: dict[str, Tensor], norm: str) -> nn.Module:
    """A ViT with three attention heads."""
    width, _, patch, _ = weights["patch_embed.proj.weight"].shape
    side = math.isqrt(weights["pos_embed"].shape[1] - 1) * patch
    depth = 1 + max(int(key.split(".")[1]) for key in weights if key.startswith("blocks."))
    classes = len(weights["head.bias"])
    net: nn.Module = VisionTransformer(
        img_size=side, patch_size=patch, embed_dim=width, depth=depth, num_heads=3, num_classes=classes
    )
    return net
