"""Preprocessing of images for a model: size, crop, interpolation, mean and standard deviation of its training.

preprocess = PREPROCESS["vit"]                 # or Preprocess.of(model) for a timm model
x = preprocess(dataset.image(17))              # (3, H, W), normalised
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from dualtta.data.datasets.base import Dataset, Picture
from dualtta.data.geometry import as_image, fit

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


class PreprocessWarning(UserWarning):
    """The dataset's images do not fit what the model was trained on."""


@dataclass(frozen=True)
class Preprocess:
    """Scale the shorter side to size / crop, crop the central size x size, then (pixels / 255 - mean) / std.

    `size=None` does not resize, for models that were trained on the dataset's original size.
    """

    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    size: int | None = 224
    crop: float = 0.875
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            raise ValueError(f"interpolation must be one of {', '.join(INTERPOLATIONS)}, not {self.interpolation!r}")
        if len(self.mean) != 3 or len(self.std) != 3 or not all(deviation > 0 for deviation in self.std):
            raise ValueError(f"mean and std are three numbers each, std above zero, not {self.mean} and {self.std}")
        if not 0 < self.crop <= 1 or (self.size is not None and self.size < 1):
            raise ValueError(f"size must be at least 1 and crop between 0 and 1, not {self.size} and {self.crop}")

    @classmethod
    def of(cls, model: Any) -> "Preprocess":
        """The preprocessing in a timm model's `pretrained_cfg`, or in such a dict; a ValueError where there is none."""
        given = model if isinstance(model, Mapping) else getattr(model, "pretrained_cfg", None)
        if not given or "mean" not in given:
            ready = ", ".join(PREPROCESS)
            raise ValueError(f"this model has no pretrained_cfg with its preprocessing: pass a Preprocess, or one of {ready}")
        size = given.get("test_input_size") or given["input_size"]
        crop = given.get("test_crop_pct") or given.get("crop_pct") or 0.875
        interpolation = given.get("interpolation") or "bicubic"
        known = interpolation if interpolation in INTERPOLATIONS else "bicubic"  # "random" is for training only
        return cls(tuple(given["mean"]), tuple(given["std"]), int(size[-1]), float(crop), known)

    def pixels(self, picture: Picture) -> Tensor:
        """The resized and cropped image as bytes (3, H, W), not normalised: a quarter of the memory of floats."""
        if self.size is None:
            image = as_image(picture)
        else:
            image = fit(picture, self.size, self.crop, INTERPOLATIONS[self.interpolation])
        return torch.from_numpy(np.array(image).transpose(2, 0, 1).copy())

    def normalise(self, pixels: Tensor) -> Tensor:
        """Normalise bytes (..., 3, H, W), on their device."""
        std = torch.tensor(self.std, device=pixels.device).view(3, 1, 1)
        shift = torch.tensor(self.mean, device=pixels.device).view(3, 1, 1) / std
        return pixels.float().mul_(1 / (255 * std)).sub_(shift)  # in place: faster on a CPU

    def __call__(self, picture: Picture) -> Tensor:
        return self.normalise(self.pixels(picture))

    def mismatches(self, dataset: Dataset, model: Any = None) -> list[str]:
        """Mismatches between this preprocessing, the dataset's first image and, for a timm model, its training."""
        picture = dataset.image(0)
        height, width = (picture.height, picture.width) if isinstance(picture, Image.Image) else picture.shape[:2]
        found = []
        if not isinstance(picture, Image.Image) and picture.ndim == 2:
            found.append("the images are grey and the model takes three channels: all three get the same values")
        if self.size is not None and min(height, width) < self.size / 2:
            found.append(f"images of {width} x {height} are enlarged to {self.size} x {self.size}")
        if self.size is None and height != width:
            found.append(f"images of {width} x {height} are not resized: give the preprocessing a size")
        cfg = getattr(model, "pretrained_cfg", None)
        if cfg and "mean" in cfg:
            theirs = Preprocess.of(model)
            for key in ("mean", "std", "size"):
                ours, wanted = getattr(self, key), getattr(theirs, key)
                if not _close(ours, wanted):
                    found.append(f"the model's weights were trained with {key} {wanted}, not {ours}")
        return found

    def warn(self, dataset: Dataset, model: Any = None) -> None:
        """Warn of all mismatches at once."""
        if found := self.mismatches(dataset, model):
            warnings.warn(f"{dataset.name or 'the dataset'}: {'; '.join(found)}", PreprocessWarning, stacklevel=2)

    def about(self) -> dict[str, Any]:
        """The settings, for records."""
        return asdict(self)


def _close(ours: Any, wanted: Any) -> bool:
    if isinstance(ours, Sequence) and isinstance(wanted, Sequence):
        return len(ours) == len(wanted) and all(math.isclose(a, b, abs_tol=1e-3) for a, b in zip(ours, wanted, strict=True))
    return bool(ours == wanted)


HALF = (0.5, 0.5, 0.5)
PREPROCESS: dict[str, Preprocess] = {
    "imagenet": Preprocess(),  # torchvision's weights, and timm's ResNets
    "resnet50_v1": Preprocess(mean=(0.48502, 0.45796, 0.40760)),
    "vit": Preprocess(HALF, HALF, 224, 0.9, "bicubic"),  # timm's ViT-B/16; ImageNet's mean and std cost accuracy
    "efficientnet_lite0": Preprocess(HALF, HALF, 224, 0.875, "bicubic"),
    "cifar10": Preprocess((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), None),
    "digits": Preprocess((0.1307,) * 3, (0.3081,) * 3, None),
    "colored_mnist": Preprocess((0.1307, 0.1307, 0.0), (0.3081,) * 3, None),
}
