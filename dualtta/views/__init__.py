"""Views: semantic-altering (shuffle, occlude) and semantic-preserving (style, recolor)."""

from dualtta.views.base import Draws, FeatureView, InputView, View
from dualtta.views.occlude import Occlusion
from dualtta.views.recolor import AdaIN, ColorJitter, FourierMix
from dualtta.views.shuffle import PatchShuffle, PixelShuffle
from dualtta.views.style import Style

VIEWS: dict[str, type[View]] = {
    view.name: view for view in (PatchShuffle, PixelShuffle, Occlusion, Style, ColorJitter, AdaIN, FourierMix)
}

__all__ = [
    "VIEWS",
    "AdaIN",
    "ColorJitter",
    "Draws",
    "FeatureView",
    "FourierMix",
    "InputView",
    "Occlusion",
    "PatchShuffle",
    "PixelShuffle",
    "Style",
    "View",
]
