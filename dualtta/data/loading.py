"""Batches of a stream on the device: decoded in worker processes, pinned, prefetched, in the stream's order.

    for batch in load(dataset, stream, preprocess, device="cuda"):
        if batch.reset:
            adapter.reset()
        logits = adapter(batch.x)

Images are copied to the device as bytes and normalised there. Only the prefetched batches are in memory.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from dualtta.data.datasets.base import Dataset, Ints
from dualtta.data.preprocess import Preprocess
from dualtta.processes import cores

if TYPE_CHECKING:
    from dualtta.streams.scenarios import Stream


@dataclass(frozen=True)
class Batch:
    """A batch of a stream. `reset`: it is the first of a segment before which the adapter is reset."""

    x: Tensor  # (B, 3, H, W), normalised, on the device
    index: Tensor  # (B,) of each image in its dataset
    label: Tensor  # (B,) used by the evaluation only
    domain: Tensor  # (B,)
    group: Tensor  # (B,) -1 where the dataset has no groups
    segment: int
    reset: bool


class _Pixels(TorchDataset[Tensor | str]):
    """Batches of bytes by the stream's indices; one item is a batch.

    An error is returned as its message: an exception would have the worker's traceback in its text.
    """

    def __init__(self, dataset: Dataset, preprocess: Preprocess, batches: list[Ints]) -> None:
        self.dataset, self.preprocess, self.batches = dataset, preprocess, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Tensor | str:
        try:
            return self.stack(number)
        except (ValueError, OSError) as error:
            return str(error)

    def stack(self, number: int) -> Tensor:
        images = [pixels_of(self.dataset, int(index), self.preprocess) for index in self.batches[number]]
        shapes = {tuple(image.shape[1:]) for image in images}
        if len(shapes) > 1:
            sizes = ", ".join(f"{width} x {height}" for height, width in sorted(shapes))
            raise ValueError(f"the images of a batch differ in size ({sizes}): give the preprocessing a size")
        return torch.stack(images)


def pixels_of(dataset: Dataset, index: int, preprocess: Preprocess) -> Tensor:
    """An image resized and cropped for the model, as bytes (3, H, W); a ValueError names an image that fails."""
    picture = dataset.image(index)  # its errors name the image
    try:
        return preprocess.pixels(picture)
    except ValueError as error:
        raise ValueError(f"{dataset.where(index)}: {error}") from error


def load(
    dataset: Dataset,
    stream: "Stream",
    preprocess: Preprocess,
    *,
    device: str | torch.device = "cpu",
    workers: int | None = None,
    prefetch: int = 4,
) -> Iterator[Batch]:
    """The stream's batches on the device.

    Args:
        workers: Processes that decode; 0 decodes in this process, None is one less than the cores, at most 8.
        prefetch: Batches that each worker prepares in advance.
    """
    device = torch.device(device)
    pairs = list(stream.batches())
    count = min(default_workers() if workers is None else workers, len(pairs))
    loader = DataLoader(
        _Pixels(dataset, preprocess, [indices for _, indices in pairs]),
        batch_size=None,  # an item is a batch
        shuffle=False,
        num_workers=count,
        prefetch_factor=prefetch if count else None,
        pin_memory=device.type == "cuda",
        worker_init_fn=_one_opencv_thread,
        generator=torch.Generator(),  # the loader draws seeds for its workers: not from the global generator
    )
    with _opencv_single_threaded():
        arriving = iter(loader)  # starts the workers
    last = -1
    for (segment, indices), pixels in zip(pairs, _ahead(arriving, device), strict=True):
        if isinstance(pixels, str):
            raise ValueError(pixels)
        x = preprocess.normalise(pixels)
        if dataset.gain is not None:
            x = x * torch.from_numpy(dataset.gain[indices]).to(x.device).view(-1, 1, 1, 1)
        yield Batch(
            x,
            torch.from_numpy(indices),
            torch.from_numpy(dataset.labels[indices]),
            torch.from_numpy(dataset.domain[indices]),
            torch.from_numpy(dataset.group[indices]),
            segment,
            segment != last and stream.segments[segment].reset,
        )
        last = segment


def _ahead(arriving: Iterator[Tensor | str], device: torch.device) -> Iterator[Tensor | str]:
    """Each batch on the device. On a GPU the next batch is copied on a separate CUDA stream meanwhile."""
    if device.type != "cuda":
        yield from (pixels if isinstance(pixels, str) else pixels.to(device) for pixels in arriving)
        return
    copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def fetch() -> Tensor | str | None:
        pixels = next(arriving, None)
        if isinstance(pixels, Tensor):
            with torch.cuda.stream(copying):
                return pixels.to(device, non_blocking=True)
        return pixels

    ready = fetch()
    while ready is not None:
        now, current = ready, torch.cuda.current_stream(device)
        if isinstance(now, Tensor):
            current.wait_stream(copying)
            now.record_stream(current)
        ready = fetch() if isinstance(now, Tensor) else None  # after an error nothing follows
        yield now


@contextmanager
def _opencv_single_threaded() -> Iterator[None]:
    """End OpenCV's threads while workers are forked: they do not survive a fork, and a worker would wait for them forever."""
    opencv = sys.modules.get("cv2")
    if opencv is None:
        yield
        return
    before = opencv.getNumThreads()
    opencv.setNumThreads(1)  # ends its threads
    try:
        yield
    finally:
        opencv.setNumThreads(before)


def _one_opencv_thread(worker: int) -> None:
    """Limit OpenCV, which a corruption may import later, to one thread: there is a worker for each core."""
    os.environ["OPENCV_FOR_THREADS_NUM"] = "1"


def default_workers() -> int:
    """One less than the cores this process may use, as one drives the model; at most 8, which one GPU needs."""
    return max(0, min(8, cores() - 1))
