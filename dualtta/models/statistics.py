"""What BatchNorm normalises by: the batch, the source's running statistics, or a blend. None of them is ever touched."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

Statistics = Literal["batch", "source"] | float  # a number: the share of the batch in a blend with the source's


def check_statistics(statistics: Any) -> None:
    share = isinstance(statistics, float | int) and not isinstance(statistics, bool) and 0 <= statistics <= 1
    if not share and (not isinstance(statistics, str) or statistics not in ("batch", "source")):
        raise ValueError(f'statistics must be "batch", "source" or a share of the batch from 0 to 1, not {statistics!r}')


@contextmanager
def normalising(norms: list[_BatchNorm], statistics: Statistics, *, lone: bool) -> Iterator[None]:
    """BatchNorm by the chosen statistics while this lasts. `lone`: by the source's, as a single sample has none."""
    set_mode(norms, statistics == "batch" and not lone)  # at every call: whoever holds the model may have called eval() on it
    try:
        if isinstance(statistics, str) or lone:
            yield
            return
        with ExitStack() as stack:
            for norm in norms:
                if norm.running_mean is not None:  # else it has only ever normalised by the batch
                    stack.enter_context(norm.register_forward_pre_hook(aligning(float(statistics))))
            yield
    finally:
        if lone:
            set_mode(norms, statistics == "batch")  # so that the model itself predicts as the adapter does


def set_mode(norms: list[_BatchNorm], batch: bool) -> None:
    for norm in norms:
        # with track_running_stats=False, training mode leaves the running statistics alone; not by nn.Module's own setattr,
        # which looks for parameters and, over all layers at every pass, takes as long as a convolution
        own = vars(norm)
        own["training"], own["track_running_stats"] = batch, not batch


def aligning(share: float) -> Callable[[nn.Module, Any], Any]:
    """A hook before a BatchNorm layer: it goes by the source's statistics, on inputs that were moved as far as is due."""

    def hook(norm: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (aligned(args[0], norm, share), *args[1:])  # type: ignore[arg-type]

    return hook


def aligned(x: Tensor, norm: _BatchNorm, share: float) -> Tensor:
    """x (B, C, ...), moved so that the source's statistics normalise it as a blend of them and the batch's would have."""
    return Align.apply(x, norm.running_mean, norm.running_var, norm.eps, share)  # type: ignore[no-any-return]


class Align(torch.autograd.Function):
    """x' = (x - m) k + mean with k^2 = (var + eps) / (v + eps), where m and v are `share` of the batch's mean and variance and
    the rest of the source's: (x' - mean) / sqrt(var + eps) = (x - m) / sqrt(v + eps).

    The gradient goes through the batch's statistics. With <.> the mean over a channel's values, all of the batch:
    dx = k (g - share <g> - share (x - batch mean) <g (x - m)> / (v + eps)).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, var: Tensor, eps: float, share: float) -> Tensor:
        wide = torch.promote_types(mean.dtype, torch.float32)
        mean, var = mean.to(wide), var.to(wide)
        others = tuple(i for i in range(x.ndim) if i != 1)
        batch_mean = x.mean(others, dtype=wide)
        away = x - channels(batch_mean, x)
        batch_var = torch.linalg.vector_norm(away, dim=others).square() / (x.numel() / len(mean))
        m, v = torch.lerp(mean, batch_mean, share), torch.lerp(var, batch_var, share) + eps
        k = ((var + eps) / v).sqrt()
        ctx.share = share
        ctx.save_for_backward(x, batch_mean, m, v, k)
        return away.mul_(channels(k, x)).add_(channels(mean + (batch_mean - m) * k, x)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,), (x, batch_mean, m, v, k) = grads, ctx.saved_tensors
        others = tuple(i for i in range(x.ndim) if i != 1)
        away, along = x - channels(batch_mean, x), g.mean(others, dtype=k.dtype)
        across = (g * away).mean(others) + (batch_mean - m) * along
        away.mul_(channels(-ctx.share * k * across / v, x)).sub_(channels(ctx.share * k * along, x))
        return away.addcmul_(g.to(away.dtype), channels(k, x)).to(x.dtype), None, None, None, None


def channels(values: Tensor, x: Tensor) -> Tensor:
    """A value for each channel, as x (B, C, ...) takes them."""
    return values.reshape(-1, *[1] * (x.ndim - 2))
