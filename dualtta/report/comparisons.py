"""Records side by side: a comparison is what methods are compared on, an entry is a method with its settings over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualtta.data.published import CORRUPTIONS
from dualtta.records.metrics import Column
from dualtta.report.benches import by_number
from dualtta.report.digest import Digest, digest_all
from dualtta.report.gather import Setting, number
from dualtta.report.labels import name, rank
from dualtta.report.places import place_key


@dataclass(frozen=True)
class Spread:
    """A number over seeds; with one seed there is no deviation."""

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """
        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, deviation=1.4142135623730951, seeds=2)
        """
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, len(values))

    def text(self, scale: float = 100, digits: int = 1) -> str:
        """
        >>> Spread(0.5, 0.01, 3).text()
        '50.0 ± 1.0'
        """
        tail = "" if self.deviation is None else f" ± {scale * self.deviation:.{digits}f}"
        return f"{scale * self.mean:.{digits}f}{tail}"


@dataclass(frozen=True)
class Entry:
    """A method under one choice of settings, over seeds. The label names settings only where they tell two entries apart."""

    label: str
    method: str
    settings: dict[str, Any]
    runs: tuple[Digest, ...]

    def over_seeds(self, key: str) -> Spread | None:
        """None where a seed has no such number."""
        values = [number(run.summary, key) for run in self.runs]
        known = [value for value in values if value is not None]
        return Spread.of(known) if known and len(known) == len(values) else None

    def pooled(self, name: str) -> Column:
        total: Column = np.sum([getattr(run, name) for run in self.runs], axis=0)
        return total


@dataclass(frozen=True)
class Comparison:
    """One dataset as it is met by one model: what numbers of different methods may be compared on."""

    title: str
    detail: str
    dataset: str
    model: str
    scenario: str
    part: str  # the corruption or pair of domains that it is one of; "" where it is whole
    subset: bool
    entries: tuple[Entry, ...]

    @property
    def metric(self) -> str:
        """The paper's "Avg Acc": the mean over groups where there are groups, else over samples."""
        grouped = all(run.summary.get("mean_of_groups") is not None for entry in self.entries for run in entry.runs)
        return "mean_of_groups" if grouped else "accuracy"

    @property
    def domains(self) -> list[str]:
        """Those that were met, in the dataset's order."""
        runs = [run for entry in self.entries for run in entry.runs]
        return list(dict.fromkeys(name for run in runs for name in run.cell["domains"] if name in run.summary["domains"]))


METRICS = {"accuracy": "accuracy", "mean_of_groups": "mean accuracy of the groups"}


def comparisons(settings: Iterable[Setting]) -> tuple[list[Comparison], list[str]]:
    """Group by everything but method and seed, in the order of names; and what is to be said of rows that cannot be read."""
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(place_key(setting), []).append(setting)
    notes: list[str] = []
    seen: dict[str, int] = {}
    made = []
    for group in groups.values():
        entries = _entries(group, seen, notes)
        if entries:
            made.append(_comparison(group[0], entries))
    return sorted((_told_apart(one, made) for one in made), key=_order), notes


def _order(one: Comparison) -> tuple[str, int, str, str]:
    """By dataset; corruptions as they are published."""
    known = CORRUPTIONS.index(one.part) if one.part in CORRUPTIONS else len(CORRUPTIONS)
    return one.dataset, known, one.title, one.detail


def _comparison(setting: Setting, entries: tuple[Entry, ...]) -> Comparison:
    corruptions, source, targets = setting.choices.get("corruptions"), setting.source_domains, setting.target_domains
    part = f"{'+'.join(source)} → {'+'.join(targets)}" if source and targets else ""
    if isinstance(corruptions, list) and len(corruptions) == 1:
        part = str(corruptions[0])
    runs = [run for entry in entries for run in entry.runs]
    samples = sorted({run.summary["samples"] for run in runs})
    subset = any(run.cell["subset"] for run in runs)
    size = f"{samples[0]:,}{f' to {samples[-1]:,}' if len(samples) > 1 else ''} samples{', a subset' if subset else ''}"
    batch = setting.stream.get("batch_size")
    details = [setting.model, setting.scenario, *([f"batches of {batch}"] if batch else []), size]
    return Comparison(
        title=f"{setting.dataset}: {part}" if part else setting.dataset,
        detail=", ".join(details),
        dataset=setting.dataset,
        model=setting.model,
        scenario=setting.scenario,
        part=part,
        subset=subset,
        entries=entries,
    )


def _entries(group: Sequence[Setting], seen: dict[str, int], notes: list[str]) -> tuple[Entry, ...]:
    """In the order of the tables; a setting whose rows cannot be read is left out."""
    variants: dict[str, list[dict[str, Any]]] = {}
    for setting in group:
        variants.setdefault(setting.method, []).append(setting.settings)
    named = [(label(name(one.method), one.settings, variants[one.method]), one) for one in group]
    made: list[Entry] = []
    for words, setting in sorted(named, key=lambda pair: (rank(pair[1].method), by_number(pair[0]))):
        runs, bad = digest_all(setting.records)
        notes += bad
        if not runs:
            continue
        words += f", in {setting.origin}" if setting.origin else ""
        same = sum(entry.label == words for entry in made)
        words += f", no. {same + 1}" if same else ""
        made.append(Entry(words, setting.method, setting.settings, tuple(_once(run, seen) for run in runs)))
    return tuple(made)


def _once(run: Digest, seen: dict[str, int]) -> Digest:
    """A run under a key of its own: two folders may hold other results of the same cell."""
    seen[run.key] = seen.get(run.key, 0) + 1
    return run if seen[run.key] == 1 else replace(run, key=f"{run.key}-{seen[run.key]}")


def label(method: str, settings: dict[str, Any], variants: list[dict[str, Any]]) -> str:
    """The method's name, with the settings in which its variants differ.

    >>> label("DualTTA", {"lr": 0.1, "lam": 0.0}, [{"lr": 0.1, "lam": 0.0}, {"lr": 0.1}])
    'DualTTA (lam=0)'
    """
    keys = sorted({key for other in variants for key in other})
    differ = [k for k in keys if k in settings and any(other.get(k, _ABSENT) != settings[k] for other in variants)]
    shown = ", ".join(f"{k}={v:g}" if isinstance(v := settings[k], float) else f"{k}={v}" for k in differ)
    return f"{method} ({shown})" if shown else method


_ABSENT = object()


def _told_apart(comparison: Comparison, others: list[Comparison]) -> Comparison:
    """Two comparisons of one title carry their details in it, or the key of their first run where those agree too."""
    same = [other for other in others if other.title == comparison.title]
    if len(same) == 1:
        return comparison
    detail = f"{comparison.model}, {comparison.scenario}"
    if sum((other.model, other.scenario) == (comparison.model, comparison.scenario) for other in same) > 1:
        detail += f", {comparison.entries[0].runs[0].key[:6]}"
    return replace(comparison, title=f"{comparison.title} ({detail})")
