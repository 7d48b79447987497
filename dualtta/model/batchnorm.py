"""The statistics that BatchNorm layers normalise by: the batch's, the source's running statistics, or a blend of both.

Running statistics are never updated.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

Statistics = Literal["batch", "source"] | float  # a number: the share of the batch in a blend with the source's


def check_statistics(statistics: Any) -> None:
    share = not isinstance(statistics, bool) and isinstance(statistics, Real) and 0 <= float(statistics) <= 1
    if not share and (not isinstance(statistics, str) or statistics not in ("batch", "source")):
        raise ValueError(f'statistics must be "batch", "source" or a share of the batch from 0 to 1, not {statistics!r}')


class BatchNormStatistics:
    """Makes BatchNorm layers normalise by the chosen statistics while a batch is forwarded."""

    def __init__(self, norms: list[_BatchNorm], statistics: Statistics) -> None:
        self.norms, self.depth = norms, 0
        # a layer without running statistics has none to blend with: it always normalises by the batch
        self._all_blends = [Blend(norm) for norm in norms if norm.running_mean is not None]
        self.use(statistics)

    def use(self, statistics: Statistics, scale: float = 1.0) -> None:
        """Normalise by these statistics from now on, with the share of a blend times `scale`."""
        check_statistics(statistics)
        self.batch = statistics == "batch"
        share = 0.0 if isinstance(statistics, str) else float(statistics) * scale
        self.blends = self._all_blends if share else []  # 0: the source's alone, no blend needed
        for blend in self.blends:
            blend.share = share

    @contextmanager
    def applied(self, *, single: bool) -> Iterator[None]:
        """The layers' mode while this lasts. `single`: the source's statistics, since one sample has none of its own."""
        set_mode(self.norms, self.batch and not single)  # every time: the user may have called model.eval() in between
        blends = [] if single or self.depth else self.blends  # nested use changes nothing
        self.depth += 1
        try:
            for blend in blends:
                blend.attach()
            yield
        finally:
            self.depth -= 1
            for blend in blends:
                blend.detach()
            if single and not self.depth:
                set_mode(self.norms, self.batch)  # the bare model predicts by the batch where the adapter does


def set_mode(norms: list[_BatchNorm], batch: bool) -> None:
    """Normalise by the batch, or by running statistics; update running statistics in neither case.

    Training mode with `track_running_stats=False` does not update the running statistics. The two flags are written past
    `nn.Module.__setattr__`, whose search for parameters takes, over all layers of a pass, as long as a convolution.
    """
    for norm in norms:
        own = vars(norm)
        own["training"], own["track_running_stats"] = batch, not batch


class Blend:
    """Hooks that let a BatchNorm layer in evaluation mode normalise by share * batch + (1 - share) * source statistics.

    A pre-hook puts the blend in place of the running statistics, a forward hook puts the source's back. The layer's own
    forward runs in between, so subclasses and the user's hooks keep working.
    """

    def __init__(self, norm: _BatchNorm) -> None:
        self.norm, self.share = norm, 0.0
        self._buffers = cast(dict[str, Tensor], norm._buffers)  # ten times as fast to write as the module's attributes
        self._source = {name: self._buffers[name] for name in ("running_mean", "running_var")}
        self._handles: tuple[RemovableHandle, ...] = ()

    def attach(self) -> None:
        self._source = {name: self._buffers[name] for name in self._source}
        self._handles = (
            self.norm.register_forward_pre_hook(self._blend, with_kwargs=True),  # after the user's
            self.norm.register_forward_hook(self._restore, prepend=True),  # before the user's
        )

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._buffers.update(self._source)  # where the layer's forward failed, its hook has not run

    def _blend(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        share, source_mean, source_var = self.share, self._source["running_mean"], self._source["running_var"]
        name, x = (None, args[0]) if args else next(iter(kwargs.items()))
        batch_mean, batch_var = moments(x.detach())
        mean = torch.lerp(source_mean.to(batch_mean), batch_mean, share)
        var = torch.lerp(source_var.to(batch_var), batch_var, share)
        if torch.is_grad_enabled() and x.requires_grad:
            x = BlendGradient.apply(x, batch_mean, mean, var + self.norm.eps, share)
        self._buffers["running_mean"], self._buffers["running_var"] = mean.to(source_mean.dtype), var.to(source_var.dtype)
        return ((x, *args[1:]), kwargs) if name is None else ((), {**kwargs, name: x})

    def _restore(self, *hook_arguments: Any) -> None:
        self._buffers.update(self._source)


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of every channel of x (B, C, ...), in float32 or wider."""
    wide = torch.promote_types(x.dtype, torch.float32)
    if torch.compiler.is_compiling() or x.device.type not in ("cpu", "cuda"):
        var, mean = torch.var_mean(x.to(wide), not_channels(x), correction=0)
        return mean, var
    mean, var = torch.batch_norm_update_stats(
        x if x.is_cuda else x.to(wide), None, None, 0.0
    )  # three times as fast as var_mean
    return mean, var


class BlendGradient(torch.autograd.Function):
    """The identity on x; its backward adds the gradient through the blended statistics that x is normalised by.

    The layer itself treats the statistics m and v as constants: it returns g = k dy with k = dy/dx. With `share` of m and v
    from the batch, and <.> the mean over a channel's values, the whole gradient is
    dx = g - share <g> - share (x - batch mean) <g (x - m)> / (v + eps).
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
            return fused_gradient(g, x, batch_mean, m, v, share), None, None, None, None
        centred, mean_g = x - per_channel(batch_mean, x), g.mean(not_channels(x), dtype=v.dtype)
        tilt = (g * centred).mean(not_channels(x)) + (batch_mean - m) * mean_g
        centred.mul_(per_channel(-share * tilt / v, x)).sub_(per_channel(share * mean_g, x))
        return centred.add_(g).to(x.dtype), None, None, None, None


def fused_gradient(g: Tensor, x: Tensor, batch_mean: Tensor, m: Tensor, v: Tensor, share: float) -> Tensor:
    """The same gradient by two CUDA kernels that compute (g - <g> - (x - batch mean) i^2 <g (x - batch mean)>) i w.

    They take the sums <.> as arguments, so passing the sums times `share` gives the gradient of the blend.
    """
    last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
    g, x = (t.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format) for t in (g, x))
    i, w = v.rsqrt(), v.sqrt()
    mean_g, tilt, _, _ = torch.batch_norm_backward_reduce(g, x, batch_mean, i, w, True, False, False)
    tilt = torch.addcmul(tilt, batch_mean - m, mean_g).mul_(share)
    count = torch.full((1,), x.numel() // x.shape[1], dtype=torch.int32, device=x.device)
    return torch.batch_norm_backward_elemt(g, x, batch_mean, i, w, mean_g.mul_(share), tilt, count)


def not_channels(x: Tensor) -> tuple[int, ...]:
    """All axes of x (B, C, ...) except the channels."""
    return tuple(i for i in range(x.ndim) if i != 1)


def per_channel(values: Tensor, x: Tensor) -> Tensor:
    """One value a channel, shaped to broadcast against x (B, C, ...)."""
    return values.reshape(-1, *[1] * (x.ndim - 2))
