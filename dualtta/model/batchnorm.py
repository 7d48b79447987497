"""What BatchNorm normalises by: the batch, the source's running statistics, or a blend. None of them is ever touched."""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

Statistics = Literal["batch", "source"] | float  # a number: the share of the batch in a blend with the source's


def check_statistics(statistics: Any) -> None:
    share = not isinstance(statistics, bool) and isinstance(statistics, Real) and 0 <= float(statistics) <= 1
    if not share and (not isinstance(statistics, str) or statistics not in ("batch", "source")):
        raise ValueError(f'statistics must be "batch", "source" or a share of the batch from 0 to 1, not {statistics!r}')


class Normalising:
    """How a model's BatchNorm layers normalise: by the chosen statistics while a pass lasts."""

    def __init__(self, norms: list[_BatchNorm], statistics: Statistics) -> None:
        check_statistics(statistics)
        self.norms, self.batch, self.depth = norms, statistics == "batch", 0
        share = 0.0 if isinstance(statistics, str) else float(statistics)  # of nothing: by the source's, as they are
        # without running statistics a layer has only ever normalised by the batch
        self.blended = [Blended(norm, share) for norm in norms if share and norm.running_mean is not None]

    @contextmanager
    def __call__(self, *, lone: bool) -> Iterator[None]:
        """`lone`: by the source's, as a single sample has none."""
        set_mode(self.norms, self.batch and not lone)  # at every call: whoever holds the model may have called eval() on it
        blended = [] if lone or self.depth else self.blended  # one pass within another changes nothing
        self.depth += 1
        try:
            for layer in blended:
                layer.take_over()
            yield
        finally:
            self.depth -= 1
            for layer in blended:
                layer.hand_back()
            if lone and not self.depth:
                set_mode(self.norms, self.batch)  # so that the model itself predicts by the batch where the adapter does


def set_mode(norms: list[_BatchNorm], batch: bool) -> None:
    for norm in norms:
        # with track_running_stats=False, training mode leaves the running statistics alone; not by nn.Module's own setattr,
        # which looks for parameters and, over all layers at every pass, takes as long as a convolution
        own = vars(norm)
        own["training"], own["track_running_stats"] = batch, not batch


class Blended:
    """A BatchNorm layer's forward, with a blend in the place of the source's statistics."""

    def __init__(self, norm: _BatchNorm, share: float) -> None:
        self.norm, self.share = norm, share
        self.former, self.forward = vars(norm).get("forward"), norm.forward

    def take_over(self) -> None:
        former = vars(self.norm).get("forward")
        if former is not self.former and former is not self:  # somebody has wrapped it since
            self.former, self.forward = former, self.norm.forward
        vars(self.norm)["forward"] = self

    def hand_back(self) -> None:
        if self.former is None:
            vars(self.norm).pop("forward", None)
        else:
            vars(self.norm)["forward"] = self.former

    def __call__(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        norm, share, x = self.norm, self.share, input
        source_mean, source_var = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
        batch_mean, batch_var = moments(x.detach())
        mean = torch.lerp(source_mean.to(batch_mean), batch_mean, share)
        var = torch.lerp(source_var.to(batch_var), batch_var, share)
        if torch.is_grad_enabled() and x.requires_grad:
            x = Through.apply(x, batch_mean, mean, var + norm.eps, share)
        try:
            norm.running_mean, norm.running_var = mean.to(source_mean.dtype), var.to(source_var.dtype)
            return self.forward(x, *args, **kwargs)
        finally:
            norm.running_mean, norm.running_var = source_mean, source_var


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel of x (B, C, ...), in float32 at least."""
    wide = torch.promote_types(x.dtype, torch.float32)
    if torch.compiler.is_compiling() or x.device.type not in ("cpu", "cuda"):
        var, mean = torch.var_mean(x.to(wide), across(x), correction=0)
        return mean, var
    mean, var = torch.batch_norm_update_stats(x if x.is_cuda else x.to(wide), None, None, 0.0)  # in a third of var_mean's time
    return mean, var


class Through(torch.autograd.Function):
    """x as it is; a gradient that knows of x alone goes on as one through the statistics that x is normalised by.

    They are m and v, `share` of the batch's and the rest of the source's: from dy/dx = k with m and v fixed, and <.> the mean
    over a channel's values, dx = g - share <g> - share (x - batch mean) <g (x - m)> / (v + eps) of g = k dy.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, batch_mean: Tensor, m: Tensor, v: Tensor, share: float) -> Tensor:
        ctx.share = share
        ctx.save_for_backward(x, batch_mean, m, v)
        return x.detach()  # a view that keeps its strides

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,), (x, batch_mean, m, v), share = grads, ctx.saved_tensors, ctx.share
        if x.is_cuda and not torch.compiler.is_compiling():
            return fused(g, x, batch_mean, m, v, share), None, None, None, None
        away, along = x - channels(batch_mean, x), g.mean(across(x), dtype=v.dtype)
        tilt = (g * away).mean(across(x)) + (batch_mean - m) * along
        away.mul_(channels(-share * tilt / v, x)).sub_(channels(share * along, x))
        return away.add_(g).to(x.dtype), None, None, None, None


def fused(g: Tensor, x: Tensor, batch_mean: Tensor, m: Tensor, v: Tensor, share: float) -> Tensor:
    """The same in two kernels of CUDA's, which give (g - <g> - (x - batch mean) i^2 <g (x - batch mean)>) i w of given sums."""
    last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
    g, x = (t.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format) for t in (g, x))
    i, w = v.rsqrt(), v.sqrt()
    along, tilt, _, _ = torch.batch_norm_backward_reduce(g, x, batch_mean, i, w, True, False, False)
    tilt = torch.addcmul(tilt, batch_mean - m, along).mul_(share)
    count = torch.full((1,), x.numel() // x.shape[1], dtype=torch.int32, device=x.device)
    return torch.batch_norm_backward_elemt(g, x, batch_mean, i, w, along.mul_(share), tilt, count)


def across(x: Tensor) -> tuple[int, ...]:
    """All dimensions of x (B, C, ...) but the channels'."""
    return tuple(i for i in range(x.ndim) if i != 1)


def channels(values: Tensor, x: Tensor) -> Tensor:
    """A value for each channel, as x (B, C, ...) takes them."""
    return values.reshape(-1, *[1] * (x.ndim - 2))
