"""DualTTA's two views: patch shuffle (semantic-altering) and style perturbation (semantic-preserving).

Patch shuffle is DeYO's (https://arxiv.org/abs/2403.07366). The style perturbation changes the channel means U and deviations S
of a feature map Z, which are taken over positions, by their deviations over the batch, U^sigma and S^sigma:

    U^sp = U + eps_U U^sigma,   S^sp = S + eps_S S^sigma,   Z^sp = (Z - U) S^sp / S + U^sp
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from einops import rearrange
from torch import Generator, Tensor

from dualtta.views.base import Draws, FeatureView, InputView, not_images


def shuffle_patches(x: Tensor, keys: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position j of image b takes patch argsort(keys[b])[j]; patches are counted row by row.

    Where the grid does not divide the image, the remaining rows and columns at the bottom and right stay in place.

    >>> x = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> shuffle_patches(x, torch.tensor([[0.3, 0.2, 0.1, 0.4]]), (2, 2)).flatten().tolist()
    [2.0, 1.0, 0.0, 3.0]
    """
    rows, cols = grid
    h, w = x.shape[2] // rows * rows, x.shape[3] // cols * cols
    if (h, w) != x.shape[2:]:
        out = x.clone()
        out[:, :, :h, :w] = shuffle_patches(x[:, :, :h, :w], keys, grid)
        return out
    patches = rearrange(x, "b c (r h) (q w) -> (b r q) c h w", r=rows, q=cols)
    order = keys.argsort(dim=1)
    if len(keys) > 1:
        order = order + torch.arange(0, len(patches), rows * cols, device=x.device)[:, None]  # offsets of the images
    return rearrange(patches.index_select(0, order.flatten()), "(b r q) c h w -> b c (r h) (q w)", r=rows, q=cols)


@dataclass(frozen=True)
class PatchShuffle(InputView):
    """Cut each image into grid x grid patches and shuffle them; where the grid is finer than the image, single pixels move."""

    name: ClassVar[str] = "patch"
    grid: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.grid, bool) or not isinstance(self.grid, int) or self.grid < 1:
            raise ValueError(f"the patch grid must be a whole number of at least 1, not {self.grid!r}")

    def _grid(self, x: Tensor) -> tuple[int, int]:
        if x.ndim != 4:
            raise not_images(self, x)
        return min(self.grid, x.shape[2]), min(self.grid, x.shape[3])

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        rows, cols = self._grid(x)
        return (torch.rand(len(x), rows * cols, generator=generator, dtype=torch.float64, device=generator.device),)

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return shuffle_patches(x, draws[0], self._grid(x))


def moments(z: Tensor) -> tuple[Tensor, Tensor]:
    """Channel mean and population deviation over positions: (B, C, ...) -> two of (B, C, 1, ...).

    >>> [m.flatten().tolist() for m in moments(torch.tensor([[[1.0, 3.0]]]))]
    [[2.0], [1.0]]
    """
    u, _, s = centre(z)
    return u, s


def centre(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Channel mean u over positions, z - u, and the deviation."""
    positions = tuple(range(2, z.ndim))
    if not positions:
        return z, torch.zeros_like(z), torch.zeros_like(z)
    u = z.mean(positions, keepdim=True)
    centred_z = z - u
    return u, centred_z, torch.linalg.vector_norm(centred_z, dim=positions, keepdim=True) / z.shape[2:].numel() ** 0.5


def restyle(z: Tensor, old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> Tensor:
    """Replace each channel's moments (mean, deviation); a channel without variation has only its mean moved.

    >>> z = torch.tensor([[[1.0, 3.0], [5.0, 5.0]]])
    >>> restyle(z, moments(z), (torch.zeros(1, 2, 1), torch.full((1, 2, 1), 2.0))).tolist()
    [[[-2.0, 2.0], [0.0, 0.0]]]
    """
    return rescale(z - old[0], old, new)


def rescale(centred: Tensor, old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> Tensor:
    """`restyle` of z - u, which `centre` has computed already."""
    (u, s), (u_new, s_new) = old, new
    flat = s <= 8 * torch.finfo(centred.dtype).eps * u.abs()  # the deviation of a constant channel is rounding
    scale = s_new.masked_fill(flat, 0.0) / s.masked_fill(flat, 1.0)  # before the division: its gradient would be NaN at a zero
    return torch.addcmul(u_new, centred, scale)


def spread(values: Tensor) -> Tensor:
    """Population deviation over the batch, the U^sigma and S^sigma of the paper: (B, C, ...) -> (1, C, ...)."""
    return (values - values.mean(0, keepdim=True)).square().mean(0, keepdim=True).sqrt()


def extend(memory: Mapping[str, Tensor], value: Tensor) -> dict[str, Tensor]:
    """The running mean and sum of squared deviations in memory, updated with one more value (Welford's algorithm)."""
    if "count" not in memory:
        return {"count": value.new_ones(()), "mean": value, "squares": torch.zeros_like(value)}
    count, delta = memory["count"] + 1, value - memory["mean"]
    moved = memory["mean"] + delta / count  # not addcdiv, which refuses the count of a loaded state, a CPU tensor
    return {"count": count, "mean": moved, "squares": memory["squares"] + delta * (value - moved)}


@dataclass(frozen=True)
class Style(FeatureView):
    """The style perturbation at a named layer.

    The deviations of a batch of one are taken over all single samples of the stream so far. With `running=False` they are zero,
    as the formula has it, and the view is the identity.
    """

    name: ClassVar[str] = "style"
    layer: str | None = None
    running: bool = True

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        eps_u, eps_s = (
            torch.randn(len(x), generator=generator, dtype=torch.float64, device=generator.device) for _ in range(2)
        )
        return eps_u, eps_s

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
        """These rows, or all, restyled by their own moments and the whole batch's deviations."""
        wide = z.float() if z.dtype in (torch.bfloat16, torch.float16) else z
        first = wide if channel == 1 else wide.movedim(channel, 1)
        u, centred, s = centre(first[:, :, prefix:] if prefix else first)
        observed: dict[str, Tensor] = {}
        if len(z) == 1 and self.running:
            observed = extend(memory, torch.stack([u, s]))
            u_sigma, s_sigma = (observed["squares"] / observed["count"]).sqrt()
        else:
            u_sigma, s_sigma = spread(u), spread(s)
        if rows is not None:
            if not len(rows):
                return z[:0], observed  # no row is evaluated, but the stream's deviation counts the batch
            draws, (u, centred, s) = tuple(d[rows] for d in draws), (u[rows], centred[rows], s[rows])
        eps_u, eps_s = (d.to(wide).reshape(-1, *[1] * (first.ndim - 1)) for d in draws)
        styled = rescale(centred, (u, s), (u + eps_u * u_sigma, s + eps_s * s_sigma))
        if prefix:
            others = first if rows is None else first[rows]
            styled = torch.cat([others[:, :, :prefix], styled], 2)
        return (styled if channel == 1 else styled.movedim(1, channel)).to(z.dtype), observed
