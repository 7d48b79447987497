"""Corrupted copies of an image folder, in ImageNet-C's layout: DST/<corruption>/<severity>/<class>/<name>.JPEG, quality 85.

    dualtta data corrupt imagenet/val imagenet-c --severities 5

An image's random draws depend on (seed, corruption, severity, its index in the sorted list of images). DST/corrupt.json holds
the settings, so that a later run continues only with the same ones. Does not import torch.
"""

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dualtta import __version__
from dualtta.data.corruptions import (
    CORRUPTIONS,
    SEVERITIES,
    FrostSource,
    check_names,
    check_severities,
    corrupt,
    find_frost,
    rng_for,
)
from dualtta.data.images import FORMATS, LARGEST, SUFFIXES, existing_folder, find_images, open_image
from dualtta.files import write_bytes
from dualtta.processes import run, stopping

QUALITY = 85
RECORD = "corrupt.json"

Size = int | Literal["keep"]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Recipe:
    """The settings of a run. `size` 224 scales the shorter side to 256 and crops the central 224 x 224, as ImageNet-C did."""

    source: Path
    target: Path
    corruptions: tuple[str, ...] = tuple(CORRUPTIONS)
    severities: tuple[int, ...] = SEVERITIES
    seed: int = 2024
    size: Size = 224
    frost: Path | None = None

    @property
    def copies(self) -> list[tuple[str, int]]:
        """(corruption, severity) of every copy of an image."""
        return [(name, severity) for name in self.corruptions for severity in self.severities]

    def path(self, name: str, severity: int, image: str) -> Path:
        return self.target / name / str(severity) / Path(image).with_suffix(".JPEG")


@dataclass(frozen=True)
class Outcome:
    """The copies made of one image; `error` is the reason where it could not be read."""

    image: str
    written: int = 0
    skipped: int = 0
    error: str = ""


def prepare(recipe: Recipe) -> list[str]:
    """Check the settings, then create or continue the target; returns the images in the order of their index."""
    check_names(list(recipe.corruptions))
    check_severities(list(recipe.severities))
    if not recipe.copies:
        raise ValueError("nothing to make: name at least one corruption and one severity")
    if not 0 <= recipe.seed < 2**32:
        raise ValueError(f"the seed {recipe.seed} is not between 0 and 2**32 - 1")
    if recipe.size != "keep" and recipe.size < 1:
        raise ValueError(f"the size {recipe.size} is not a number of pixels: take 224, or keep")
    images = list_images(recipe.source)
    source, target = recipe.source.resolve(), recipe.target.resolve()
    if target == source or source in target.parents:
        raise ValueError(f"{recipe.target} is inside {recipe.source}: choose a folder outside")
    record = settings(recipe, images)
    begin(recipe, record)
    return images


def list_images(source: Path) -> list[str]:
    """All images below the folder, as sorted relative paths; a ValueError where two would become the same file."""
    images = find_images(existing_folder(source), (*SUFFIXES, ".ppm", ".pgm"), follow_links=True)
    stems: dict[str, str] = {}
    for image in images:
        other = stems.setdefault(image.rpartition(".")[0], image)
        if other != image:
            raise ValueError(f"{other} and {image} would both become {Path(image).with_suffix('.JPEG')}: rename one")
    return images


def settings(recipe: Recipe, images: Sequence[str]) -> dict[str, Any]:
    """All settings that the target's images depend on, but for corruption and severity."""
    listing = hashlib.sha256("\n".join(images).encode(errors="surrogateescape")).hexdigest()[:16]
    record = {"seed": recipe.seed, "size": recipe.size, "quality": QUALITY, "images": len(images), "images_sha256": listing}
    if "frost" in recipe.corruptions:
        source = find_frost(recipe.frost)
        record |= {"frost": source.origin, "frost_sha256": digest(source)}
    return record


