"""The 15 corruptions at any severity from 0 (the image itself) to 5: the parameters between two severities are interpolated.

    hazy = corrupt_at(image, "fog", 2.25, rng)

At whole severities these are the corruptions of `corrupt`. Amplitudes and lengths are interpolated linearly; numbers of photons
and the scales of the elastic transform, which differ by orders of magnitude between severities, geometrically. What can only
be a whole number is rounded.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import RandomState

from dualtta.data.corruptions import CORRUPTIONS, FrostSource, check_names, find_frost
from dualtta.data.corruptions.noise import Image
from dualtta.data.corruptions.severities import TABLES, Settings, table_for

HIGHEST = 5.0
SMALLEST = 1e-3  # of a deviation: no blur
# Parameters that leave the image as it is; the others of a corruption have those of severity 1.
REST: dict[str, Settings] = {
    "gaussian_noise": {"scale": 0.0},
    "shot_noise": {},  # infinitely many photons, see `settings_at`
    "impulse_noise": {"amount": 0.0},
    "defocus_blur": {"radius": 0.0},
    "glass_blur": {"sigma": SMALLEST, "rounds": 0},
    "motion_blur": {"sigma": SMALLEST},
    "zoom_blur": {"stop": 1.0},
    "snow": {"keep": 1.0, "threshold": 2.0},  # flakes are what exceeds the threshold
    "frost": {"keep": 1.0, "ice": 0.0},
    "fog": {"density": 0.0},
    "brightness": {"lift": 0.0},
    "contrast": {"keep": 1.0},
    "elastic_transform": {"amplitude": 0.0, "shift": 0.0},
    "pixelate": {"scale": 1.0},
    "jpeg_compression": {"quality": 95},
}
WHOLE = ("reach", "rounds", "quality")
GEOMETRIC = ("photons", "amplitude", "smoothness")


def corrupt_at(
    image: Image,
    name: str,
    severity: float,
    rng: RandomState,
    *,
    frost: FrostSource | str | Path | None = None,
    table: str | None = None,
) -> Image:
    """A corrupted copy of an image of bytes (H, W, 3), at a severity from 0 to 5; the arguments are those of `corrupt`.

    >>> grey = np.full((32, 32, 3), 100, np.uint8)
    >>> [int(corrupt_at(grey, "brightness", severity, RandomState(0))[0, 0, 0]) for severity in (0, 4.5, 5)]
    [100, 163, 176]
    """
    check_names([name])
    if not 0 <= severity <= HIGHEST:
        raise ValueError(f"a severity is a number from 0 to {HIGHEST:g}, not {severity!r}")
    if severity == 0:
        return image
    settings = settings_at(name, severity, table or table_for(*image.shape[:2]))
    if name == "frost":
        settings = {**settings, "textures": frost if isinstance(frost, FrostSource) else find_frost(frost)}
    return CORRUPTIONS[name](np.ascontiguousarray(image), rng, **settings)


def settings_at(name: str, severity: float, table: str = "imagenet") -> Settings:
    """The parameters of a corruption at a severity above 0.

    >>> settings_at("contrast", 4.5), settings_at("shot_noise", 0.5)
    ({'keep': 0.075}, {'photons': 240.0})
    """
    levels = TABLES[table][name]
    lower = int(severity)
    part = severity - lower
    if lower and not part:
        return levels[lower - 1]
    if not lower and name == "shot_noise":  # the deviation of the noise grows linearly from 0
        return {"photons": levels[0]["photons"] / part**2}
    low, high = (levels[lower - 1] if lower else {**levels[0], **REST[name]}), levels[lower]
    return {key: between(key, low[key], high[key], part) for key in high}


def between(key: str, low: Any, high: Any, part: float) -> Any:
    """A parameter between two severities."""
    if key in GEOMETRIC and low > 0 and high > 0:
        return float(low ** (1 - part) * high**part)
    value = round(low + (high - low) * part, 12)
    return round(value) if key in WHOLE else value
