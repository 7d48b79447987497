"""The paper's semantic-preserving view: perturb the style (channel means and deviations) of a feature map.

    U^sp = U + eps_U U^sigma,   S^sp = S + eps_S S^sigma,   Z^sp = (Z - U) S^sp / S + U^sp

U and S are each sample's channel mean and deviation over positions, U^sigma and S^sigma their deviations over the batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from dualtta.views.base import Draws, FeatureView, normal


def moments(z: Tensor) -> tuple[Tensor, Tensor]:
    """Channel mean and population deviation over positions: (B, C, ...) -> two of (B, C, 1, ...).

    >>> [m.flatten().tolist() for m in moments(torch.tensor([[[1.0, 3.0]]]))]
    [[2.0], [1.0]]
    """
    u, _, s = centred(z)
    return u, s


def centred(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Channel mean, what is left of z without it, and the deviation of that."""
    positions = tuple(range(2, z.ndim))
    if not positions:
        return z, torch.zeros_like(z), torch.zeros_like(z)
    u = z.mean(positions, keepdim=True)
    away = z - u
    return u, away, torch.linalg.vector_norm(away, dim=positions, keepdim=True) / z.shape[2:].numel() ** 0.5


def restyle(z: Tensor, old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> Tensor:
    """Replace each channel's moments (mean, deviation); a channel without variation has only its mean moved.

    >>> z = torch.tensor([[[1.0, 3.0], [5.0, 5.0]]])
    >>> restyle(z, moments(z), (torch.zeros(1, 2, 1), torch.full((1, 2, 1), 2.0))).tolist()
    [[[-2.0, 2.0], [0.0, 0.0]]]
    """
    return rescaled(z - old[0], old, new)


def rescaled(away: Tensor, old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> Tensor:
    """The same of z - u, as `centred` has it already."""
    (u, s), (u_new, s_new) = old, new
    flat = s <= 8 * torch.finfo(away.dtype).eps * u.abs()  # a constant channel's deviation is rounding, not variation
    scale = s_new.masked_fill(flat, 0.0) / s.masked_fill(flat, 1.0)  # before the division: its gradient must not see a zero
    return torch.addcmul(u_new, away, scale)


def spread(values: Tensor) -> Tensor:
    """Population deviation over the batch, the U^sigma and S^sigma of the paper: (B, C, ...) -> (1, C, ...)."""
    return (values - values.mean(0, keepdim=True)).square().mean(0, keepdim=True).sqrt()


def extend(memory: Mapping[str, Tensor], value: Tensor) -> dict[str, Tensor]:
    """Count one more `value` into the running mean and sum of squared deviations kept in memory (Welford)."""
    if "count" not in memory:
        return {"count": value.new_ones(()), "mean": value, "squares": torch.zeros_like(value)}
    count, gap = memory["count"] + 1, value - memory["mean"]
    moved = memory["mean"] + gap / count  # a count that was loaded is on the CPU, which addcdiv does not take
    return {"count": count, "mean": moved, "squares": memory["squares"] + gap * (value - moved)}


@dataclass(frozen=True)
class Style(FeatureView):
    """The style perturbation at a named layer.

    A batch of one has no deviation over the batch; there it is taken over the single samples the stream has shown so far, or,
    with `running=False`, as printed: it is zero, and the view shows nothing new.
    """

    name: ClassVar[str] = "style"
    layer: str | None = None
    running: bool = True

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        return normal(generator, len(x)), normal(generator, len(x))

    def transform(
        self, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return self._restyled(z, draws, channel, prefix, memory, None)

    def transform_some(
        self, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor], rows: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return self._restyled(z, draws, channel, prefix, memory, rows)

    def _restyled(
        self, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor], rows: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """These rows restyled by their own moments and by the whole batch's deviations."""
        wide = z.float() if z.dtype in (torch.bfloat16, torch.float16) else z
        first = wide if channel == 1 else wide.movedim(channel, 1)
        u, away, s = centred(first[:, :, prefix:] if prefix else first)
        observed: dict[str, Tensor] = {}
        if len(z) == 1 and self.running:
            observed = extend(memory, torch.stack([u, s]))
            u_sigma, s_sigma = (observed["squares"] / observed["count"]).sqrt()
        else:
            u_sigma, s_sigma = spread(u), spread(s)
        if rows is not None:
            if not len(rows):
                return z[:0], observed  # nobody is looked at, but the stream's deviation counts everybody
            draws, (u, away, s) = tuple(d[rows] for d in draws), (u[rows], away[rows], s[rows])
        eps_u, eps_s = (d.to(wide).reshape(-1, *[1] * (first.ndim - 1)) for d in draws)
        styled = rescaled(away, (u, s), (u + eps_u * u_sigma, s + eps_s * s_sigma))
        if prefix:
            others = first if rows is None else first[rows]
            styled = torch.cat([others[:, :, :prefix], styled], 2)
        return (styled if channel == 1 else styled.movedim(1, channel)).to(z.dtype), observed
