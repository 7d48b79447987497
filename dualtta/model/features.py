"""Feature maps: where their layer is, which axis holds the channels, and which tokens are no patches.

`Net` in `dualtta.model.forward` forwards batches with them.
"""

import re

from torch import Tensor, nn

from dualtta.model.depth import is_convolution
from dualtta.model.errors import no_layer

EXTRA_TOKEN = re.compile(r"(^|\.)(cls|class|dist|distillation|reg|register)_?tokens?$")


def find_layer(model: nn.Module, name: str) -> nn.Module:
    """The module of this name; a ValueError with the nearest names where there is none."""
    try:
        if name:
            return model.get_submodule(name)
    except AttributeError:
        pass
    raise no_layer(model, name)


def channel_axis(layer: nn.Module, z: Tensor) -> int:
    """1 for convolutional maps (B, C, ...), -1 for token maps (B, N, C) and channels-last maps (B, H, W, C).

    The axis whose size is the first size of the layer's last weight. Where two axes have that size, or none has, a layer with
    convolutions is channels-first.

    >>> import torch
    >>> channel_axis(nn.Conv2d(3, 8, 1), torch.zeros(2, 8, 5, 5)), channel_axis(nn.Linear(4, 8), torch.zeros(2, 5, 8))
    (1, -1)
    """
    if z.ndim == 2:
        return 1
    widths = [len(p) for m in layer.modules() if (p := m._parameters.get("weight")) is not None]
    if widths and (z.shape[1] == widths[-1]) != (z.shape[-1] == widths[-1]):
        return 1 if z.shape[1] == widths[-1] else -1
    convolves = any(map(is_convolution, layer.modules()))
    return 1 if convolves or (z.ndim > 3 and not widths) else -1


def prefix_tokens(model: nn.Module, z: Tensor) -> int:
    """How many leading tokens of a map (B, N, C) are class, distillation or register tokens rather than patches.

    >>> from timm import create_model
    >>> import torch
    >>> prefix_tokens(create_model("vit_tiny_patch16_224"), torch.zeros(1, 197, 192))
    1
    """
    extra = sum(p.shape[1] for name, p in model.named_parameters() if EXTRA_TOKEN.search(name) and p.ndim == 3)
    for module in model.modules():
        patches = getattr(module, "num_patches", None)  # of timm's patch embeddings; without it CaiT, whose class
        if isinstance(patches, int) and 0 <= z.shape[1] - patches <= extra:  # token joins later, from a ViT
            return z.shape[1] - patches
    return extra if extra < z.shape[1] else 0
