"""Semantic-altering views besides patch shuffle: pixel shuffle and occlusion."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from dualtta.views.base import Draws, InputView, check_images, check_share, uniform
from dualtta.views.default import shuffle_patches


@dataclass(frozen=True)
class PixelShuffle(InputView):
    """Shuffle single pixels, each image in its own order; the colour histogram stays."""

    name: ClassVar[str] = "pixel"

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        check_images(self, x)
        return (uniform(generator, len(x), x.shape[2] * x.shape[3]),)

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return shuffle_patches(x, draws[0], (x.shape[2], x.shape[3]))


def occlude(x: Tensor, share: float) -> Tensor:
    """Fill the central window, `share` of each side, with the image's channel means."""
    height, width = x.shape[2:]
    h, w = round(height * share), round(width * share)
    top, left = (height - h) // 2, (width - w) // 2
    out = x.clone()
    out[:, :, top : top + h, left : left + w] = x.mean((2, 3), keepdim=True)
    return out


@dataclass(frozen=True)
class Occlusion(InputView):
    """Replace the middle of the image by its mean colour (DeYO's occlusion). Nothing is drawn at random."""

    name: ClassVar[str] = "occ"
    share: float = 0.5  # of each side: 112 of 224

    def __post_init__(self) -> None:
        check_share(self, "share", self.share)

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        check_images(self, x)
        return ()

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return occlude(x, self.share)
