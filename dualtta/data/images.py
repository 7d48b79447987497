"""Image files: which they are, how to open one, and what a file is that does not open as one."""

from pathlib import Path

import numpy as np
from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")  # decided by content, not by name; nothing that runs an interpreter, as EPS would
LARGEST = 100_000_000  # pixels: a few bytes can claim to be an image that fills the memory

SIGNS = {
    b"version https://git-lfs": "a Git LFS pointer, not the file itself: run `git lfs pull`",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"GIF8": "a GIF, which is not read: convert it to PNG",
    b"II*\x00": "a TIFF, which is not read: convert it to PNG",
    b"MM\x00*": "a TIFF, which is not read: convert it to PNG",
}
HEADERS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"RIFF", b"BM")


def is_image(name: str) -> bool:
    """By its name; hidden files (`._photo.jpg`, which macOS leaves in archives) are not.

    >>> is_image("a.JPEG"), is_image("._a.jpg"), is_image("a.txt")
    (True, False, False)
    """
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def open_image(path: Path, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """The whole image, decoded, in RGB; a ValueError that says what the file is where it is none."""
    try:
        with Image.open(path, formats=formats) as image:
            if image.width * image.height > LARGEST:
                raise ValueError(f"{image.width} x {image.height} pixels are too many")
            if image.mode.startswith("I"):  # 16 bits: `convert` would clip them, and all but black come out white
                return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
            return (image.convert("RGBA") if "transparency" in image.info else image).convert("RGB")
    except MemoryError:
        raise
    except Exception as error:  # decoders raise anything at damaged data: OSError, SyntaxError, struct.error, ...
        raise ValueError(f"{path}: {what_is(path, error)}") from error


def what_is(path: Path, error: Exception) -> str:
    """Why a file does not open, in words."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as reason:
        return f"unreadable ({reason.strerror})"
    if not start.strip(b"\0"):
        return "an empty file" if not start else "a file of zeros: the download broke off"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        return "an HTML page saved under this name: download it again"
    for sign, meaning in SIGNS.items():
        if start.startswith(sign):
            return meaning
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    if start.startswith(HEADERS):
        return f"a damaged or truncated image ({why.replace(str(path), 'it')})"
    return "not an image"
