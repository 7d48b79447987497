"""The 15 corruptions of ImageNet-C and CIFAR-C at five severities, image by image and reproducible.

    noisy = corrupt(image, "gaussian_noise", 3, rng_for(2024, "gaussian_noise", 3, index))

An independent implementation of Hendrycks & Dietterich (https://arxiv.org/abs/1903.12261) that follows the published sets in
parameters, conventions of the libraries, and order of the random draws.
"""

import zlib
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.random import RandomState

from dualtta.data.corruptions.blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from dualtta.data.corruptions.digital import contrast, elastic_transform, jpeg_compression, pixelate
from dualtta.data.corruptions.noise import Image, gaussian_noise, impulse_noise, shot_noise
from dualtta.data.corruptions.severities import TABLES, table_for
from dualtta.data.corruptions.textures import FrostSource, find_frost
from dualtta.data.corruptions.weather import brightness, fog, frost, snow

__all__ = ["CORRUPTIONS", "SEVERITIES", "FrostSource", "corrupt", "find_frost", "rng_for"]

CORRUPTIONS: dict[str, Callable[..., Image]] = {
    function.__name__: function
    for function in (
        *(gaussian_noise, shot_noise, impulse_noise),
        *(defocus_blur, glass_blur, motion_blur, zoom_blur),
        *(snow, frost, fog, brightness),
        *(contrast, elastic_transform, pixelate, jpeg_compression),
    )
}
SEVERITIES = (1, 2, 3, 4, 5)


def corrupt(
    image: Image,
    name: str,
    severity: int,
    rng: RandomState,
    *,
    frost: FrostSource | str | Path | None = None,
    table: str | None = None,
) -> Image:
    """A corrupted copy of an image of bytes, (H, W, 3), or grey as (H, W, 1) or (H, W), which stays grey.

    Args:
        image: Bytes.
        name: A key of `CORRUPTIONS`.
        severity: 1 to 5.
        rng: The generator of the random draws; see `rng_for`.
        frost: Textures, or a folder of them; by default those of `find_frost()`.
        table: The parameters, "imagenet" or "cifar"; by default "cifar" where the shorter side is below 85 (closer to 32
            than to 224).

    >>> grey = np.full((32, 32), 100, np.uint8)
    >>> int(corrupt(grey, "brightness", 5, rng_for(0, "brightness", 5, 0))[0, 0])
    176
    """
    check_names([name])
    check_severities([severity])
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.size == 0 or image.shape[2:] not in ((), (1,), (3,)):
        raise ValueError(f"an image is bytes (H, W, 3) or (H, W), not {image.dtype} {image.shape}: convert it first")
    table = table or table_for(*image.shape[:2])
    if table not in TABLES:
        raise ValueError(f"there is no table {table!r}: take {' or '.join(TABLES)}")
    settings = TABLES[table][name][severity - 1]
    if name == "frost":
        settings = {**settings, "textures": frost if isinstance(frost, FrostSource) else find_frost(frost)}
    pixels = np.ascontiguousarray(image if image.ndim == 3 else image[..., None])
    return CORRUPTIONS[name](pixels, rng, **settings).reshape(image.shape)


def rng_for(seed: int, corruption: str, severity: int, index: int) -> RandomState:
    """The generator of one corrupted image, which does not depend on the images before it."""
    return RandomState([seed, zlib.crc32(corruption.encode()), severity, index])


def check_names(names: list[str]) -> None:
    """A ValueError where one is no corruption."""
    for name in names:
        if name not in CORRUPTIONS:
            near = get_close_matches(name, CORRUPTIONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CORRUPTIONS)}"
            raise ValueError(f"there is no corruption {name!r}: {hint}")


def check_severities(severities: list[int]) -> None:
    """A ValueError where one is no severity."""
    for severity in severities:
        if severity not in SEVERITIES:
            raise ValueError(f"there is no severity {severity}: take 1 to 5")
