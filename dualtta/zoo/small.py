"""Small models for small images: 28 x 28 digits and 32 x 32 CIFAR images."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

Norm = Callable[[int], nn.Module]


class Block(nn.Module):
    """Residual block of two 3 x 3 convolutions (https://arxiv.org/abs/1512.03385)."""

    def __init__(self, inside: int, outside: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = norm(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = norm(outside)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), norm(outside))

    def forward(self, x: Tensor) -> Tensor:
        z = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(z)) + self.around(x))


class SmallResNet(nn.Module):
    """A ResNet with a 3 x 3 stem and stages of `depths` blocks with `widths` channels; each stage halves the resolution."""

    def __init__(self, classes: int, widths: Sequence[int], depths: Sequence[int], norm: Norm, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, stride, 1, bias=False)
        self.bn1 = norm(widths[0])
        inside = widths[0]
        self.stages = []
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True), 1):
            steps = [1 if number == 1 else 2] + [1] * (depth - 1)
            blocks = [Block(inside if i == 0 else width, width, step, norm) for i, step in enumerate(steps)]
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
            self.stages.append(f"layer{number}")
            inside = width
        self.fc = nn.Linear(inside, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        z = F.relu(self.bn1(self.conv1(x)))
        for stage in self.stages:
            z = self.get_submodule(stage)(z)
        logits: Tensor = self.fc(z.mean((2, 3)))
        return logits


def resnet_tiny(classes: int) -> nn.Module:
    """Four stages of one block, BatchNorm; small enough to train on a CPU.

    >>> import torch
    >>> resnet_tiny(10)(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 10])
    """
    return SmallResNet(classes, (16, 32, 64, 128), (1, 1, 1, 1), nn.BatchNorm2d, stride=2)


def resnet_tiny_gn(classes: int) -> nn.Module:
    """`resnet_tiny` with GroupNorm of eight groups, so that samples do not influence each other."""
    return SmallResNet(classes, (16, 32, 64, 128), (1, 1, 1, 1), lambda width: nn.GroupNorm(8, width), stride=2)


def resnet26_gn(classes: int) -> nn.Module:
    """ResNet-26 for CIFAR with 16, 32 and 64 channels and GroupNorm of eight groups."""
    return SmallResNet(classes, (16, 32, 64), (4, 4, 4), lambda width: nn.GroupNorm(8, width))


def vit_small_cifar(classes: int) -> nn.Module:
    """A ViT for 32 x 32 images: 64 tokens, eight blocks of 256 channels, LayerNorm.

    The patch embedding is a stem of three convolutions: with a plain patch projection, 50,000 images are too few to train on.
    """
    from timm.layers import PatchEmbed
    from timm.models.vision_transformer import VisionTransformer

    def stem(embed_dim: int, **settings: Any) -> nn.Module:
        embed: nn.Module = PatchEmbed(embed_dim=embed_dim, **settings)
        embed.proj = nn.Sequential(
            nn.Conv2d(3, embed_dim // 4, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(embed_dim // 4, embed_dim // 2, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(embed_dim // 2, embed_dim, 3, stride=2, padding=1),
        )
        return embed

    settings: dict[str, Any] = {"img_size": 32, "patch_size": 4, "embed_dim": 256, "depth": 8, "num_heads": 4, "mlp_ratio": 2}
    net: nn.Module = VisionTransformer(num_classes=classes, embed_layer=stem, drop_path_rate=0.1, **settings)
    return net
