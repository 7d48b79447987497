"""In what order the samples of a domain are met, as their labels decide it. An order draws positions; it holds no state."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualtta.data.datasets.base import Ints
from dualtta.streams.label_shift import label_shift


@dataclass(frozen=True)
class Order(ABC):
    name: ClassVar[str]

    @abstractmethod
    def draw(self, labels: Ints, seed: int, stretch: tuple[int, int]) -> Ints:
        """Positions among `labels`. `stretch` tells the domain (a number of its own) and the pass, so that no two are alike."""


@dataclass(frozen=True)
class Shuffled(Order):
    """Every sample once, in random order."""

    name: ClassVar[str] = "shuffled"

    def draw(self, labels: Ints, seed: int, stretch: tuple[int, int]) -> Ints:
        return np.random.RandomState([seed, *stretch]).permutation(len(labels))


@dataclass(frozen=True)
class LabelShift(Order):
    """One class dominates, then another: drawn with replacement, in the published order for that seed and ratio."""

    name: ClassVar[str] = "label shift"
    ratio: float = 500000
    slot: int | None = None

    def draw(self, labels: Ints, seed: int, stretch: tuple[int, int]) -> Ints:
        by_class = np.argsort(labels, kind="stable")  # the published orders count in the images sorted by class
        # the same order for every domain, as published; another for a second pass
        return by_class[label_shift(np.bincount(labels).tolist(), seed + stretch[1], self.ratio, self.slot)]


@dataclass(frozen=True)
class Dirichlet(Order):
    """Every sample once, neighbours of one class: each class is spread over the slots of time by a Dirichlet draw.

    The smaller alpha, the fewer slots a class is met in. There are as many slots as classes unless told.
    """

    name: ClassVar[str] = "Dirichlet"
    alpha: float = 0.1
    slots: int | None = None

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ValueError(f"alpha must be above zero, not {self.alpha}: 0.1 is strongly correlated, 100 hardly at all")
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"there must be at least one slot, not {self.slots}")

    def draw(self, labels: Ints, seed: int, stretch: tuple[int, int]) -> Ints:
        rng = np.random.RandomState([seed, *stretch])
        classes = np.unique(labels)
        slots: list[list[Ints]] = [[] for _ in range(self.slots or len(classes))]
        for label in classes:
            members = rng.permutation(np.flatnonzero(labels == label))
            # gammas divided by their sum are a Dirichlet draw; the floor keeps a tiny alpha from dividing zero by zero
            share = np.maximum(rng.standard_gamma(self.alpha, len(slots)), 1e-300)
            cuts = np.round(np.cumsum(share / share.sum())[:-1] * len(members)).astype(np.int64)
            for slot, chunk in zip(slots, np.split(members, cuts), strict=True):
                slot.append(chunk)
        runs = [slot[place] for slot in slots for place in rng.permutation(len(slot))]
        return np.concatenate([np.zeros(0, np.int64), *runs])
