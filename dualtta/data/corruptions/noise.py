"""Noise of the sensor: gaussian, shot, impulse. Drawn value by value over (height, width, channel), as the authors did."""

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # (H, W, C), C is 1 or 3
Floats = NDArray[np.floating]


def to_bytes(unit: Floats) -> Image:
    """From [0, 1] to bytes by cutting off, not rounding: so the published images were made."""
    return (np.clip(unit, 0, 1) * 255).astype(np.uint8)


def gaussian_noise(image: Image, rng: RandomState, scale: float) -> Image:
    return to_bytes(image / 255 + rng.normal(size=image.shape, scale=scale))


def shot_noise(image: Image, rng: RandomState, photons: float) -> Image:
    """Each value is what a sensor counts that expects `photons` at full brightness."""
    return to_bytes(rng.poisson(image / 255 * photons) / photons)


def impulse_noise(image: Image, rng: RandomState, amount: float) -> Image:
    """Each value is hit with probability `amount`, and then black or white with equal chance."""
    hit, white = rng.random_sample(image.shape) <= amount, rng.random_sample(image.shape) <= 0.5
    return np.where(hit, np.where(white, np.uint8(255), np.uint8(0)), image)
