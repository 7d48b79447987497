"""Loading, shuffling and augmenting training images.

Every random number is drawn from (seed, epoch), so a run that is resumed sees the same batches as one that was not interrupted.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from dualtta.data.datasets.base import Dataset, Ints
from dualtta.data.loading import default_workers, pixels_of
from dualtta.data.preprocess import Preprocess

CACHE_LIMIT = 2**30  # bytes; larger sets are not kept in memory but decoded by workers in every epoch
PAD = 4  # crop_flip pads by this many pixels
SCALE, RATIO = (0.6, 1.0), (3 / 4, 4 / 3)  # area and aspect ratio of zoom_flip's crops, mild because it is for fine-tuning
Draws = NDArray[np.float64]  # (N, 5) uniform random numbers, one row per image


@dataclass(frozen=True)
class Images:
    """A dataset with a model's resizing and an augmentation applied, as uint8 tensors."""

    dataset: Dataset
    preprocess: Preprocess
    augment: str
    cached: Tensor | None  # (N, 3, H, W) uint8

    @classmethod
    def of(cls, dataset: Dataset, preprocess: Preprocess, augment: str = "none") -> "Images":
        first = pixels_of(dataset, 0, preprocess)
        plain = cls(dataset, preprocess, augment, None)
        if first.numel() * len(dataset) > CACHE_LIMIT:
            return plain
        chunks = [np.arange(start, min(start + 256, len(dataset))) for start in range(0, len(dataset), 256)]
        return cls(dataset, preprocess, augment, torch.cat([pixels for _, pixels in _load(plain, chunks, None)]))

    def to(self, device: torch.device) -> "Images":
        """Move the cached images to a device, where augmentation is faster."""
        return self if self.cached is None else replace(self, cached=self.cached.to(device))

    def batches(self, size: int) -> Iterator[tuple[Ints, Tensor]]:
        """Batches of (rows, pixels) in the dataset's order, without augmentation."""
        plain = Images(self.dataset, self.preprocess, "none", self.cached)
        return _load(plain, _chunks(np.arange(len(self.dataset)), size), None)

    def epoch(self, size: int, seed: int, epoch: int) -> Iterator[tuple[Ints, Tensor]]:
        """Batches of (rows, pixels), shuffled and augmented for this epoch."""
        rng = np.random.default_rng([seed, epoch])
        order = rng.permutation(len(self.dataset))
        draws = rng.random((len(self.dataset), 5))
        # BatchNorm has no statistics of a single image: drop a last batch of one
        return _load(self, [rows for rows in _chunks(order, size) if len(rows) > 1], draws)

    def pixels(self, rows: Ints, draws: Draws | None) -> Tensor:
        """The images of these rows, (B, 3, H, W) uint8."""
        if self.cached is not None:
            found = self.cached[torch.from_numpy(rows).to(self.cached.device)]
        else:
            found = _stack([pixels_of(self.dataset, int(i), self.preprocess) for i in rows])
        return found if draws is None else AUGMENT[self.augment](found, draws[rows])


class _Batches(TorchDataset[Tensor | str]):
    """Batches by number. For an unreadable image the error message is returned: a worker's exception is a long traceback."""

    def __init__(self, images: Images, batches: list[Ints], draws: Draws | None) -> None:
        self.images, self.batches, self.draws = images, batches, draws

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Tensor | str:
        try:
            return self.images.pixels(self.batches[number], self.draws)
        except ValueError as error:
            return str(error)


def _load(images: Images, batches: list[Ints], draws: Draws | None) -> Iterator[tuple[Ints, Tensor]]:
    if images.cached is not None:
        yield from ((rows, images.pixels(rows, draws)) for rows in batches)
        return
    # image files are decoded in workers; arrays need none
    in_memory = not isinstance(images.dataset.image(0), Image.Image)
    workers = 0 if in_memory else min(default_workers(), len(batches))
    loader = DataLoader(
        _Batches(images, batches, draws),
        batch_size=None,  # each item is a batch
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator(),  # so that the loader does not draw from the global generator
    )
    for rows, pixels in zip(batches, loader, strict=True):
        if isinstance(pixels, str):
            raise ValueError(pixels)
        yield rows, pixels