def digest(source: FrostSource) -> str:
    return hashlib.sha256(b"".join(texture.tobytes() for texture in source.textures)).hexdigest()[:16]


def begin(recipe: Recipe, record: dict[str, Any]) -> None:
    """Create the target and its record; a ValueError where the target was made with other settings."""
    path = recipe.target / RECORD
    before: dict[str, Any] = {}
    if path.exists():
        try:
            before = dict(json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not the record of a corrupted set: choose another folder") from error
    else:
        foreign = [name for name in recipe.corruptions if (recipe.target / name).exists()]
        if foreign:
            raise ValueError(
                f"{recipe.target} has a folder {foreign[0]} but no {RECORD} with its settings: choose another folder"
            )
    for key, value in record.items():
        if before.get(key, value) != value:
            raise ValueError(
                f"{recipe.target} was made with {key} {before[key]}, not {value}: use the same settings or another folder"
            )
    text = json.dumps({"dualtta": __version__, **before, **record}, indent=2)
    try:
        recipe.target.mkdir(parents=True, exist_ok=True)
        write_bytes(path, f"{text}\n".encode(), durable=False)
    except OSError as error:
        raise ValueError(f"cannot write to {recipe.target}: {error.strerror}") from error


def corrupt_image(recipe: Recipe, index: int, image: str) -> Outcome:
    """Write the missing copies of one image."""
    missing = [copy for copy in recipe.copies if not recipe.path(*copy, image).exists()]
    skipped = len(recipe.copies) - len(missing)
    if not missing:
        return Outcome(image, skipped=skipped)
    try:
        pixels = read(recipe.source / image, recipe.size)
    except (ValueError, MemoryError) as error:
        why = str(error).removeprefix(f"{recipe.source / image}: ") or "too large for the memory"
        return Outcome(image, skipped=skipped, error=why)
    written = 0
    for name, severity in missing:
        if stopping():
            break
        rng = rng_for(recipe.seed, name, severity, index)
        frost = find_frost(recipe.frost) if name == "frost" else None
        result = corrupt(pixels, name, severity, rng, frost=frost)
        path = recipe.path(name, severity, image)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, encode(result), durable=False)
        written += 1
    return Outcome(image, written, skipped)


def read(path: Path, size: Size) -> Bytes:
    """An image as RGB bytes (H, W, 3): its shorter side scaled and its centre cropped, or with "keep" unchanged."""
    picture = open_image(path, (*FORMATS, "PPM"))
    if size != "keep":
        shorter = round(size * 256 / 224)
        width, height = (shorter * side // min(picture.size) for side in picture.size)
        if width * height > LARGEST:
            raise ValueError(f"{picture.width} x {picture.height} is too narrow to scale to {size}")
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        left, top = round((width - size) / 2), round((height - size) / 2)
        picture = picture.crop((left, top, left + size, top + size))
    return np.asarray(picture, np.uint8)


def encode(pixels: Bytes) -> bytes:
    """The bytes of a JPEG file. Made in memory: Pillow does not report a write to a file that a full disk cuts short."""
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "JPEG", quality=QUALITY, optimize=True)
    return encoded.getvalue()


def one_opencv_thread(worker: int) -> None:
    """Limit OpenCV to one thread in a worker process: there is a worker for each core."""
    cv2.setNumThreads(1)


def corrupt_folder(
    recipe: Recipe, images: Sequence[str], workers: int = 1, done: Callable[[Outcome], object] = id
) -> list[Outcome]:
    """Corrupt the images that `prepare` returned, calling `done` with each outcome. Returns those that could not be read."""
    unreadable: list[Outcome] = []

    def note(outcome: Outcome) -> None:
        if outcome.error:
            unreadable.append(outcome)
        done(outcome)

    run(corrupt_image, ((recipe, index, image) for index, image in enumerate(images)), workers, note, one_opencv_thread)
    return sorted(unreadable, key=lambda outcome: outcome.image)
