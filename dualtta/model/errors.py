"""Errors about a model's outputs and layers: each names the way out in one line."""

import difflib
from typing import Any

import torch
from torch import Tensor, nn


class WiringError(ValueError):
    """A layer that gives no feature map. The message is complete, so it is passed on as it is."""


def not_a_feature_map(layer: str, z: Any, size: int) -> WiringError:
    if not isinstance(z, Tensor):
        return WiringError(f"the layer {layer!r} gives {type(z).__name__}, not a feature map: name another with layer=")
    return WiringError(  # as nn.MultiheadAttention, whose tokens come first, or windows of images
        f"the layer {layer!r} gives {tuple(z.shape)} for a batch of {size}, not a feature map (B, ...): name another with "
        "layer=, such as the convolution that makes the patches"
    )


def forward_failed(x: Tensor, error: Exception) -> ValueError:
    reason = str(error).strip().split("\n")[0]
    fix = " (one image is a batch of one: x[None])" if x.ndim == 3 else ""
    return ValueError(f"the model failed on an input of shape {tuple(x.shape)}, {x.dtype}, on {x.device}{fix}: {reason}")


def unreadable(output: Any, error: Exception) -> ValueError:
    reason = repr(error).split("\n")[0]
    return ValueError(f"logits= does not fit the model's output, which is of type {type(output).__name__}: {reason}")


def not_a_float_tensor(logits: Any) -> ValueError:
    found = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
    return ValueError(
        f"the model returns {found}, not logits: pass logits=, a function of its output, "
        "such as logits=lambda out: out['logits']"
    )


def not_logits(logits: Tensor, size: int, shape: torch.Size) -> ValueError:
    """Why a tensor is not the (B, C) logits of a batch of this size and shape."""
    if logits.ndim == 2 and logits.shape[0] == size:
        return ValueError(
            "the model returns one logit a sample; entropy needs two classes or more. A binary model with one logit z: "
            "logits=lambda z: torch.cat([torch.zeros_like(z), z], 1)"
        )
    return ValueError(
        f"for a batch of shape {tuple(shape)} the model returns shape {tuple(logits.shape)}, not (B, C) logits: "
        "give a batch (one image: x[None]), or pass logits=, a function of the model's output"
    )


def no_layer(model: nn.Module, name: str) -> ValueError:
    names = [known for known, _ in model.named_modules()]
    near = difflib.get_close_matches(name, names, 3) or names[1:6]
    return ValueError(f"the model has no layer {name!r}; near it: {', '.join(near)}")
