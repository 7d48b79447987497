"""Digital corruptions: contrast, elastic transform, pixelate, JPEG compression."""

from functools import lru_cache
from io import BytesIO

import cv2
import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from PIL import Image as Pil
from scipy.fft import dctn, idctn

from dualtta.data.corruptions.noise import Floats, Image, to_bytes

Indices = NDArray[np.intp]


def contrast(image: Image, rng: RandomState, keep: float) -> Image:
    unit = image / 255
    mean = unit.mean(axis=(0, 1), keepdims=True)
    return to_bytes((unit - mean) * keep + mean)


def elastic_transform(image: Image, rng: RandomState, amplitude: float, smoothness: float, shift: float) -> Image:
    """A random affine map, then a smooth random displacement of the pixels. Settings are fractions of the shorter side."""
    height, width = image.shape[:2]
    side = min(height, width)
    unit = image.astype(np.float32) / 255
    middle, arm = np.array([height // 2, width // 2], np.float32), max(side // 3, 1)
    corners = np.array([middle + arm, [middle[0] + arm, middle[1] - arm], middle - arm], np.float32)
    moved = corners + rng.uniform(-shift * side, shift * side, size=corners.shape).astype(np.float32)
    back = cv2.invertAffineTransform(cv2.getAffineTransform(corners, moved))
    rows, columns = np.arange(height)[:, None], np.arange(width)
    across, along = (back[axis, 0] * columns + back[axis, 1] * rows + back[axis, 2] for axis in (0, 1))
    turned = sample(unit, along, across, edge_twice=False)
    right, down = (field(height, width, smoothness * side, rng) * (amplitude * side) for _ in range(2))
    return to_bytes(sample(turned, rows + down, columns + right))


def field(height: int, width: int, sigma: float, rng: RandomState) -> Floats:
    """Uniform noise in [-1, 1], smoothed by a gaussian that is truncated at three deviations, with mirrored borders.

    With mirrored borders, convolution with an even kernel is a product under the cosine transform, for any kernel size.
    """
    waves = dctn(rng.uniform(-1, 1, size=(height, width)), norm="ortho")
    return np.asarray(idctn(waves * _response(height, sigma)[:, None] * _response(width, sigma), norm="ortho"))


@lru_cache(maxsize=16)
def _response(size: int, sigma: float) -> Floats:
    """The frequency response of the gaussian along one axis."""
    reach = int(3 * sigma + 0.5)
    if reach == 0:
        return np.ones(size)
    taps = np.arange(-reach, reach + 1)
    kernel = np.exp(-0.5 * (taps / sigma) ** 2)
    circle = np.bincount(taps % (2 * size), weights=kernel / kernel.sum(), minlength=2 * size)  # the axis and its mirror image
    return np.asarray(np.fft.rfft(circle).real[:size])


def sample(image: Floats, rows: Floats, columns: Floats, edge_twice: bool = True) -> Floats:
    """The image (H, W, C) at fractional positions (H, W), interpolated linearly, with mirrored borders.

    Not cv2.remap and cv2.warpAffine: some versions round positions to 1/32 of a pixel, which is some grey levels at edges.
    """
    height, width, channels = image.shape
    pixels = image.reshape(-1, channels)
    top, left = np.floor(rows), np.floor(columns)
    down, right = ((position - whole).astype(image.dtype)[..., None] for position, whole in ((rows, top), (columns, left)))
    upper, lower = (_mirrored(top.astype(np.intp) + offset, height, edge_twice) * width for offset in (0, 1))
    start, end = (_mirrored(left.astype(np.intp) + offset, width, edge_twice) for offset in (0, 1))

    def between(line: Indices) -> Floats:
        first, second = pixels.take(line + start, axis=0), pixels.take(line + end, axis=0)
        second -= first
        second *= right
        second += first
        return second

    above, below = between(upper), between(lower)
    below -= above
    below *= down
    below += above
    return below


def _mirrored(positions: Indices, size: int, edge_twice: bool) -> Indices:
    """Indices beyond the border are mirrored: -1 becomes 0, or 1 where the edge is not repeated. By table: faster."""
    lowest = int(positions.min())
    period = max(2 * size - (0 if edge_twice else 2), 1)
    table = np.arange(lowest, int(positions.max()) + 1) % period
    return np.minimum(table, (period - edge_twice - table) % period).take(positions - lowest)


def pixelate(image: Image, rng: RandomState, scale: float) -> Image:
    height, width = image.shape[:2]
    small = max(int(width * scale), 1), max(int(height * scale), 1)
    coarse = to_pil(image).resize(small, Pil.Resampling.BOX)
    return from_pil(coarse.resize((width, height), Pil.Resampling.BOX), image)


def jpeg_compression(image: Image, rng: RandomState, quality: int) -> Image:
    buffer = BytesIO()
    to_pil(image).save(buffer, "JPEG", quality=quality)
    with Pil.open(buffer) as opened:
        return from_pil(opened, image)


def to_pil(image: Image) -> Pil.Image:
    return Pil.fromarray(image[..., 0] if image.shape[2] == 1 else image)


def from_pil(picture: Pil.Image, like: Image) -> Image:
    return np.asarray(picture, np.uint8).reshape(like.shape)
