"""From a stream to batches on the device: decoded in workers, pinned, prefetched, in the stream's order.

    for batch in load(dataset, stream, preprocess, device="cuda"):
        if batch.reset:
            adapter.reset()
        logits = adapter(batch.x)

Bytes travel; the device makes floats of them. Only the prefetched batches are ever in memory.
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
    """A batch of a stream. `reset` is true for the first of a segment that starts from the source model."""

    x: Tensor  # (B, 3, H, W), normalised, on the device
    index: Tensor  # (B,) of each image in its dataset
    label: Tensor  # (B,) for the evaluation only
    domain: Tensor  # (B,)
    group: Tensor  # (B,) -1 where the dataset has no groups
    segment: int
    reset: bool


class _Pixels(TorchDataset[Tensor | str]):
    """Batches of bytes by the stream's indices: a whole batch is one worker's task.

    What is wrong with an image comes back as words: an exception would carry the worker's traceback in its text.
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
    """An image as the model would see it, in bytes; a ValueError that names the image where it cannot be made so."""
    picture = dataset.image(index)  # names it by itself
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
    """The stream's batches on the device. `workers=0` decodes in this process; None takes what the machine has, up to 8."""
    device = torch.device(device)
    pairs = list(stream.batches())
    count = min(default_workers() if workers is None else workers, len(pairs))
    loader = DataLoader(
        _Pixels(dataset, preprocess, [indices for _, indices in pairs]),
        batch_size=None,  # an item is a batch already
        shuffle=False,
        num_workers=count,
        prefetch_factor=prefetch if count else None,
        pin_memory=device.type == "cuda",
        worker_init_fn=_one_core,
        generator=torch.Generator(),  # the loader draws seeds for its workers: not from the generator others rely on
    )
    with _opencv_at_rest():
        arriving = iter(loader)  # starts the workers
    last = -1
    for (segment, indices), pixels in zip(pairs, _ahead(arriving, device), strict=True):
        if isinstance(pixels, str):
            raise ValueError(pixels)
        yield Batch(
            preprocess.normalise(pixels),
            torch.from_numpy(indices),
            torch.from_numpy(dataset.labels[indices]),
            torch.from_numpy(dataset.domain[indices]),
            torch.from_numpy(dataset.group[indices]),
            segment,
            segment != last and stream.segments[segment].reset,
        )
        last = segment


def _ahead(arriving: Iterator[Tensor | str], device: torch.device) -> Iterator[Tensor | str]:
    """Each batch on the device; on a GPU the next one is copied on a stream of its own while this one is worked on."""
    if device.type != "cuda":
        yield from (pixels if isinstance(pixels, str) else pixels.to(device) for pixels in arriving)
        return
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def fetch() -> Tensor | str | None:
        pixels = next(arriving, None)
        if isinstance(pixels, Tensor):
            with torch.cuda.stream(side):
                return pixels.to(device, non_blocking=True)
        return pixels

    ready = fetch()
    while ready is not None:
        now, present = ready, torch.cuda.current_stream(device)
        if isinstance(now, Tensor):
            present.wait_stream(side)
            now.record_stream(present)
        ready = fetch() if isinstance(now, Tensor) else None  # after an error nothing follows
        yield now


@contextmanager
def _opencv_at_rest() -> Iterator[None]:
    """Workers are forks, and OpenCV's threads do not survive a fork: a worker that uses it would wait for them for ever."""
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


def _one_core(worker: int) -> None:
    """A worker is one of many: OpenCV, should a corruption bring it later, must not start a thread a core in each."""
    os.environ["OPENCV_FOR_THREADS_NUM"] = "1"


def default_workers() -> int:
    """The processor cores this process may use, all but the one that drives the model; at most 8, enough for one GPU."""
    return max(0, min(8, cores() - 1))
