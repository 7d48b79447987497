"""Scenarios: how test samples are ordered and grouped into batches, and where adaptation restarts.

    stream = make_scenario("imbalanced+mixed", batch_size=1).stream(dataset, seed=2024)

A scenario sets three independent things: how domains follow each other, how labels are ordered within a domain, and the batch
size. So scenarios can be combined. A stream is the result: plain indices, determined by seed and settings, saved with a run.
"""

import dataclasses
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.data.datasets.base import Dataset, Ints
from dualtta.files import write_bytes
from dualtta.plugins import nearest
from dualtta.streams.orders import Dirichlet, FewClasses, InSequence, LabelShift, Order, Repeated, Runs, Shuffled, Sorted

VERSION = 1


@dataclass(frozen=True)
class Segment:
    """A part of a stream: its images in order, and whether the adapter is reset to the source model before it."""

    domain: str
    reset: bool
    indices: Ints


@dataclass(frozen=True)
class Stream:
    """Segments that are cut into batches. `about` holds the settings that the stream was drawn with."""

    segments: tuple[Segment, ...]
    batch_size: int
    about: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of samples; one that occurs twice counts twice."""
        return sum(len(segment.indices) for segment in self.segments)

    def batches(self) -> Iterator[tuple[int, Ints]]:
        """Yields (segment, indices) for each batch. A batch never spans two segments; the last of a segment may be smaller."""
        for number, segment in enumerate(self.segments):
            for start in range(0, len(segment.indices), self.batch_size):
                yield number, segment.indices[start : start + self.batch_size]

    def save(self, path: str | Path) -> None:
        """Write an npz file, whole or not at all."""
        write_bytes(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The content of the npz file that `load` reads."""
        about = {"version": VERSION, "batch_size": self.batch_size, **self.about}
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            indices=np.concatenate([np.zeros(0, np.int64), *(segment.indices for segment in self.segments)]),
            lengths=np.array([len(segment.indices) for segment in self.segments], np.int64),
            resets=np.array([segment.reset for segment in self.segments], bool),
            domains=np.array([segment.domain for segment in self.segments], np.str_),
            about=np.array(json.dumps(about)),
        )
        return buffer.getvalue()

    @classmethod
    def load(cls, path: str | Path) -> "Stream":
        """Read a file that `save` wrote; a ValueError where it is damaged or of another kind."""
        try:
            with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                parts = np.split(file["indices"], np.cumsum(file["lengths"])[:-1])
                rows = zip(file["domains"].tolist(), file["resets"].tolist(), parts, strict=True)
                segments = tuple(Segment(domain, reset, indices) for domain, reset, indices in rows)
            version, batch_size = about.pop("version"), about.pop("batch_size")
        except FileNotFoundError:
            raise
        except Exception as error:  # a damaged zip or npy may raise anything
            raise ValueError(f"{path} is not a saved stream: {error}") from error
        if version != VERSION:
            raise ValueError(f"{path} has format {version}; this version of dualtta reads format {VERSION}")
        return cls(segments, batch_size, about)


@dataclass(frozen=True)
class Scenario:
    """How the samples of a dataset are ordered and grouped. The fields are independent of each other.

    Args:
        pool: Whether all domains are shuffled together instead of following one after the other.
        reset: Whether the adapter is reset to the source model before every domain.
        order: The order of the samples within a domain, or within the pool.
        batch_size: The number of samples in a batch.
        domains: Which domains, in what order; by default all, in the dataset's order.
        repeats: The number of passes over what lies between two resets.
        limit: The largest number of samples of a domain, or of the pool, in one pass.
        switch: The domains take turns, each for so many samples; None: each is finished before the next.
        before: A scenario whose stream comes first, without a reset in between and with the same batch size.
    """

    pool: bool = False
    reset: bool = True
    order: Order = field(default_factory=Shuffled)
    batch_size: int = 64
    domains: tuple[str, ...] | None = None
    repeats: int = 1
    limit: int | None = None
    switch: int | None = None
    before: "Scenario | None" = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "repeats", "limit", "switch"):
            value = getattr(self, name)
            if not (value is None and name in ("limit", "switch")) and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
        if self.switch is not None and self.reset:
            raise ValueError("domains that take turns are not reset between: set reset=False, as the scenario continual does")

    def stream(self, dataset: Dataset, seed: int = 2024) -> Stream:
        """Draw the stream of a dataset."""
        if not 0 <= seed < 2**32:
            raise ValueError(f"a seed is a whole number from 0 to {2**32 - 1}, not {seed}")
        parts = self._parts(dataset)
        # what lies between two resets is repeated: one domain, or, without resets, all domains in turn
        rounds = [[part] for part in parts] if self.reset else [parts]
        segments = [
            Segment(domain, self.reset and turn == 0, indices[self._draw(dataset, domain, indices, seed, turn)])
            for part in rounds
            for turn in range(self.repeats)
            for domain, indices in part
        ]
        if self.switch is not None:
            turns = [segments[start : start + len(parts)] for start in range(0, len(segments), len(parts))]
            segments = [segment for turn in turns for segment in take_turns(turn, self.switch)]
        if self.before is not None:
            first = self.before.stream(dataset, seed).segments
            segments = [*first, dataclasses.replace(segments[0], reset=False), *segments[1:]]
        about = {"seed": seed, "scenario": settings(self), "data": dataset.about()}
        return Stream(tuple(segments), self.batch_size, about)

    def _parts(self, dataset: Dataset) -> list[tuple[str, Ints]]:
        """The name and the images of each domain, or of the pool."""
        wanted = dataset.domains if self.domains is None else self.domains
        for domain in wanted:
            if domain not in dataset.domains:
                raise ValueError(
                    f"{dataset.name or 'the dataset'} has no domain {domain!r}; {nearest(domain, dataset.domains)}"
                )
        found = [(domain, np.flatnonzero(dataset.domain == dataset.domains.index(domain))) for domain in wanted]
        empty = [domain for domain, indices in found if not len(indices)]
        if empty or not found:
            raise ValueError(f"no images of {', '.join(empty) or 'any domain'}: choose others with domains=, or get the images")
        if not self.pool:
            return found
        return [("+".join(wanted) if len(wanted) == 1 else "all", np.concatenate([indices for _, indices in found]))]

    def _draw(self, dataset: Dataset, domain: str, indices: Ints, seed: int, turn: int) -> Ints:
        # the domain's name, not its number, so that its order does not depend on which other domains are chosen
        return self.order.draw(dataset.labels[indices], seed, (zlib.crc32(domain.encode()), turn))[: self.limit]


