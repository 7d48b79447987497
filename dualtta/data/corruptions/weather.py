"""Weather: snow, frost, fog, brightness."""

import cv2
import numpy as np
from numpy.random import RandomState

from dualtta.data.corruptions.blur import streak, zoomed
from dualtta.data.corruptions.noise import Floats, Image, to_bytes
from dualtta.data.corruptions.textures import FrostSource

LARGEST_CLOUD = 2048  # pixels; larger images repeat it, seamlessly, to save memory


def snow(
    image: Image,
    rng: RandomState,
    mean: float,
    deviation: float,
    zoom: float,
    threshold: float,
    radius: float,
    sigma: float,
    keep: float,
) -> Image:
    """Thresholded noise as flakes, blurred along a line, over a whitened image."""
    flakes = zoomed(rng.normal(size=(*image.shape[:2], 1), loc=mean, scale=deviation), zoom)
    flakes[flakes < threshold] = 0
    layer = streak(to_bytes(flakes), radius, sigma, rng.uniform(-135, -45)) / 255
    unit = image.astype(np.float32) / 255
    grey = unit if image.shape[2] == 1 else cv2.cvtColor(unit, cv2.COLOR_RGB2GRAY)[..., None]
    pale = keep * unit + (1 - keep) * np.maximum(unit, grey * 1.5 + 0.5)
    return to_bytes(pale + layer + layer[::-1, ::-1])


def frost(image: Image, rng: RandomState, keep: float, ice: float, shrink: float, textures: FrostSource) -> Image:
    """A random crop of a random texture, added to the image."""
    texture = textures.texture(rng.randint(len(textures.textures)), shrink, *image.shape[:2])
    top = rng.randint(0, texture.shape[0] - image.shape[0])
    left = rng.randint(0, texture.shape[1] - image.shape[1])
    piece = texture[top : top + image.shape[0], left : left + image.shape[1]]
    ice_light = piece if image.shape[2] == 3 else cv2.cvtColor(piece, cv2.COLOR_RGB2GRAY)[..., None]
    return np.asarray(np.clip(keep * image + ice * ice_light, 0, 255), np.uint8)


def fog(image: Image, rng: RandomState, density: float, decay: float) -> Image:
    """A random cloud added to the image, which is then rescaled to its original maximum."""
    height, width = image.shape[:2]
    unit = image / 255
    brightest = unit.max()
    side = min(1 << (max(height, width, 2) - 1).bit_length(), LARGEST_CLOUD)
    cloud = np.tile(plasma(side, decay, rng), (-(-height // side), -(-width // side)))
    clouded = unit + density * cloud[:height, :width, None]
    return to_bytes(clouded * brightest / (brightest + density))


def plasma(side: int, decay: float, rng: RandomState) -> Floats:
    """A fractal cloud in [0, 1] by midpoint displacement on a torus whose side is a power of two.

    Each level sets the centres of the squares, then those of the horizontal and vertical edges, to the mean of their four
    neighbours plus a random displacement, whose range is divided by `decay` at each level.
    """

    def displaced(total: Floats, reach: float) -> Floats:
        return total / 4 + reach * rng.uniform(-reach, reach, total.shape)

    cloud = np.zeros((side, side))
    step, reach = side, 100.0
    while step >= 2:
        half = step // 2
        corners = cloud[::step, ::step]
        above, left = (corners + np.roll(corners, -1, axis) for axis in (0, 1))
        cloud[half::step, half::step] = centres = displaced(above + np.roll(above, -1, axis=1), reach)
        cloud[::step, half::step] = displaced(centres + np.roll(centres, 1, axis=0) + left, reach)
        cloud[half::step, ::step] = displaced(centres + np.roll(centres, 1, axis=1) + above, reach)
        step, reach = half, reach / decay
    cloud -= cloud.min()
    return np.asarray(cloud / cloud.max())


def brightness(image: Image, rng: RandomState, lift: float) -> Image:
    """Adds to V of HSV. With constant hue and saturation, R, G and B are proportional to V; black becomes grey."""
    unit = image / 255
    value = unit.max(axis=2, keepdims=True)
    raised = np.minimum(value + lift, 1)
    black = value == 0
    value[black] = 1
    return to_bytes(np.where(black, raised, unit * raised / value))
