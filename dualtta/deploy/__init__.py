"""Adaptation of a deployed model over a folder of images: predictions in a CSV file, and the adapted state that belongs to it.

The rows of a batch are on the disk before a state that was adapted on the batch, and a state records the length of the CSV. So
a run that was killed continues from its last state and ends with the same files as an undisturbed one.
"""

import hashlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dualtta import state as states
from dualtta.adapter import ADVICE, KIND, Adapter, CollapseWarning
from dualtta.data.images import existing_folder, find_images
from dualtta.data.preprocess import Preprocess
from dualtta.deploy.images import Chunk, decode
from dualtta.deploy.predictions import Predictions
from dualtta.progress import progress as progress_bar


@dataclass(frozen=True)
class Files:
    """The files that a run writes."""

    csv: Path
    state: Path

    @classmethod
    def of(cls, out: str | Path, state: str | Path | None) -> "Files":
        csv = Path(out).expanduser()
        beside = csv.with_name(f"{csv.stem}.safetensors") if csv.name else csv
        files = cls(csv, Path(state).expanduser() if state is not None else beside)
        for path in (files.csv, files.state):
            if path.is_dir():
                raise ValueError(f"{path} is a folder: name a file")
            if not path.parent.is_dir():
                raise ValueError(f"there is no folder {path.parent} for {path.name}: make it first")
        if files.csv == files.state:
            raise ValueError(f"predictions and state cannot both be {files.csv}")
        return files


def adapt_folder(
    adapter: Adapter,
    preprocess: Preprocess,
    images: str | Path,
    out: str | Path,
    *,
    state: str | Path | None = None,
    names: tuple[str, ...] | None = None,
    batch_size: int = 64,
    resume: bool = False,
    save_every: float = 5.0,
    device: str | torch.device = "cpu",
    origin: str = "",
    stop: Callable[[], bool] = lambda: False,
    progress: bool = True,
) -> dict[str, Any]:
    """Predict and adapt over all images in a folder and its subfolders; returns a summary.

    Args:
        out: The CSV file; it must not exist, unless `resume` continues it.
        state: The file for the adapted state; by default beside the CSV.
        names: The names of the classes, for the CSV.
        resume: Continue from the state.
        save_every: Seconds between two saves of the state.
        origin: Identifies the model's weights; a state adapted from other weights is not continued.
        stop: Called after each batch; the run ends where it returns True.
        progress: Whether to show a progress bar on a terminal.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be a whole number of at least 1, not {batch_size}")
    if not save_every >= 0:
        raise ValueError(f"save_every must be a number of seconds from 0, not {save_every}")
    files = Files.of(out, state)
    root = existing_folder(images)
    paths = find_images(root)
    about = {"batch_size": batch_size, "origin": origin, "preprocess": preprocess.about()}
    run = Run(adapter, files, paths, about | {"class_names": _names(list(names)) if names else None})
    began, first = time.monotonic(), run.begin(resume)
    saved = -math.inf  # save after the first batch, so that the run can be resumed from then on
    try:
        with progress_bar("adapting", len(paths), first, shown=progress) as bar, _quiet_collapse():
            for chunk in decode(root, paths[first:], preprocess, batch_size, paths[:first]):
                run.write(chunk, _step(adapter, chunk, preprocess, device, batch_size), names)
                bar(run.done, note=f"{(run.done - first) / max(time.monotonic() - began, math.ulp(1.0)):.1f} images/s")
                if stop():
                    break
                if time.monotonic() - saved >= save_every:
                    run.save()
                    saved = time.monotonic()
        run.save()
    except BaseException:
        run.abandon()
        raise
    seconds = time.monotonic() - began
    return run.summary() | {
        "interrupted": run.done < len(paths),
        "seconds": round(seconds, 2),
        "images_per_second": round((run.done - first) / seconds, 1) if seconds else None,
    }


class Run:
    """The files of a run and its position in the list of images."""

    def __init__(self, adapter: Adapter, files: Files, paths: list[str], about: dict[str, Any]) -> None:
        self.adapter, self.files, self.paths = adapter, files, paths
        self.about: dict[str, Any] = json.loads(json.dumps(about))
        self.done = self.unreadable = self.updates = self.first = 0
        self.collapsing = False

    def begin(self, resume: bool) -> int:
        """Open a new CSV, or the one that the state belongs to; returns the number of images that are done."""
        if resume and self.files.state.exists():
            self._continue()
        else:
            if self.files.state.exists():
                raise ValueError(f"{self.files.state} exists already: continue it with --resume, or name another file")
            if resume:
                Predictions.remove(self.files.csv)  # killed before its first state: starts again
            self.table = Predictions.create(self.files.csv)
        self.first = self.done
        return self.done

    def _continue(self) -> None:
        _, header = states.read(self.files.state, KIND)
        then = header.get("deployment")
        if then is None:
            raise ValueError(f"{self.files.state} is a state that `dualtta adapt` did not write: it cannot be resumed")
        for key, here in self.about.items():
            there = then["about"].get(key, here)  # older states do not have every key
            if there != here:
                raise ValueError(f"{self.files.state} was saved with {key} {there!r}, not {here!r}")
        if then["done"] > len(self.paths) or then["paths"] != _names(self.paths[: then["done"]]):
            raise ValueError("the folder's first images are not those that were done: start again with other file names")
        if not self.files.csv.is_file():
            raise ValueError(f"{self.files.state} belongs to {self.files.csv}, which does not exist: start again")
        self.adapter.load(self.files.state)
        self.table = Predictions.reopen(self.files.csv, then["csv"])
        self.done, self.unreadable, self.updates = then["done"], then["unreadable"], then["updates"]
        self.collapsing = then["collapsing"]

    def write(self, chunk: Chunk, outcome: "Outcome | None", names: tuple[str, ...] | None) -> None:
        """Write the rows of a batch."""
        for path, why in chunk.errors.items():
            print(f"dualtta: {path}: {why}", file=sys.stderr)
        rows = iter(outcome.rows(names) if outcome else [])
        self.table.append(
            [path, *[""] * 6, chunk.errors[path]] if path in chunk.errors else [path, *next(rows), ""] for path in chunk.paths
        )
        self.done += len(chunk.paths)
        self.unreadable += len(chunk.errors)
        if outcome:
            self.updates += outcome.updated
            if outcome.collapsing and not self.collapsing:
                print(f"dualtta: after {self.done} images {ADVICE}", file=sys.stderr)
            self.collapsing |= outcome.collapsing

    def save(self) -> None:
        """Flush the CSV to the disk, then save the adapter's state with the length of the CSV."""
        self.table.sync()
        fresh = self.files.state.with_name(f".{self.files.state.name}.new")
        try:
            self.adapter.save(fresh)
            tensors, header = states.read(fresh, KIND)
            counts = {"unreadable": self.unreadable, "updates": self.updates, "collapsing": self.collapsing}
            position = {"done": self.done, "paths": _names(self.paths[: self.done]), "csv": self.table.mark()}
            states.write(self.files.state, KIND, tensors, header | {"deployment": {"about": self.about, **position, **counts}})
        finally:
            fresh.unlink(missing_ok=True)

    def abandon(self) -> None:
        """After an error: close the CSV, or remove it where it has no rows."""
        if self.done:
            self.table.close()
        else:
            self.table.discard()

    def summary(self) -> dict[str, Any]:
        self.table.close()
        counts = {"images": len(self.paths), "done": self.done, "unreadable": self.unreadable, "updates": self.updates}
        return {**counts, "collapsing": self.collapsing, "csv": str(self.files.csv), "state": str(self.files.state)}


