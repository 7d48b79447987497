"""Resizing and cropping of images to a model's input size."""

import math

import numpy as np
from PIL import Image

from dualtta.data.datasets.base import Picture
from dualtta.data.images import LARGEST


def as_image(picture: Picture) -> Image.Image:
    """A dataset's image as a PIL image in RGB; a grey one gets three equal channels."""
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(np.ascontiguousarray(picture))
    return image if image.mode == "RGB" else image.convert("RGB")


def fit(picture: Picture, size: int, crop: float, interpolation: Image.Resampling) -> Image.Image:
    """Scale the shorter side to `size / crop` and crop the central `size` x `size`.

    An image that has this size already is not changed: ImageNet-C is published cropped, and a second crop costs accuracy.
    """
    image = as_image(picture)
    if image.size == (size, size):
        return image
    shorter = math.floor(size / crop)  # rounded as timm does; the longer side as torchvision does
    width, height = (shorter * side // min(image.size) for side in image.size)
    if width * height > LARGEST:
        raise ValueError(f"{image.width} x {image.height} pixels are too narrow to scale to {size}")
    if (width, height) != image.size:
        image = image.resize((width, height), interpolation)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))
