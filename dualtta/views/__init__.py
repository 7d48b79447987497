"""Views: semantic-altering (shuffle, occlude) and semantic-preserving (style, recolor)."""

from dualtta.views.alter import Occlusion, PixelShuffle
from dualtta.views.base import Draws, FeatureView, InputView, View
from dualtta.views.default import PatchShuffle, Style
from dualtta.views.recolor import AdaIN, ColorJitter, FourierMix

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
