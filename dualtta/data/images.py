"""Image files: finding them in folders, opening them, and saying what a file is that does not open as one."""

import os
from pathlib import Path

import numpy as np
from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
FORMATS = (
    "JPEG",
    "PNG",
    "WEBP",
    "BMP",
)  # by content, not by name; none starts an interpreter, as EPS does
LARGEST = 100_000_000  # pixels: a file of a few bytes can declare an image that fills the memory

SIGNATURES = {
    b"version https://git-lfs": "a Git LFS pointer, not the file itself: run `git lfs pull`",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"GIF8": "a GIF, which is not supported: convert it to PNG",
    b"II*\x00": "a TIFF, which is not supported: convert it to PNG",
    b"MM\x00*": "a TIFF, which is not supported: convert it to PNG",
}
HEADERS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"RIFF", b"BM")


def is_image(name: str) -> bool:
    """Whether a file is an image, by its name; hidden files (`._photo.jpg`, which macOS leaves in archives) are not.

    >>> is_image("a.JPEG"), is_image("._a.jpg"), is_image("a.txt")
    (True, False, False)
    """
    return _has_suffix(name, SUFFIXES)


def _has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.lower().endswith(suffixes) and not name.startswith(".")


def existing_folder(root: str | Path) -> Path:
    """The folder's path, `~` expanded; a ValueError where there is none."""
    root = Path(root).expanduser()
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}")
    return root


def find_images(root: Path, suffixes: tuple[str, ...] = SUFFIXES, *, follow_links: bool = False) -> list[str]:
    """All images in a folder and its subfolders, as sorted paths relative to it; a ValueError where there are none.

    A subfolder that cannot be read is an error: its images would otherwise be left out silently.
    """

    def fail(error: OSError) -> None:
        raise error

    images = [
        Path(home, name).relative_to(root).as_posix()
        for home, _, names in os.walk(root, onerror=fail, followlinks=follow_links)
        for name in names
        if _has_suffix(name, suffixes)
    ]
    if not images:
        raise ValueError(f"{root} holds no images ({', '.join(suffixes)})")
    return sorted(images)


def images_of(folder: Path) -> list[str]:
    """The names of the images in a folder, without its subfolders, sorted."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if is_image(entry.name))


def folders_of(folder: Path) -> list[str]:
    """The names of the folders in a folder, sorted; hidden ones and those that archives from macOS add are left out."""
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith(".") and e.name != "__MACOSX")


def open_image(path: Path, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """The decoded image in RGB; a ValueError that describes the file where it cannot be read as an image."""
    try:
        with Image.open(path, formats=formats) as image:
            if image.width * image.height > LARGEST:
                raise ValueError(f"{image.width} x {image.height} pixels are more than {LARGEST:,}")
            if image.mode.startswith("I"):  # 16 bits: `convert` would clip them to white
                return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
            return (image.convert("RGBA") if "transparency" in image.info else image).convert("RGB")
    except MemoryError:
        raise
    except Exception as error:  # on damaged data decoders raise OSError, SyntaxError, struct.error, ...
        raise ValueError(f"{path}: {describe_failure(path, error)}") from error


def describe_failure(path: Path, error: Exception) -> str:
    """Why a file cannot be opened as an image: what it is instead, or what is wrong with it."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as reason:
        return f"unreadable ({reason.strerror})"
    if not start.strip(b"\0"):
        return "an empty file" if not start else "a file of zeros: the download was interrupted"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        return "an HTML page saved under this name: download it again"
    for sign, meaning in SIGNATURES.items():
        if start.startswith(sign):
            return meaning
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    if start.startswith(HEADERS):
        return f"a damaged or truncated image ({why.replace(str(path), 'it')})"
    return "not an image"
