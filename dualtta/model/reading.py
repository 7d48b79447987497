"""How logits are read from what a model gives."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def logits_of(output: Any, read: Callable[[Any], Tensor] | None, size: int, shape: torch.Size) -> Tensor:
    """The logits (B, C) in what a model gives for a batch of this size and shape; a ValueError says what to do without."""
    try:
        logits = read(output) if read else output
    except (LookupError, AttributeError, TypeError) as error:  # what reading the wrong output raises
        kind, said = type(output).__name__, repr(error).split("\n")[0]
        raise ValueError(f"logits= does not fit the model's output, which is of type {kind}: {said}") from error
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        found = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"the model returns {found}, not logits: pass logits=, a function of its output, "
            "such as logits=lambda out: out['logits']"
        )
    if logits.ndim != 2 or logits.shape[0] != size:
        raise ValueError(
            f"for a batch of shape {tuple(shape)} the model returns shape {tuple(logits.shape)}, not (B, C) logits: "
            "give a batch (one image: x[None]), or pass logits=, a function of the model's output"
        )
    if logits.shape[1] < 2:
        raise ValueError(
            "the model returns one logit a sample; entropy needs two classes or more. A binary model with one logit z: "
            "logits=lambda z: torch.cat([torch.zeros_like(z), z], 1)"
        )
    return logits
