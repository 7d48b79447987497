"""Batches of a folder's images, decoded in threads; unreadable images are reported with the reason."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dualtta.data.images import open_image
from dualtta.data.loading import default_workers
from dualtta.data.preprocess import Preprocess

AHEAD = 3  # batches that are decoded while the model adapts on one


@dataclass(frozen=True)
class Chunk:
    """A batch of files; `pixels` holds those that could be read, in order, `errors` the reasons for the others."""

    paths: list[str]
    pixels: Tensor | None  # (B, 3, H, W) bytes
    errors: dict[str, str]


def decode(root: Path, paths: list[str], preprocess: Preprocess, size: int, before: list[str]) -> Iterator[Chunk]:
    """Batches of `size` files, in order.

    Where the preprocessing does not resize, all images must have the size of the first readable one of `before` and `paths`.
    """
    shape: tuple[int, ...] | None = None
    if preprocess.size is None:
        every = (_read(root / path, preprocess) for path in (*before, *paths))
        shape = next((tuple(found.shape) for found in every if isinstance(found, Tensor)), None)
    waiting: deque[tuple[list[str], list[Future[Tensor | str]]]] = deque()
    starts = iter(range(0, len(paths), size))
    pool = ThreadPoolExecutor(max(1, default_workers()))
    try:
        while True:
            while len(waiting) <= AHEAD and (start := next(starts, None)) is not None:
                batch = paths[start : start + size]
                waiting.append((batch, [pool.submit(_read, root / path, preprocess) for path in batch]))
            if not waiting:
                return
            batch, futures = waiting.popleft()
            found = [_fitting(future.result(), shape) for future in futures]
            pixels = [image for image in found if isinstance(image, Tensor)]
            errors = {path: why for path, why in zip(batch, found, strict=True) if isinstance(why, str)}
            yield Chunk(batch, torch.stack(pixels) if pixels else None, errors)
    finally:
        pool.shutdown(cancel_futures=True)


def _read(path: Path, preprocess: Preprocess) -> Tensor | str:
    """The bytes of an image, or the reason why it cannot be read."""
    try:
        return preprocess.pixels(open_image(path))
    except ValueError as error:
        return " ".join(str(error).removeprefix(f"{path}: ").split())


def _fitting(found: Tensor | str, shape: tuple[int, ...] | None) -> Tensor | str:
    if isinstance(found, str) or shape is None or tuple(found.shape) == shape:
        return found
    return f"{found.shape[2]} x {found.shape[1]} pixels, where the first image has {shape[2]} x {shape[1]}"
