"""Depth without names: the units of a net, which parameters adapt, where a feature map is perturbed.

The units are the coarsest level of the module tree that has at least four parts with norm layers: the four stages of a
ResNet or Swin, the twelve blocks of a ViT-B. So 'the last quarter' is layer4, or blocks 9 to 11 and the final norm, and the
rule needs no name of any net.
"""

from torch import nn

from dualtta.model.norms import affine_names, is_channel_last_norm, is_norm, norm_layers

ENOUGH = 4  # units, for a quarter to make sense


def units(model: nn.Module) -> list[str]:
    """Names of the model's units of depth, in order; the norm layers themselves where there is nothing coarser.

    >>> from timm import create_model
    >>> units(create_model("resnet18"))
    ['layer1', 'layer2', 'layer3', 'layer4']
    >>> len(units(create_model("vit_tiny_patch16_224")))
    12
    """
    parts: list[tuple[str, nn.Module]] = [("", model)]
    while True:
        stages = [(name, module) for name, module in parts if not is_norm(module)]
        if len(stages) >= ENOUGH or not stages:
            return [name for name, _ in stages or parts]
        parts = [part for name, module in parts for part in _expand(name, module)]


def _expand(name: str, module: nn.Module) -> list[tuple[str, nn.Module]]:
    if is_norm(module):
        return [(name, module)]
    children = ((f"{name}.{child}" if name else child, part) for child, part in module.named_children())
    return [(child, part) for child, part in children if norm_layers(part)]


def adapted_parameters(model: nn.Module, frozen_top: float) -> list[str]:
    """Scales and shifts of the norm layers, without those in the last `frozen_top` of the depth.

    >>> from timm import create_model
    >>> adapted_parameters(create_model("resnet18"), frozen_top=0.25)[-1]
    'layer3.1.bn2.bias'
    """
    norms, parts = norm_layers(model), units(model)
    kept = list(norms)
    frozen = parts[len(parts) - int(len(parts) * frozen_top) :]
    if frozen:
        within = [i for i, name in enumerate(kept) if name == frozen[0] or name.startswith(f"{frozen[0]}.")]
        kept = kept[: within[0]] if within else kept  # a norm layer that all units share has the first one's name
    return [full for name in kept for full in affine_names(name, norms[name])]


def is_token_stack(model: nn.Module) -> bool:
    """Whether the units are identical blocks without convolutions and with LayerNorm: a ViT and its kin.

    >>> from timm import create_model
    >>> is_token_stack(create_model("vit_tiny_patch16_224")), is_token_stack(create_model("resnet18"))
    (True, False)
    """
    blocks = [model.get_submodule(name) for name in units(model)]
    if len(blocks) < 2 or any(is_norm(block) for block in blocks):
        return False
    shapes = [[tuple(p.shape) for p in block.parameters()] for block in blocks]
    parts = list(blocks[0].modules())
    tokens = any(is_channel_last_norm(part) for part in parts)
    return tokens and all(s == shapes[0] for s in shapes) and not any(is_convolution(part) for part in parts)


def is_convolution(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)


def style_layer(model: nn.Module) -> str:
    """The default layer of the style perturbation: 7/12 of the way up a ViT, the first quarter of any other net.

    >>> from timm import create_model
    >>> style_layer(create_model("resnet18")), style_layer(create_model("vit_tiny_patch16_224"))
    ('layer1', 'blocks.6')
    """
    names = units(model)
    if not names:
        raise ValueError("the model has no norm layer to measure its depth by: name the layer of the style view, layer=...")
    count = round(len(names) * 7 / 12) if is_token_stack(model) else -(-len(names) // 4)
    name = names[max(count, 1) - 1]
    while type(module := model.get_submodule(name)).forward is nn.Module.forward:  # as lists: the last part ends it
        name = _expand(name, module)[-1][0]
    return name


def layer_norm_only(model: nn.Module) -> bool:
    """Whether all norm layers of a model are LayerNorm or RMSNorm, as in ViT, Swin, ConvNeXt and Mixer.

    >>> from timm import create_model
    >>> layer_norm_only(create_model("vit_tiny_patch16_224")), layer_norm_only(create_model("resnet18"))
    (True, False)
    """
    norms = norm_layers(model).values()
    return bool(norms) and all(map(is_channel_last_norm, norms))
