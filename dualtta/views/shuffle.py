"""Semantic-altering views that move pixels: patch shuffle (DeYO, https://arxiv.org/abs/2403.07366) and pixel shuffle."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from einops import rearrange
from torch import Generator, Tensor

from dualtta.views.base import Draws, InputView, images_only, uniform


def shuffle_patches(x: Tensor, keys: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position j of image b takes patch argsort(keys[b])[j]; patches are counted row by row.

    Where the grid does not divide the image, the rows and columns that are left over at the bottom and right stay in place.

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
        order = order + torch.arange(0, len(patches), rows * cols, device=x.device)[:, None]  # from each image's first on
    return rearrange(patches.index_select(0, order.flatten()), "(b r q) c h w -> b c (r h) (q w)", r=rows, q=cols)


@dataclass(frozen=True)
class PatchShuffle(InputView):
    """Cut into grid x grid patches and shuffle them, each image in its own order; a grid finer than the image moves pixels."""

    name: ClassVar[str] = "patch"
    grid: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.grid, bool) or not isinstance(self.grid, int) or self.grid < 1:
            raise ValueError(f"the patch grid must be a whole number of at least 1, not {self.grid!r}")

    def _grid(self, x: Tensor) -> tuple[int, int]:
        images_only(self, x)
        return min(self.grid, x.shape[2]), min(self.grid, x.shape[3])

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        rows, cols = self._grid(x)
        return (uniform(generator, len(x), rows * cols),)

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return shuffle_patches(x, draws[0], self._grid(x))


@dataclass(frozen=True)
class PixelShuffle(InputView):
    """Shuffle single pixels, each image in its own order: what is left is the colour histogram."""

    name: ClassVar[str] = "pixel"

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        images_only(self, x)
        return (uniform(generator, len(x), x.shape[2] * x.shape[3]),)

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return shuffle_patches(x, draws[0], (x.shape[2], x.shape[3]))
