"""From an image of any shape to the square that a model takes."""

import math

import numpy as np
from PIL import Image

from dualtta.data.datasets.base import Picture
from dualtta.data.images import LARGEST


def as_image(picture: Picture) -> Image.Image:
    """An RGB image of what a dataset yields; a grey one becomes three equal channels."""
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(np.ascontiguousarray(picture))
    return image if image.mode == "RGB" else image.convert("RGB")


def fit(picture: Picture, size: int, crop: float, interpolation: Image.Resampling) -> Image.Image:
    """The central `size` x `size` of the image, once its shorter side is `size / crop`.

    An image that already is of that size is left alone: ImageNet-C comes cropped, and cropping it twice costs accuracy.
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
