"""What BatchNorm normalises by: the batch, the source's running statistics, or a blend. None of them is ever touched."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

# a number: the share of the batch in a blend with the source's; "shrunk": that share by how certain the batch's are
Statistics = Literal["batch", "source", "shrunk"] | float


def check_statistics(statistics: Any) -> None:
    share = isinstance(statistics, float | int) and not isinstance(statistics, bool) and 0 <= statistics <= 1
    if not share and (not isinstance(statistics, str) or statistics not in ("batch", "source", "shrunk")):
        raise ValueError(
            f'statistics must be "batch", "source", "shrunk" or a share of the batch from 0 to 1, not {statistics!r}'
        )


@contextmanager
def normalising(norms: list[_BatchNorm], statistics: Statistics, *, lone: bool, apart: int | None = None) -> Iterator[None]:
    """BatchNorm by the chosen statistics while this lasts. `lone`: by the source's, as a single sample has none.

    `apart`: every so many samples are a batch of their own; needs layers with running statistics.
    """
    by_batch = statistics == "batch" and not lone
    set_mode(norms, by_batch and not apart)  # at every call: whoever holds the model may have called eval() on it
    try:
        if statistics == "source" or lone or (by_batch and not apart):
            yield
            return
        with ExitStack() as stack:
            for norm in norms:
                if norm.running_mean is not None:  # else it has only ever normalised by the batch
                    stack.enter_context(norm.register_forward_pre_hook(aligning(1.0 if by_batch else statistics, apart)))
            yield
    finally:
        if lone or apart:
            set_mode(norms, statistics == "batch")  # so that the model itself predicts as the adapter does


def tracked(norms: list[_BatchNorm]) -> bool:
    """Whether all layers have running statistics."""
    return all(norm.running_mean is not None for norm in norms)


def set_mode(norms: list[_BatchNorm], batch: bool) -> None:
    for norm in norms:
        # with track_running_stats=False, training mode leaves the running statistics alone; not by nn.Module's own setattr,
        # which looks for parameters and, over all layers at every pass, takes as long as a convolution
        own = vars(norm)
        own["training"], own["track_running_stats"] = batch, not batch


def aligning(statistics: Statistics, apart: int | None) -> Callable[[nn.Module, Any], Any]:
    """A hook before a BatchNorm layer: it goes by the source's statistics, on inputs that were moved as far as is due."""

    def hook(norm: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        assert isinstance(norm, _BatchNorm)
        x = args[0]
        parts = [aligned(part, norm, statistics) for part in torch.split(x, apart or len(x))]
        return (torch.cat(parts) if len(parts) > 1 else parts[0], *args[1:])

    return hook


def aligned(x: Tensor, norm: _BatchNorm, statistics: Statistics) -> Tensor:
    """x (B, C, ...), moved so that the source's statistics normalise it as the blend would have:

    (x' - mean) / deviation = (x - mean_blend) / deviation_blend. Gradients flow through the batch's statistics, but not through
    the share that they have.
    """
    mean, var = norm.running_mean, norm.running_var
    assert mean is not None
    assert var is not None
    wide, positions = x.to(mean.dtype), tuple(range(2, x.ndim))
    batch_var, batch_mean = torch.var_mean(wide, (0, *positions), correction=0)
    if statistics == "shrunk":
        own = wide.detach().mean(positions) if positions else wide.detach()  # each sample's mean (B, C)
        share: Any = certainty(own, mean, var + norm.eps)
    else:
        share = float(statistics)
    blend_mean, blend_var = torch.lerp(mean, batch_mean, share), torch.lerp(var, batch_var, share)
    gain = ((var + norm.eps) / (blend_var + norm.eps)).sqrt()
    shape = (-1, *[1] * len(positions))
    return (wide * gain.reshape(shape) + (mean - blend_mean * gain).reshape(shape)).to(x.dtype)


def certainty(own: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """How far the samples' means (B, C) lie beyond what chance explains, from 0 to 1: James and Stein's share of the batch.

    Means of a batch differ from the source's by the shift and by who happens to be in the batch. The second can be estimated:
    the samples' variance over their number. Where that is all there is, the source's statistics are the better ones.

    >>> own = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    >>> [round(certainty(own + shift, torch.zeros(2), torch.ones(2)).item(), 2) for shift in (0.0, 1.0, 3.0, 100.0)]
    [0.0, 0.0, 0.89, 1.0]
    """
    chance = (own.var(0) / len(own) / var).sum()
    found = ((own.mean(0) - mean).square() / var).sum()
    return (1 - chance / found.clamp_min(torch.finfo(found.dtype).tiny)).clamp(0.0, 1.0)