def _chunks(rows: Ints, size: int) -> list[Ints]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _stack(images: list[Tensor]) -> Tensor:
    shapes = {tuple(image.shape[1:]) for image in images}
    if len(shapes) > 1:
        sizes = ", ".join(f"{width} x {height}" for height, width in sorted(shapes))
        raise ValueError(f"the images differ in size ({sizes}) but this model does not resize them: choose another")
    return torch.stack(images)


def crop_flip(pixels: Tensor, draws: Draws) -> Tensor:
    """Random crop after padding by four black pixels, and random horizontal flip, of (B, 3, H, W) images.

    >>> x = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    >>> bool((crop_flip(x, np.array([[0.5, 0.5, 0.9, 0, 0]])) == x).all())
    True
    """
    size, _, height, width = pixels.shape
    padded = torch.nn.functional.pad(pixels, (PAD, PAD, PAD, PAD))
    u = torch.from_numpy(draws).to(pixels.device)
    down, right = ((u[:, i, None] * (2 * PAD + 1)).long() for i in (0, 1))  # (B, 1)
    across = torch.arange(width, device=pixels.device)
    columns = torch.where(u[:, 2, None] < 0.5, across.flip(0), across) + right  # (B, W)
    rows = torch.arange(height, device=pixels.device) + down  # (B, H)
    each = torch.arange(size, device=pixels.device)
    picked = padded[each[:, None, None], :, rows[:, :, None], columns[:, None, :]]  # (B, H, W, 3)
    return picked.permute(0, 3, 1, 2).contiguous()


def cut_out(pixels: Tensor, draws: Draws) -> Tensor:
    """Cutout: black out a square of half the image's side around a random centre; parts of it may lie outside the image.

    >>> cut_out(torch.ones(1, 1, 4, 4, dtype=torch.uint8), np.array([[0, 0, 0, 0.5, 0.5]])).sum().item()
    12
    """
    height, width = pixels.shape[2:]
    u = torch.from_numpy(draws).to(pixels.device)
    inside = [
        ((torch.arange(side, device=pixels.device) + 0.5 - u[:, i, None] * side).abs() <= side / 4)  # (B, side)
        for side, i in ((height, 3), (width, 4))
    ]
    return pixels.masked_fill((inside[0][:, :, None] & inside[1][:, None, :])[:, None], 0)


def zoom_flip(pixels: Tensor, draws: Draws) -> Tensor:
    """Random resized crop and random horizontal flip.

    >>> x = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    >>> bool((zoom_flip(x, np.array([[1, 0.5, 0, 0, 0.9]])) == x).all())  # the whole image
    True
    """
    u = torch.from_numpy(draws).to(pixels.device, torch.float32)
    area = SCALE[0] + u[:, 0] * (SCALE[1] - SCALE[0])
    ratio = (math.log(RATIO[0]) + u[:, 1] * math.log(RATIO[1] / RATIO[0])).exp()
    wide, high = (area * ratio).sqrt().clamp_max(1), (area / ratio).sqrt().clamp_max(1)  # of the crop, as shares of the sides
    across, down = (1 - wide) * (2 * u[:, 2] - 1), (1 - high) * (2 * u[:, 3] - 1)  # centre of the crop, from -1 to 1
    mirror = torch.where(u[:, 4] < 0.5, -1.0, 1.0)
    none = torch.zeros_like(wide)
    boxes = torch.stack([mirror * wide, none, across, none, high, down], 1).view(-1, 2, 3)
    grid = torch.nn.functional.affine_grid(boxes, list(pixels.shape), align_corners=False)
    zoomed = torch.nn.functional.grid_sample(pixels.float(), grid, padding_mode="border", align_corners=False)
    return zoomed.round_().to(torch.uint8)


# augmentations by name: functions of uint8 images (B, 3, H, W) and uniform random numbers (B, 5)
AUGMENT: dict[str, Callable[[Tensor, Draws], Tensor]] = {
    "none": lambda pixels, draws: pixels,
    "crop_flip": crop_flip,
    "crop_flip_cut": lambda pixels, draws: cut_out(crop_flip(pixels, draws), draws),
    "zoom_flip": zoom_flip,
}
