"""Textures of frost: the five published ones, from a folder or an installed package, or generated ones."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from numpy.random import RandomState

from dualtta.data.corruptions.noise import Image

NAMES = (
    "frost1.png",
    "frost2.png",
    "frost3.png",
    "frost4.jpg",
    "frost5.jpg",
)  # a sixth one was never used
PACKAGES = ("imagecorruptions", "imagenet_c")  # whose folder frost/ may hold them


@dataclass(frozen=True, eq=False)
class FrostSource:
    """Textures (RGB bytes) and their origin, "folder", "package <name>" or "drawn", for the records."""

    origin: str
    textures: tuple[Image, ...]

    def texture(self, index: int, shrink: float, height: int, width: int) -> Image:
        """One texture at this scale, or larger where an image of this size would not fit into it."""
        rows, columns = self.textures[index].shape[:2]
        fits = round(rows * shrink) > height and round(columns * shrink) > width
        return _scaled(self, index, shrink if fits else max((height + 1) / rows, (width + 1) / columns))


@lru_cache(maxsize=32)
def _scaled(source: FrostSource, index: int, scale: float) -> Image:
    texture = source.textures[index]
    return texture if scale == 1 else np.asarray(cv2.resize(texture, (0, 0), fx=scale, fy=scale), np.uint8)


def find_frost(folder: str | Path | None = None) -> FrostSource:
    """The textures of the folder, else of an installed package, else generated ones."""
    return from_folder(folder) if folder is not None else from_package() or drawn()


@lru_cache(maxsize=4)
def from_folder(folder: str | Path, origin: str = "folder") -> FrostSource:
    textures = []
    for name in NAMES:
        path = Path(folder) / name
        if not path.is_file():
            raise ValueError(f"{folder} lacks {name}: the folder of frost textures holds {', '.join(NAMES)}")
        texture = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if texture is None:
            raise ValueError(f"{path} is not a readable image")
        textures.append(np.ascontiguousarray(texture[..., ::-1], np.uint8))
    return FrostSource(origin, tuple(textures))


def from_package() -> FrostSource | None:
    """The textures of an installed package, without importing it; None where there is no such package."""
    for package in PACKAGES:
        spec = find_spec(package)
        for home in (spec.submodule_search_locations or []) if spec else []:
            if all((Path(home) / "frost" / name).is_file() for name in NAMES):
                return from_folder(Path(home) / "frost", f"package {package}")
    return None


@lru_cache(maxsize=1)
def drawn() -> FrostSource:
    """Five generated textures: needles over a bluish haze, with the brightness of the published photographs."""
    return FrostSource("drawn", tuple(_draw(RandomState(number), 400, 600) for number in range(5)))


def _draw(rng: RandomState, height: int, width: int) -> Image:
    haze = np.zeros((height, width), np.float32)
    for cells in (3, 6, 12, 24, 48):  # finer and weaker clouds
        grid = rng.uniform(-1, 1, size=(cells, cells)).astype(np.float32)
        haze += cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC) * np.float32(3 / cells)
    needles = np.zeros((height, width), np.uint8)
    for _ in range(1500):  # crystals grow at angles of sixty degrees
        start = rng.uniform(0, (width, height))
        angle = np.deg2rad(60 * rng.randint(3) + rng.normal(scale=8))
        end = start + rng.gamma(2, 12) * np.array([np.cos(angle), np.sin(angle)])
        cv2.line(needles, start.astype(int).tolist(), end.astype(int).tolist(), int(rng.randint(60, 200)), 1, cv2.LINE_AA)
    light = 150 + 20 * haze + 0.35 * cv2.GaussianBlur(needles, (3, 3), 0.7) + rng.normal(scale=4, size=haze.shape)
    return np.asarray(np.clip(light[..., None] + np.array([-25, 0, 12]), 0, 255), np.uint8)
