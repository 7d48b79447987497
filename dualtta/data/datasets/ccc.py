"""Continually changing corruptions (https://arxiv.org/abs/2306.05401) of any images, generated on access.

    data = ContinuallyChanging(ImageNet(root), difficulty="hard", speed=2000, length=100_000, prepare=as_published)

Two of the 15 corruptions act on every image, with severities that change by at most 0.25 every `speed` images, along a path on
which a fixed model's accuracy stays the same (`dualtta.data.ccc`). The published benchmark calibrates all pairs of severities
by a ResNet-50, whose accuracies are about 34, 17 and 2 % on Easy, Medium and Hard; the one here keeps a half, a quarter and a
fortieth of the clean accuracy of a model that is calibrated on fewer points, and images differ. So numbers are not comparable
with published ones.
"""

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.data.ccc.calibration import BY_SEVERITY, Calibration, from_dict, shipped
from dualtta.data.ccc.path import path
from dualtta.data.datasets.base import Dataset, Picture, Pixels
from dualtta.data.datasets.cifar import Cifar10
from dualtta.data.datasets.digits import Digits, in_color
from dualtta.data.datasets.folders import Folder
from dualtta.data.datasets.imagenet import ImageNet, as_published

IMAGENET_MODEL = "mobilenet_v3_small"  # whose calibration comes with the package
LENGTH = 50_000


class ContinuallyChanging(Dataset):
    """A long sequence of a dataset's images. The scenario `sequence` keeps its order.

    Args:
        base: The dataset to corrupt; each of its images occurs once before any occurs again.
        difficulty: easy, medium or hard.
        speed: Images for each step of the severities: 1000, 2000 and 5000 in the published benchmark.
        length: Images in all.
        seed: Of the order of corruptions and images, and of the corruptions' random draws.
        calibration: The name of one of the package, a `Calibration`, or the content of its file.
        frost: A folder of frost textures; see `find_frost`.
        prepare: Turns an image of `base` into the bytes (H, W, 3) that are corrupted.
        name: The name in records; by default that of `base`.
    """

    def __init__(
        self,
        base: Dataset,
        *,
        difficulty: str = "medium",
        speed: int = 1000,
        length: int = LENGTH,
        seed: int = 2024,
        calibration: str | Mapping[str, Any] | Calibration = BY_SEVERITY,
        frost: str | Path | None = None,
        prepare: Callable[[Picture], Pixels] = np.asarray,
        name: str = "",
    ) -> None:
        for what, number in (("speed", speed), ("length", length)):
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"{what} must be a whole number of at least 1, not {number!r}")
        self.base, self.seed, self.frost, self.prepare = base, seed, frost, prepare
        self.name, self.difficulty, self.speed = name or base.name, difficulty, speed
        self.calibration = calibration_of(calibration)
        self.path = path(self.calibration, difficulty, seed, -(-length // speed))
        rng = np.random.RandomState([seed, 1])
        passes = [rng.permutation(len(base)) for _ in range(-(-length // len(base)))]
        self.rows = np.concatenate(passes)[:length]
        grouped = base.group[self.rows] if base.groups else None
        super().__init__(base.labels[self.rows], base.classes, domains=(difficulty,), group=grouped, groups=base.groups)

    def image(self, index: int) -> Picture:
        from dualtta.data.corruptions.continuous import corrupt_at  # imports OpenCV

        point = self.path[index // self.speed]
        image = self.prepare(self.base.image(int(self.rows[index])))
        for corruption, severity in ((point.first, point.severity), (point.second, point.other)):
            rng = np.random.RandomState([self.seed, zlib.crc32(corruption.encode()), index])
            image = corrupt_at(image, corruption, severity, rng, frost=self.frost)
        return image

    def where(self, index: int) -> str:
        point = self.path[index // self.speed]
        words = f"{point.first} {point.severity:g} and {point.second} {point.other:g}"
        return f"{self.base.where(int(self.rows[index]))} under {words}"

    def about(self) -> dict[str, Any]:
        drawn = {"drawn": "on the fly", "difficulty": self.difficulty, "speed": self.speed, "seed": self.seed}
        return {**super().about(), **drawn, "calibration": self.calibration.model, "of": self.base.about()}


def calibration_of(given: str | Mapping[str, Any] | Calibration) -> Calibration:
    """A calibration by its name or its content."""
    if isinstance(given, Calibration):
        return given
    return shipped(given) if isinstance(given, str) else from_dict(given)


def imagenet_ccc(
    root: str | Path,
    *,
    difficulty: str = "medium",
    speed: int = 1000,
    length: int = LENGTH,
    seed: int = 2024,
    calibration: str | Mapping[str, Any] = IMAGENET_MODEL,
    frost: str | Path | None = None,
) -> Dataset:
    """ImageNet's validation images under continually changing corruptions."""
    chosen: dict[str, Any] = {"difficulty": difficulty, "speed": speed, "length": length, "seed": seed}
    made: dict[str, Any] = {"calibration": calibration, "frost": frost, "prepare": as_published, "name": "imagenet_ccc"}
    return ContinuallyChanging(ImageNet(root), **chosen, **made)


def cifar10_ccc(
    root: str | Path,
    *,
    difficulty: str = "medium",
    speed: int = 1000,
    length: int = LENGTH,
    seed: int = 2024,
    calibration: str | Mapping[str, Any] = BY_SEVERITY,
    frost: str | Path | None = None,
) -> Dataset:
    """CIFAR-10's test images under continually changing corruptions."""
    chosen: dict[str, Any] = {"difficulty": difficulty, "speed": speed, "length": length, "seed": seed}
    return ContinuallyChanging(Cifar10(root), calibration=calibration, frost=frost, name="cifar10_ccc", **chosen)


def digits_ccc(
    root: str | Path | None = None,
    *,
    difficulty: str = "medium",
    speed: int = 1000,
    length: int = LENGTH,
    seed: int = 2024,
    calibration: str | Mapping[str, Any] = BY_SEVERITY,
    frost: str | Path | None = None,
) -> Dataset:
    """The 1,500 embedded test digits under continually changing corruptions."""
    chosen: dict[str, Any] = {"difficulty": difficulty, "speed": speed, "length": length, "seed": seed}
    made: dict[str, Any] = {"calibration": calibration, "frost": frost, "prepare": in_color, "name": "digits_ccc"}
    return ContinuallyChanging(Digits(), **chosen, **made)


def folder_ccc(
    root: str | Path,
    *,
    difficulty: str = "medium",
    speed: int = 1000,
    length: int = LENGTH,
    seed: int = 2024,
    calibration: str | Mapping[str, Any] = IMAGENET_MODEL,
    frost: str | Path | None = None,
) -> Dataset:
    """Images of your own, in folders `class/image`, under continually changing corruptions; cut to 224 x 224."""
    chosen: dict[str, Any] = {"difficulty": difficulty, "speed": speed, "length": length, "seed": seed}
    made: dict[str, Any] = {"calibration": calibration, "frost": frost, "prepare": as_published, "name": "folder_ccc"}
    return ContinuallyChanging(Folder(root), **chosen, **made)
