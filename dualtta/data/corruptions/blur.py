"""Defocus, glass, motion and zoom blur; with `streak` and `zoomed`, which snow uses too."""

import math
from functools import lru_cache

import cv2
import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from dualtta.data.corruptions.noise import Floats, Image, to_bytes

Indices = NDArray[np.intp]


def defocus_blur(image: Image, rng: RandomState, radius: float, alias: float) -> Image:
    blurred = cv2.filter2D(image / 255, -1, disk(radius, alias))
    return to_bytes(np.asarray(blurred, np.float64).reshape(image.shape))  # OpenCV drops a single channel


@lru_cache(maxsize=32)
def disk(radius: float, alias: float) -> Floats:
    """A disk kernel of sum one, smoothed by a gaussian of deviation `alias`, without its zero border."""
    reach, rim = (8, 3) if radius <= 8 else (int(radius), 5)
    along = np.arange(-reach, reach + 1)
    inside = (along[:, None] ** 2 + along**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(inside / inside.sum(), (rim, rim), alias)
    used = np.flatnonzero(kernel.any(axis=0))
    return np.asarray(kernel[used[0] : used[-1] + 1, used[0] : used[-1] + 1])


def glass_blur(image: Image, rng: RandomState, sigma: float, reach: int, rounds: int) -> Image:
    """Pixels displaced by up to `reach`, between two gaussian blurs."""
    spread = (sigma, sigma, 0)
    pixels = to_bytes(gaussian_filter(image / 255, spread, mode="nearest"))
    for _ in range(rounds):
        pixels = scatter(pixels, rng, reach)
    return to_bytes(gaussian_filter(pixels / 255, spread, mode="nearest"))


def scatter(pixels: Image, rng: RandomState, reach: int) -> Image:
    """Each pixel is replaced by a random neighbour, from the last pixel to the first.

    The published swap only copies (its two sides are views of one array), so a pixel gets the current value of its source: the
    original, or, where the source was replaced before, the value that the source got. Each value is therefore at the end of a
    chain of sources; all chains are followed at once by pointer doubling.
    """
    height, width = pixels.shape[:2]
    rows, columns = np.arange(height - reach, reach, -1), np.arange(width - reach, reach, -1)
    if not len(rows) or not len(columns):
        return pixels
    moves = rng.randint(-reach, reach, size=(len(rows), len(columns), 2))  # (dx, dy) of each pixel, in the order of replacement
    here = rows[:, None] * width + columns
    there = here + moves[..., 1] * width + moves[..., 0]
    count = height * width  # an index below is a replaced pixel, index + count the original of that pixel
    source = np.arange(count, 2 * count)
    source[here] = np.where(there > here, there, there + count)
    open_ends = np.flatnonzero(source < count)
    while len(open_ends):
        source[open_ends] = source[source[open_ends]]
        open_ends = open_ends[source[open_ends] < count]
    return np.asarray(pixels.reshape(count, -1).take(source - count, axis=0).reshape(pixels.shape))


def motion_blur(image: Image, rng: RandomState, radius: float, sigma: float) -> Image:
    return streak(image, radius, sigma, rng.uniform(-45, 45))


def streak(image: Image, radius: float, sigma: float, degrees: float) -> Image:
    """Motion blur as in ImageMagick: half a gaussian along a line of whole pixels; the border is replicated."""
    steps = np.arange(2 * int(np.ceil(radius)) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    angle = np.deg2rad(degrees)
    right = np.ceil(steps * np.cos(angle) - 0.5).astype(np.intp)
    down = np.ceil(steps * np.sin(angle) - 0.5).astype(np.intp)
    kernel = np.zeros((np.ptp(down) + 1, np.ptp(right) + 1))
    np.add.at(kernel, (down - down.min(), right - right.min()), weights / weights.sum())
    anchor = int(-right.min()), int(-down.min())
    blurred = cv2.filter2D(image.astype(np.float32), -1, kernel, anchor=anchor, borderType=cv2.BORDER_REPLICATE)
    # ImageMagick rounds to 16 bits and truncates to 8: a byte is reached half a 16-bit step early.
    return np.asarray(np.clip(blurred + 0.5 / 257, 0, 255), np.uint8).reshape(image.shape)


def zoom_blur(image: Image, rng: RandomState, stop: float, step: float) -> Image:
    """The mean of the image and of its zooms from 1 to `stop`."""
    factors = np.arange(1, stop, step)
    unit = (image / 255).astype(np.float32)
    total = unit.copy()
    for factor in factors:
        total += zoomed(unit, float(factor))
    return to_bytes(total / np.float32(len(factors) + 1))


def zoomed(image: Floats, factor: float) -> Floats:
    """The centre of the image, enlarged linearly by `factor` to the size of the image, with aligned corners."""
    return _transposed(_stretched(_transposed(_stretched(image, factor)), factor))


def _stretched(image: Floats, factor: float) -> Floats:
    """Zoomed along the first axis only, where whole rows are copied: much faster than by pixel."""
    before, after, between = _positions(len(image), factor)
    rows, ahead = image[before], image[after]
    ahead -= rows
    ahead *= between.astype(image.dtype)[:, None, None]
    rows += ahead
    return rows


def _transposed(image: Floats) -> Floats:
    return np.asarray(cv2.transpose(image), image.dtype).reshape(image.shape[1], image.shape[0], -1)


@lru_cache(maxsize=256)
def _positions(size: int, factor: float) -> tuple[Indices, Indices, Floats]:
    """For each position on the zoomed axis: the two positions of the image around it, and the fraction between them."""
    middle = math.ceil(size / factor)  # the part of the axis that is enlarged
    grown = round(middle * factor)
    trim = (grown - size) // 2
    positions = np.arange(trim, trim + size) * ((middle - 1) / max(grown - 1, 1))
    before = np.minimum(positions.astype(np.intp), max(middle - 2, 0))
    start = (size - middle) // 2
    return start + before, start + np.minimum(before + 1, middle - 1), positions - before
