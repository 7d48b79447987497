"""The base classes of datasets: images by index, each with a label, a domain and perhaps a group."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from dualtta.data.images import open_image

Ints = NDArray[np.int64]
Pixels = NDArray[np.uint8]
Picture = Image.Image | Pixels  # a PIL image, or bytes (H, W, 3) or (H, W)


class Dataset(ABC):
    """Images with a label, a domain and, where the dataset has groups, a group each; with the names of all three.

    A dataset of your own passes the labels to `__init__` and implements `image`:

    >>> class Squares(Dataset):
    ...     def __init__(self):
    ...         super().__init__(labels=[0, 1, 1], classes=["dark", "bright"])
    ...     def image(self, index):
    ...         return np.full((8, 8, 3), 255 * self.labels[index], np.uint8)
    >>> len(Squares()), Squares().domains, Squares().counts()
    (3, ('all',), {'all': 3})
    """

    name = ""
    gain: NDArray[np.float32] | None = None  # a factor on each image's normalised values, for tests with values out of range

    def __init__(
        self,
        labels: ArrayLike,
        classes: Sequence[str],
        domain: ArrayLike | None = None,
        domains: Sequence[str] = ("all",),
        group: ArrayLike | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        self.classes, self.domains, self.groups = tuple(classes), tuple(domains), tuple(groups)
        self.labels = _numbers("labels", labels, len(self.classes))
        size = len(self.labels)
        self.domain = _numbers("domain", np.zeros(size, np.int64) if domain is None else domain, len(self.domains))
        self.group = np.full(size, -1) if group is None else _numbers("group", group, len(self.groups))  # -1: no group
        if not len(self.labels) == len(self.domain) == len(self.group):
            sizes = f"{len(self.labels)} labels, {len(self.domain)} domains, {len(self.group)} groups"
            raise ValueError(f"{sizes}: give one of each per image")

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def image(self, index: int) -> Picture:
        """The image as stored. Resizing and normalisation belong to the model; see `Preprocess`."""

    def where(self, index: int) -> str:
        """The origin of an image, for messages."""
        return f"image {index}"

    def about(self) -> dict[str, Any]:
        """What a record saves about the data, as JSON values."""
        return {"dataset": self.name or type(self).__name__, "images": len(self), "domains": list(self.domains)}

    def counts(self) -> dict[str, int]:
        """The number of images of each domain."""
        return dict(zip(self.domains, np.bincount(self.domain, minlength=len(self.domains)).tolist(), strict=True))

    def group_counts(self) -> dict[str, int]:
        """The number of images of each group."""
        return {name: int((self.group == number).sum()) for number, name in enumerate(self.groups)}


class ArrayDataset(Dataset):
    """A dataset whose images are the rows of one array, which may be memory-mapped."""

    def __init__(self, images: NDArray[Any], labels: ArrayLike, classes: Sequence[str], **others: Any) -> None:
        super().__init__(labels, classes, **others)
        if images.dtype != np.uint8 or images.shape[3:] not in ((), (3,)) or images.ndim < 3 or len(images) != len(self):
            given = f"{len(self)} labels and images {images.shape} of {images.dtype}"
            raise ValueError(f"{given}; there must be as many images, of bytes, (N, H, W) or (N, H, W, 3)")
        self.images = images

    def image(self, index: int) -> Picture:
        return np.array(self.images[index])


class FileDataset(Dataset):
    """A dataset whose images are files below a folder; `files` are their paths relative to it."""

    def __init__(self, root: Path, files: Sequence[str], labels: ArrayLike, classes: Sequence[str], **others: Any) -> None:
        super().__init__(labels, classes, **others)
        self.root = root
        # one block of bytes instead of a million strings: worker processes then share it instead of copying it
        self.files = np.array([os.fsencode(file) for file in files], np.bytes_)

    def path(self, index: int) -> Path:
        return self.root / os.fsdecode(bytes(self.files[index]))

    def image(self, index: int) -> Image.Image:
        return open_image(self.path(index))

    def where(self, index: int) -> str:
        return str(self.path(index))


class Rows(Dataset):
    """A subset of a dataset's images, by row, with the same or other domains."""

    def __init__(self, base: Dataset, rows: ArrayLike, domain: ArrayLike | None = None, domains: Sequence[str] = ()) -> None:
        self.base, self.rows = base, np.asarray(rows, np.int64)
        super().__init__(
            base.labels[self.rows],
            base.classes,
            base.domain[self.rows] if domain is None else domain,
            domains or base.domains,
            base.group[self.rows] if base.groups else None,
            base.groups,
        )
        self.name = base.name

    def image(self, index: int) -> Picture:
        return self.base.image(int(self.rows[index]))

    def where(self, index: int) -> str:
        return self.base.where(int(self.rows[index]))


def _numbers(kind: str, values: ArrayLike, names: int) -> Ints:
    given = np.asarray(values)
    numbers = given.astype(np.int64)
    whole = given.dtype.kind != "f" or bool((numbers == given).all())  # 0.7 must not become class 0
    if not whole or numbers.ndim != 1 or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < names):
        raise ValueError(f"{kind} must be a list of numbers from 0 to {names - 1}, one per image: there are {names} names")
    return numbers
