"""Sensor noise: gaussian, shot, impulse. Drawn over (height, width, channel), in the published order."""

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # (H, W, C), C is 1 or 3
Floats = NDArray[np.floating]


def to_bytes(unit: Floats) -> Image:
    """From [0, 1] to bytes by truncation, as the published images were made."""
    return (np.clip(unit, 0, 1) * 255).astype(np.uint8)


def gaussian_noise(image: Image, rng: RandomState, scale: float) -> Image:
    return to_bytes(image / 255 + rng.normal(size=image.shape, scale=scale))


def shot_noise(image: Image, rng: RandomState, photons: float) -> Image:
    """Poisson counts of a sensor that expects `photons` at full brightness."""
    return to_bytes(rng.poisson(image / 255 * photons) / photons)


def impulse_noise(image: Image, rng: RandomState, amount: float) -> Image:
    """Each value is replaced with probability `amount` by 0 or 255, with equal probability."""
    hit, white = rng.random_sample(image.shape) <= amount, rng.random_sample(image.shape) <= 0.5
    return np.where(hit, np.where(white, np.uint8(255), np.uint8(0)), image)
