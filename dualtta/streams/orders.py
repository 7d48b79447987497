"""Orders of the samples of a domain: shuffled, label shift, temporally correlated, repeated. An order is stateless."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualtta.data.datasets.base import Ints
from dualtta.streams.label_shift import label_shift


@dataclass(frozen=True)
class Order(ABC):
    """A distribution over orders of the samples of a domain, given their labels."""

    name: ClassVar[str]

    @abstractmethod
    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        """Positions in `labels`. `key` identifies the domain and the pass over it, so that each gets an order of its own."""


@dataclass(frozen=True)
class Shuffled(Order):
    """Every sample once, in random order."""

    name: ClassVar[str] = "shuffled"

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        return np.random.RandomState([seed, *key]).permutation(len(labels))


@dataclass(frozen=True)
class InSequence(Order):
    """Every sample once, in the dataset's own order: for datasets that are sequences."""

    name: ClassVar[str] = "in sequence"

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        return np.arange(len(labels))


@dataclass(frozen=True)
class LabelShift(Order):
    """Label shift: one class dominates, then another; drawn with replacement, as published for that seed and ratio."""

    name: ClassVar[str] = "label shift"
    ratio: float = 500000
    slot: int | None = None

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        by_class = np.argsort(labels, kind="stable")  # the published orders index the images sorted by class
        # the same order for every domain, as published; a new one for each further pass
        return by_class[label_shift(np.bincount(labels).tolist(), seed + key[1], self.ratio, self.slot)]


@dataclass(frozen=True)
class Dirichlet(Order):
    """Temporally correlated labels: every sample once, each class spread over time slots by a Dirichlet draw.

    The smaller `alpha`, the fewer slots hold a class. `slots`: their number; by default the number of classes.
    """

    name: ClassVar[str] = "Dirichlet"
    alpha: float = 0.1
    slots: int | None = None

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ValueError(f"alpha must be above zero, not {self.alpha}: 0.1 is strongly correlated, 100 hardly at all")
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"there must be at least one slot, not {self.slots}")

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        rng = np.random.RandomState([seed, *key])
        classes = np.unique(labels)
        slots: list[list[Ints]] = [[] for _ in range(self.slots or len(classes))]
        for label in classes:
            members = rng.permutation(np.flatnonzero(labels == label))
            # gamma draws divided by their sum are a Dirichlet draw; the floor avoids 0 / 0 for a tiny alpha
            share = np.maximum(rng.standard_gamma(self.alpha, len(slots)), 1e-300)
            cuts = np.round(np.cumsum(share / share.sum())[:-1] * len(members)).astype(np.int64)
            for slot, chunk in zip(slots, np.split(members, cuts), strict=True):
                slot.append(chunk)
        runs = [slot[i] for slot in slots for i in rng.permutation(len(slot))]
        return np.concatenate([np.zeros(0, np.int64), *runs])


@dataclass(frozen=True)
class Sorted(Order):
    """All samples of class 0, then all of class 1, and so on; shuffled within a class."""

    name: ClassVar[str] = "sorted by label"

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        shuffled = Shuffled().draw(labels, seed, key)
        return shuffled[np.argsort(labels[shuffled], kind="stable")]


@dataclass(frozen=True)
class Runs(Order):
    """Runs of few classes, as a camera sees them: `length` samples of `classes` random classes, then of other ones.

    A class comes up again only after all others. A run of fewer images than `length` holds them more than once.
    """

    name: ClassVar[str] = "runs of few classes"
    classes: int = 10
    length: int = 250

    def __post_init__(self) -> None:
        _at_least_one(self, "classes", "length")

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        rng = np.random.RandomState([seed, *key])
        runs, drawn = [np.zeros(0, np.int64)], 0
        while drawn < len(labels):
            shuffled = rng.permutation(np.unique(labels))
            for start in range(0, len(shuffled), self.classes):
                members = np.flatnonzero(np.isin(labels, shuffled[start : start + self.classes]))
                runs.append(passes_over(members, self.length, rng))
                drawn += self.length
        return np.concatenate(runs)[: len(labels)]


@dataclass(frozen=True)
class FewClasses(Order):
    """The samples of `classes` random classes alone, again and again, as many as the domain has samples."""

    name: ClassVar[str] = "few classes"
    classes: int = 1

    def __post_init__(self) -> None:
        _at_least_one(self, "classes")

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        # the classes stay the same in a further pass: more of them would be another stream
        chosen = np.random.RandomState([seed, key[0]]).permutation(np.unique(labels))[: self.classes]
        return passes_over(np.flatnonzero(np.isin(labels, chosen)), len(labels), np.random.RandomState([seed, *key]))


@dataclass(frozen=True)
class Repeated(Order):
    """The same `images` random samples in the same order, again and again, as many as the domain has samples."""

    name: ClassVar[str] = "repeated"
    images: int = 64

    def __post_init__(self) -> None:
        _at_least_one(self, "images")

    def draw(self, labels: Ints, seed: int, key: tuple[int, int]) -> Ints:
        # the same images in every pass
        return np.resize(np.random.RandomState([seed, key[0]]).permutation(len(labels))[: self.images], len(labels))


def passes_over(members: Ints, length: int, rng: np.random.RandomState) -> Ints:
    """So many of these samples: all in random order, again in another one until there are enough.

    >>> sorted(passes_over(np.array([4, 7]), 5, np.random.RandomState(0))[:4].tolist())
    [4, 4, 7, 7]
    """
    rounds = [rng.permutation(members) for _ in range(-(-length // len(members)))]
    return np.concatenate(rounds)[:length]


def _at_least_one(order: Order, *names: str) -> None:
    for name in names:
        if getattr(order, name) < 1:
            raise ValueError(f"{name} must be at least 1, not {getattr(order, name)}")
