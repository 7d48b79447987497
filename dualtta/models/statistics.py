"""What BatchNorm normalises by: the batch, the source's running statistics, or a blend. None of them is ever touched."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
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
                stack.enter_context(_blended(norm, float(statistics)))
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


@contextmanager
def _blended(norm: _BatchNorm, share: float) -> Iterator[None]:
    """Normalise by (1 - share) of the running statistics and `share` of the batch's; no gradient flows through them."""
    mean, var = norm.running_mean, norm.running_var
    if mean is None or var is None:
        yield  # it has only ever normalised by the batch
        return

    def blend(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        others = tuple(i for i in range(args[0].ndim) if i != 1)
        batch_var, batch_mean = torch.var_mean(args[0].detach().to(mean.dtype), others, correction=0)
        norm.running_mean, norm.running_var = torch.lerp(mean, batch_mean, share), torch.lerp(var, batch_var, share)

    handle = norm.register_forward_pre_hook(blend)
    try:
        yield
    finally:
        handle.remove()
        norm.running_mean, norm.running_var = mean, var
