"""The training loop, with a checkpoint after each epoch."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, AdamW, Optimizer

from dualtta import state
from dualtta.train.images import Images
from dualtta.train.recipes import Recipe

KIND = "dualtta-training"
OnStep = Callable[["TrainingProgress"], None]


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training, reported after every step."""

    epoch: int  # from 1
    epochs: int
    step: int
    steps: int
    loss: float
    validation: float | None  # accuracy after the last completed epoch

    @property
    def done(self) -> int:
        """Steps done, of all epochs."""
        return (self.epoch - 1) * self.steps + self.step

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        return self.epochs * self.steps

    @property
    def note(self) -> str:
        score = "" if self.validation is None else f", validation {self.validation:.1%}"
        return f"epoch {self.epoch}/{self.epochs}, loss {self.loss:.3f}{score}"


@dataclass
class Trainer:
    """A model in training, with the state that a checkpoint saves."""

    model: nn.Module
    recipe: Recipe
    seed: int
    device: torch.device
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        r = self.recipe
        self.model.to(self.device)
        if self.device.type == "cuda":
            self.model.to(memory_format=torch.channels_last)
        self.optimizer: Optimizer = (
            SGD(self.model.parameters(), r.lr, r.momentum, weight_decay=r.weight_decay)
            if r.optimizer == "sgd"
            else AdamW(self.model.parameters(), r.lr, weight_decay=r.weight_decay)
        )

    def run(self, train: Images, valid: Images | None, checkpoint: Path, about: dict[str, Any], on_step: OnStep) -> None:
        """Train to the last epoch, resuming from the checkpoint if it was saved with the same `about`."""
        self.resume(checkpoint, about)
        train, valid = train.to(self.device), None if valid is None else valid.to(self.device)
        with preserved_random_state():
            for epoch in range(len(self.history) + 1, self.recipe.epochs + 1):
                began = time.perf_counter()
                torch.manual_seed(int(np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0]))  # dropout, drop path
                loss = self.train_epoch(train, epoch, on_step)
                score = None if valid is None else self.accuracy(valid)
                if self.recipe.keep == "last" or score is None or score > self._best_score():
                    self.best, self.best_epoch = self.weights(), epoch
                self.history.append({"epoch": epoch, "loss": round(loss, 6), "validation": score})
                self.seconds += time.perf_counter() - began
                self.save(checkpoint, about)
        self.model.load_state_dict(self.best)

    def train_epoch(self, train: Images, epoch: int, on_step: OnStep) -> float:
        """Train for one epoch and return the mean loss."""
        self.model.train()
        steps = math.ceil(len(train.dataset) / self.recipe.batch_size)
        total, seen = 0.0, 0
        last = self.history[-1]["validation"] if self.history else None
        for step, (rows, pixels) in enumerate(train.epoch(self.recipe.batch_size, self.seed, epoch)):
            for group in self.optimizer.param_groups:
                group["lr"] = self.recipe.lr * lr_factor(self.recipe, epoch - 1 + step / steps)
            labels = torch.from_numpy(train.dataset.labels[rows]).to(self.device)
            loss = F.cross_entropy(self.logits(train, pixels), labels)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            value = loss.item()
            if not math.isfinite(value):
                raise ValueError(f"the loss is {value} in epoch {epoch}: use a learning rate below {self.recipe.lr:g}")
            total, seen = total + value * len(rows), seen + len(rows)
            on_step(TrainingProgress(epoch, self.recipe.epochs, step + 1, steps, total / seen, last))
        return total / max(seen, 1)

    def logits(self, images: Images, pixels: Tensor) -> Tensor:
        x = images.preprocess.normalise(pixels.to(self.device, non_blocking=True))
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            logits: Tensor = self.model(x)
        return logits.float()

    def predictions(self, images: Images) -> Iterator[Tensor]:
        self.model.eval()
        with torch.no_grad():
            for _, pixels in images.batches(256):
                yield self.logits(images, pixels).argmax(1).cpu()

    def accuracy(self, images: Images) -> float:
        found = torch.cat(list(self.predictions(images))).numpy()
        return float(np.mean(found == images.dataset.labels))

    def weights(self) -> dict[str, Tensor]:
        return {name: value.detach().cpu().clone().contiguous() for name, value in self.model.state_dict().items()}

    def _best_score(self) -> float:
        return max((epoch["validation"] for epoch in self.history), default=-1.0)

    def save(self, path: Path, about: dict[str, Any]) -> None:
        tensors = {f"model/{name}": value for name, value in self.weights().items()}
        tensors |= {f"best/{name}": value for name, value in self.best.items()}
        for name, parameter in self.model.named_parameters():
            buffers = self.optimizer.state.get(parameter, {})
            tensors |= {f"optimizer/{name}/{key}": value.cpu() for key, value in buffers.items() if value is not None}
        progress = {"history": self.history, "best_epoch": self.best_epoch, "seconds": self.seconds}
        state.write(path, KIND, tensors, {"about": about, "progress": progress})

    def resume(self, path: Path, about: dict[str, Any]) -> None:
        if not path.exists():
            return
        try:
            tensors, header = state.read(path, KIND)
        except ValueError:  # not a checkpoint of this format: train from the start
            return
        if header["about"] != about:
            return
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
        for full, value in tensors.items():
            group, name = full.split("/", 1)
            groups[group][name] = value
        self.model.load_state_dict(groups["model"])
        self.best = groups["best"]
        parameters = dict(self.model.named_parameters())
        for full, value in groups["optimizer"].items():
            name, key = full.rsplit("/", 1)
            owner = parameters[name]
            # AdamW keeps its step counts on the CPU
            self.optimizer.state[owner][key] = value.to(owner.device) if value.ndim else value
        progress = header["progress"]
        self.history, self.best_epoch, self.seconds = progress["history"], progress["best_epoch"], progress["seconds"]


def lr_factor(recipe: Recipe, epoch: float) -> float:
    """Factor of the learning rate after a (fractional) number of epochs: linear warm-up, then the recipe's schedule.

    >>> r = Recipe(epochs=10, schedule="cosine", warmup=2)
    >>> [round(lr_factor(r, e), 2) for e in (0.5, 2, 6, 10)]
    [0.25, 1.0, 0.5, 0.0]
    """
    if epoch < recipe.warmup:
        return epoch / recipe.warmup
    if recipe.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (epoch - recipe.warmup) / max(recipe.epochs - recipe.warmup, 1e-9)))


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restore torch's random number generators at the end."""
    with torch.random.fork_rng():
        yield
