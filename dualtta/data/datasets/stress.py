"""Datasets for tests of harm: clean images, the 15 corruptions, and inputs that a deployed model should survive.

Each kind of image is a domain, so that a stream may hold any of them one after the other:

    clean           the images as the corruptions take them
    gaussian_noise  ... and the other 14 corruptions, pixel for pixel those of `Corrupted`
    constant        black, as with a covered lens
    noise           uniform random bytes
    extreme         clean images whose normalised values are 1e6 times as large: finite, and as wrong as they can be
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.data.datasets.base import Dataset, Pixels
from dualtta.data.datasets.cifar import Cifar10
from dualtta.data.datasets.corrupted import Corrupted
from dualtta.data.datasets.digits import Digits, in_color
from dualtta.data.datasets.folders import Folder
from dualtta.data.datasets.imagenet import ImageNet, as_published
from dualtta.data.published import CLEAN, CORRUPTIONS

EXTREME = 1e6
DISTURBANCES: dict[str, Callable[[Pixels, np.random.RandomState], Pixels]] = {
    CLEAN: lambda image, rng: image,
    "constant": lambda image, rng: np.zeros_like(image),
    "noise": lambda image, rng: rng.randint(0, 256, image.shape, np.uint8),
    "extreme": lambda image, rng: image,  # scaled by `gain` after the normalisation
}
KINDS = (CLEAN, *CORRUPTIONS, "constant", "noise", "extreme")


class Stress(Corrupted):
    """Every image of a dataset as each of `KINDS`; the arguments are those of `Corrupted`."""

    def __init__(self, base: Dataset, *, severity: int = 5, **others: Any) -> None:
        super().__init__(base, KINDS, (severity,), corrupt=self.disturb, **others)
        self.gain = np.where(self.domain == KINDS.index("extreme"), np.float32(EXTREME), np.float32(1))

    def disturb(self, image: Pixels, kind: str, severity: int, rng: np.random.RandomState) -> Pixels:
        """One image as one kind; `rng` is the generator that `Corrupted` gives its corruptions too."""
        if kind in DISTURBANCES:
            return DISTURBANCES[kind](image, rng)
        from dualtta.data.corruptions import corrupt

        drawn: Pixels = corrupt(image, kind, severity, rng, frost=self.frost)
        return drawn

    def _frost_origin(self) -> str | None:
        from dualtta.data.corruptions import find_frost

        return str(find_frost(self.frost).origin)


def imagenet_stress(root: str | Path, *, severity: int = 5, seed: int = 2024, frost: str | Path | None = None) -> Dataset:
    """ImageNet's validation images, clean, corrupted and disturbed."""
    base = ImageNet(root)
    return Stress(base, severity=severity, seed=seed, frost=frost, prepare=as_published, name="imagenet_stress")


def cifar10_stress(root: str | Path, *, severity: int = 5, seed: int = 2024, frost: str | Path | None = None) -> Dataset:
    """CIFAR-10's test images, clean, corrupted and disturbed."""
    return Stress(Cifar10(root), severity=severity, seed=seed, frost=frost, name="cifar10_stress")


def digits_stress(
    root: str | Path | None = None, *, severity: int = 5, seed: int = 2024, frost: str | Path | None = None
) -> Dataset:
    """The 1,500 embedded test digits, clean, corrupted and disturbed."""
    return Stress(Digits(), severity=severity, seed=seed, frost=frost, prepare=in_color, name="digits_stress")


def folder_stress(root: str | Path, *, severity: int = 5, seed: int = 2024, frost: str | Path | None = None) -> Dataset:
    """Images of your own, in folders `class/image`, clean, corrupted and disturbed; cut to 224 x 224 as ImageNet-C's."""
    return Stress(Folder(root), severity=severity, seed=seed, frost=frost, prepare=as_published, name="folder_stress")
