"""Folders of folders of images, and datasets that are lists of such files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from dualtta.data.datasets.base import Dataset
from dualtta.data.images import is_image, open_image

IGNORED = {"__MACOSX"}


class FileDataset(Dataset):
    """A dataset whose images are files below a folder."""

    def __init__(self, root: Path, files: Sequence[str], labels: ArrayLike, classes: Sequence[str], **others: Any) -> None:
        super().__init__(labels, classes, **others)
        self.root = root
        # one block of bytes rather than a million strings: workers then share it instead of copying it
        self.files = np.array([os.fsencode(file) for file in files], np.bytes_)

    def path(self, index: int) -> Path:
        return self.root / os.fsdecode(bytes(self.files[index]))

    def image(self, index: int) -> Image.Image:
        return open_image(self.path(index))

    def where(self, index: int) -> str:
        return str(self.path(index))


def folders_of(root: Path) -> list[str]:
    """The names of the folders in a folder, sorted; hidden ones are not counted."""
    with os.scandir(root) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith(".") and e.name not in IGNORED)


def images_of(root: Path) -> list[str]:
    """The names of the images in a folder, sorted."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if is_image(entry.name))


def needs_folder(root: str | Path) -> Path:
    """The folder, or a ValueError."""
    root = Path(root).expanduser()
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}")
    return root
