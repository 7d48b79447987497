"""Which modules are normalisation layers, and which of their parameters adapt."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

KNOWN: tuple[type[nn.Module], ...] = (_BatchNorm, _InstanceNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
AFFINE = ("weight", "bias")


def is_norm(module: nn.Module) -> bool:
    """One of torch's norm layers or their subclasses, or a layer called ...Norm... that scales channels by a vector.

    The second half finds the norm classes of timm, transformers and home-made ones.

    >>> from timm.layers import RmsNorm2d
    >>> [is_norm(m) for m in (nn.GroupNorm(2, 4), RmsNorm2d(4), nn.Linear(4, 4))]
    [True, True, False]
    """
    if isinstance(module, KNOWN):
        return True
    weight = module._parameters.get("weight")
    return "norm" in type(module).__name__.lower() and weight is not None and weight.numel() == max(weight.shape)


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """The layers that normalise by statistics of the batch, or by running ones: 1d, 2d, 3d, Sync and their subclasses.

    >>> len(batch_norms(nn.Sequential(nn.BatchNorm2d(4), nn.SyncBatchNorm(4), nn.GroupNorm(2, 4))))
    2
    """
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def is_channel_last_norm(module: nn.Module) -> bool:
    """LayerNorm and RMSNorm, the norms of token nets."""
    return is_norm(module) and not isinstance(module, (_BatchNorm, _InstanceNorm, nn.GroupNorm))


def norm_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Norm layers by name, in the order the model defines them.

    >>> list(norm_layers(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())))
    ['1']
    """
    return {name: module for name, module in model.named_modules() if is_norm(module)}


def affine_names(name: str, norm: nn.Module) -> list[str]:
    """The full names of a norm layer's scale and shift, where it has them."""
    stem = f"{name}." if name else ""
    return [stem + key for key in AFFINE if norm._parameters.get(key) is not None]
