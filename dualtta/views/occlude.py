"""A semantic-altering view that hides: the middle of the image becomes its mean colour (DeYO's occlusion)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from dualtta.views.base import Draws, InputView, check_share, images_only


def occlude(x: Tensor, share: float) -> Tensor:
    """The central window of `share` of each side is filled with each image's channel means."""
    height, width = x.shape[2:]
    h, w = round(height * share), round(width * share)
    top, left = (height - h) // 2, (width - w) // 2
    out = x.clone()
    out[:, :, top : top + h, left : left + w] = x.mean((2, 3), keepdim=True)
    return out


@dataclass(frozen=True)
class Occlusion(InputView):
    """Hide the middle of the image. Nothing is random here."""

    name: ClassVar[str] = "occ"
    share: float = 0.5  # of each side: 112 of 224

    def __post_init__(self) -> None:
        check_share(self, "share", self.share)

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        images_only(self, x)
        return ()

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return occlude(x, self.share)