@dataclass(frozen=True)
class Outcome:
    """The result of a batch's step, on the CPU."""

    probabilities: Tensor  # (B, C)
    plus: Tensor
    minus: Tensor
    updated: bool
    collapsing: bool

    def rows(self, names: tuple[str, ...] | None) -> Iterator[list[Any]]:
        confidence, prediction = self.probabilities.max(1)
        entropy = torch.special.entr(self.probabilities).sum(1)
        columns = (prediction, confidence, entropy, self.plus.int(), self.minus.int())
        for number, sure, spread, plus, minus in zip(*(column.tolist() for column in columns), strict=True):
            yield [number, names[number] if names else "", f"{sure:.6f}", f"{spread:.6f}", plus, minus]


def _step(adapter: Adapter, chunk: Chunk, preprocess: Preprocess, device: str | torch.device, size: int) -> Outcome | None:
    if chunk.pixels is None:
        return None  # no image of this batch could be read
    try:
        step = adapter.step(preprocess.normalise(chunk.pixels.to(device)))
    except torch.OutOfMemoryError as error:
        raise ValueError(f"{device} has too little memory for batches of {size}: use a smaller --batch-size") from error
    probabilities = step.logits.float().softmax(1).cpu()
    return Outcome(probabilities, step.plus.cpu(), step.minus.cpu(), step.updated, step.collapsing)


def _names(paths: list[str]) -> str:
    return hashlib.sha256("\0".join(paths).encode("utf-8", "surrogateescape")).hexdigest()


@contextmanager
def _quiet_collapse() -> Iterator[None]:
    """Suppress the warning of a collapse, which is printed in one line instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        yield