def take_turns(segments: list[Segment], size: int) -> Iterator[Segment]:
    """The first `size` samples of each segment, then the next of each, until all are used."""
    for start in range(0, max(len(segment.indices) for segment in segments), size):
        for segment in segments:
            if len(part := segment.indices[start : start + size]):
                yield dataclasses.replace(segment, indices=part)


# The settings that each name sets. Names that set different ones can be combined, as in "imbalanced+mixed".
SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {
    "mild": ("one domain at a time, shuffled, reset to the source model between", {}),
    "imbalanced": ("one class dominates, then another (the published label shift)", {"order": LabelShift()}),
    "mixed": ("all domains shuffled together", {"pool": True}),
    "continual": ("one domain after the other, without reset", {"reset": False}),
    "correlated": ("temporally correlated labels (Dirichlet)", {"order": Dirichlet()}),
    "single": ("one image at a time", {"batch_size": 1}),
    "sorted": ("all images of one class, then all of the next", {"order": Sorted()}),
    "camera": (
        "runs of ten classes; the domain changes every 500 images, without reset",
        {"order": Runs(), "reset": False, "switch": 500},
    ),
    "one-class": ("images of one class alone, again and again", {"order": FewClasses()}),
    "repeated": ("one batch, again and again", {"order": Repeated()}),
    "sequence": ("images in the dataset's own order, without reset", {"order": InSequence(), "reset": False}),
    "alternating": ("another domain with every batch, without reset", {"reset": False, "switch": 64}),
}


def make_scenario(name: str = "mild", **choices: Any) -> Scenario:
    """A scenario by its name, or by several joined with +; `choices` are settings of the scenario or of its order.

    `before` may be a dict: the name and the choices of the scenario that comes first.

    >>> make_scenario("imbalanced+mixed+single", ratio=1000).order
    LabelShift(ratio=1000, slot=None)
    >>> make_scenario("imbalanced+correlated")
    Traceback (most recent call last):
    ...
    ValueError: imbalanced and correlated both set the order; choose one of them
    """
    fields: dict[str, Any] = {}
    by: dict[str, str] = {}
    for part in name.split("+"):
        if part not in SCENARIOS:
            raise ValueError(f"there is no scenario {part!r}; {nearest(part, SCENARIOS)}")
        for key, value in SCENARIOS[part][1].items():
            if key in by and fields[key] != value:
                raise ValueError(f"{by[key]} and {part} both set the {key}; choose one of them")
            fields[key], by[key] = value, part
    if isinstance(choices.get("before"), dict):
        choices = {**choices, "before": make_scenario(**choices["before"])}
    own = {spec.name for spec in dataclasses.fields(Scenario)}
    scenario = Scenario(**fields | {key: value for key, value in choices.items() if key in own})
    inner = {key: value for key, value in choices.items() if key not in own}
    known = {spec.name for spec in dataclasses.fields(scenario.order)}
    for key in inner:
        if key not in known:
            raise ValueError(f"{name} has no setting {key!r}; {nearest(key, own | known)}")
    return dataclasses.replace(scenario, order=dataclasses.replace(scenario.order, **inner))


def settings(scenario: Scenario) -> dict[str, Any]:
    """A scenario's settings as JSON values.

    >>> settings(make_scenario("correlated"))["order"]
    {'order': 'Dirichlet', 'alpha': 0.1, 'slots': None}
    """
    values = {spec.name: getattr(scenario, spec.name) for spec in dataclasses.fields(scenario)}
    domains = None if scenario.domains is None else list(scenario.domains)
    order = {"order": scenario.order.name, **dataclasses.asdict(scenario.order)}
    before = None if scenario.before is None else settings(scenario.before)
    later = {"switch": scenario.switch, "before": before}  # streams saved without these settings stay equal to new ones
    usual = {name: value for name, value in values.items() if name not in later}
    chosen = {name: value for name, value in later.items() if value is not None}
    return {**usual, "domains": domains, "order": order, **chosen}
