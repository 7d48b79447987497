"""Records side by side: a comparison is what methods are compared on, an entry is a method with its settings over seeds."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualtta.metrics import Column
from dualtta.report.digest import Digest

ORDER = ("source", "norm", "tent", "sar", "eata", "eata_dual", "deyo", "deyo_dual", "dualtta")  # that of the paper's tables


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
        values = [run.summary.get(key) for run in self.runs]
        return None if any(value is None for value in values) else Spread.of(values)

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


def comparisons(digests: Iterable[Digest]) -> list[Comparison]:
    """Group by everything but method and seed, in the order of names."""
    groups: dict[str, list[Digest]] = {}
    for run in digests:
        groups.setdefault(json.dumps(_setting(run), sort_keys=True), []).append(run)
    made = [_comparison(json.loads(key), runs) for key, runs in groups.items()]
    return sorted((_told_apart(comparison, made) for comparison in made), key=lambda comparison: (comparison.title, comparison.detail))


def _setting(run: Digest) -> dict[str, Any]:
    """What the runs of a comparison have in common; seeds of the data and of the source model count as seeds."""
    cell = run.cell["cell"]
    source = cell["model"]["source"]
    return {
        "dataset": {key: value for key, value in cell["dataset"].items() if key != "seed"},
        "model": {**cell["model"], "source": source and {**source, "seed": None}, "hash": run.cell["model"]["weights_hash"]},
        "scenario": cell["scenario"],
    }


def _comparison(setting: dict[str, Any], runs: list[Digest]) -> Comparison:
    dataset, model, scenario = setting["dataset"], setting["model"], setting["scenario"]
    source = (model["source"] or {}).get("choices", {}).get("domains") or []
    corruptions, targets = dataset.get("corruptions") or [], scenario.get("domains") or []
    part = (
        corruptions[0] if len(corruptions) == 1 else f"{'+'.join(source)} → {'+'.join(targets)}" if source and targets else ""
    )
    samples = {run.summary["samples"] for run in runs}
    subset = any(run.cell["subset"] for run in runs)
    size = f"{'–'.join(f'{n:,}' for n in sorted({min(samples), max(samples)}))} samples{', a subset' if subset else ''}"
    details = [model["name"], scenario["name"], f"batches of {scenario.get('batch_size', 64)}", size]
    return Comparison(
        title=f"{dataset['name']}: {part}" if part else dataset["name"],
        detail=", ".join(details),
        dataset=dataset["name"],
        model=model["name"],
        scenario=scenario["name"],
        part=part,
        subset=subset,
        entries=entries(runs),
    )


def entries(runs: Iterable[Digest]) -> tuple[Entry, ...]:
    """Group by method and settings; in the paper's order, other methods after them by name."""
    groups: dict[tuple[str, str], list[Digest]] = {}
    for run in runs:
        settings = {key: value for key, value in run.cell["cell"]["method"].items() if key != "name"}
        groups.setdefault((run.method, json.dumps(settings, sort_keys=True)), []).append(run)
    variants: dict[str, list[dict[str, Any]]] = {}
    for method, settings in groups:
        variants.setdefault(method, []).append(json.loads(settings))
    made = [
        Entry(label(method, json.loads(s), variants[method]), method, json.loads(s), tuple(sorted(group, key=lambda r: r.seed)))
        for (method, s), group in groups.items()
    ]
    place = {name: number for number, name in enumerate(ORDER)}
    return tuple(sorted(made, key=lambda e: (place.get(e.method, len(place)), e.method, e.label)))


def label(method: str, settings: dict[str, Any], variants: list[dict[str, Any]]) -> str:
    """The method's name, with the settings in which its variants differ.

    >>> label("dualtta", {"lr": 0.1, "lam": 0.0}, [{"lr": 0.1, "lam": 0.0}, {"lr": 0.1}])
    'dualtta (lam=0)'
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
    return Comparison(**{**comparison.__dict__, "title": f"{comparison.title} ({detail})"})
