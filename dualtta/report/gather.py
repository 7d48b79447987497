"""Records of one or several folders, sorted for tables and figures: a setting over its seeds, tuning apart, and notes."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dualtta.records.reading import Record
from dualtta.records.verification import read_verified

# of a summary: its name, several names that lead into it, as ("domains", "photo"), or a function of it
Metric = str | tuple[str, ...] | Callable[[dict[str, Any]], float | None]


@dataclass(frozen=True)
class Setting:
    """One cell on one or several seeds: the records differ in nothing else that was chosen."""

    records: tuple[Record, ...]  # by seed, each seed once
    origin: str = ""  # the folder's name, where another folder has other results of the same cell
    caveats: tuple[str, ...] = ()  # what else its seeds differ in

    @cached_property
    def about(self) -> dict[str, Any]:
        """cell.json of the first seed."""
        return self.records[0].cell

    @property
    def cell(self) -> dict[str, Any]:
        """The settings of the first seed."""
        cell: dict[str, Any] = self.about["cell"]
        return cell

    @property
    def dataset(self) -> str:
        return str(self.cell["dataset"]["name"])

    @property
    def model(self) -> str:
        return str(self.cell["model"]["name"])

    @property
    def method(self) -> str:
        return str(self.cell["method"]["name"])

    @property
    def scenario(self) -> str:
        return str(self.cell["scenario"]["name"])

    @cached_property
    def choices(self) -> dict[str, Any]:
        """Of the dataset."""
        return {key: value for key, value in self.cell["dataset"].items() if key not in ("name", "seed")}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Of the method, as they were chosen; `about["method"]` has all of them."""
        return {key: value for key, value in self.cell["method"].items() if key != "name"}

    @cached_property
    def stream(self) -> dict[str, Any]:
        """Of the scenario."""
        return {key: value for key, value in self.cell["scenario"].items() if key != "name"}

    @property
    def source(self) -> dict[str, Any] | None:
        """The training behind the model."""
        found = self.cell["model"].get("source")
        return found if isinstance(found, dict) else None

    @property
    def source_domains(self) -> tuple[str, ...]:
        """What the source model was trained on, where it was one or several domains of many."""
        choices = (self.source or {}).get("choices")
        domains = choices.get("domains") if isinstance(choices, dict) else None
        return tuple(map(str, domains)) if isinstance(domains, list) else ()

    @property
    def target_domains(self) -> tuple[str, ...]:
        """What the stream was cut to; empty where it took all domains of the dataset."""
        domains = self.stream.get("domains")
        return tuple(map(str, domains)) if isinstance(domains, list) else ()

    @property
    def passes(self) -> list[str]:
        """That the stream met its images more than once, in words; empty where it did not."""
        repeats = self.stream.get("repeats", 1)
        return [f"{repeats} passes over the same images"] if repeats != 1 else []

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(record.cell["cell"]["seed"] for record in self.records)

    @property
    def samples(self) -> int:
        """That each seed was measured on."""
        return int(self.records[0].summary["samples"])

    def each(self, metric: Metric) -> dict[int, float]:
        """A number of the summary, by seed; seeds where there is none are left out."""
        found = {seed: number(record.summary, metric) for seed, record in zip(self.seeds, self.records, strict=True)}
        return {seed: value for seed, value in found.items() if value is not None}

    def on(self, seeds: Collection[int]) -> "Setting":
        """The same on some of its seeds."""
        return replace(self, records=tuple(r for seed, r in zip(self.seeds, self.records, strict=True) if seed in seeds))

    @property
    def has_groups(self) -> bool:
        return self.records[0].summary["mean_of_groups"] is not None

    @property
    def collapsed(self) -> int:
        """Seeds in which the predictions were spread over far fewer classes than the source's."""
        return sum(record.summary["collapsing"] > 0 for record in self.records)


@dataclass(frozen=True)
class Collected:
    """All that a report is made of."""

    folders: tuple[Path, ...]
    settings: tuple[Setting, ...]  # results
    tuning: tuple[Setting, ...] = ()  # chose settings; never reported
    notes: tuple[str, ...] = ()  # on records that were left out, and why

    @property
    def records(self) -> list[Record]:
        """Of the results alone."""
        return [record for setting in self.settings for record in setting.records]


def number(summary: dict[str, Any], metric: Metric) -> float | None:
    """A number of a summary; None where it has none.

    >>> number({"domains": {"photo": 0.5}}, ("domains", "photo"))
    0.5
    >>> number({"mean_of_groups": None}, "mean_of_groups")
    """
    if callable(metric):
        return metric(summary)
    value: Any = summary
    for name in (metric,) if isinstance(metric, str) else metric:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def deaf(done: int, total: int) -> None:
    """Hears nothing."""


def gather(folders: Sequence[Path], notice: Callable[[int, int], None] = deaf) -> Collected:
    """Read and check all records below the folders; `notice` hears how many of how many are checked.

    Whatever cannot be believed is left out and named in the notes. A ValueError where there is no folder, or none of records.
    """
    sound, notes = read_verified(folders, notice)
    sound = _once(sound, notes)
    results = [record for record in sound if record.cell["stage"] == "result"]
    tuning = [record for record in sound if record.cell["stage"] == "tuning"]
    notes += [
        f"{record.name} is left out: there is no stage {record.cell['stage']!r}"
        for record in sound
        if record.cell["stage"] not in ("result", "tuning")
    ]
    return Collected(tuple(folders), tuple(group(results)), tuple(group(tuning)), tuple(notes))


def _once(records: list[Record], notes: list[str]) -> list[Record]:
    """A record that lies in two folders is counted once."""
    kept: dict[tuple[str, str], Record] = {}
    twice: dict[tuple[Path, Path], int] = {}
    for record in records:
        content = json.dumps(
            [record.cell["cell"], record.cell["stage"], record.cell.get("model"), record.summary], sort_keys=True
        )
        same = kept.setdefault((record.key, content), record)
        if same is not record and same.origin.resolve() != record.origin.resolve():
            homes = record.origin, same.origin
            twice[homes] = twice.get(homes, 0) + 1
    notes += [f"{count} records of {here} are also in {there}: they are counted once" for (here, there), count in twice.items()]
    return list(kept.values())


def group(records: Iterable[Record]) -> list[Setting]:
    """Records that differ in the seed alone, together; other data, other sizes and other weights stay apart.

    The draw of a dataset and of a source model may go with the seed, unless that would give a seed two records.
    """
    settings = []
    for same in _grouped(records, lambda record: identity(record)):
        if _unique(same):
            settings.append(_setting(same))
            continue
        for part in _grouped(same, lambda record: identity(record, draws=True)):
            if _unique(part):
                settings.append(_setting(part))
                continue
            by_folder = _grouped(part, lambda record: str(record.origin.resolve()))
            homes = [some[0].origin.resolve().with_name(some[0].group) for some in by_folder]
            depth = 1 if len({home.name for home in homes}) == len(homes) else 2
            settings += [_setting(some, "/".join(home.parts[-depth:])) for some, home in zip(by_folder, homes, strict=True)]
    return settings


def identity(record: Record, draws: bool = False) -> str:
    """What a setting is: all that was chosen but the seed, and what it was measured on."""
    cell = {key: value for key, value in record.cell["cell"].items() if key != "seed"}
    if not draws:
        cell["dataset"] = {key: value for key, value in cell["dataset"].items() if key != "seed"}
        if isinstance(cell["model"].get("source"), dict):
            cell["model"] = {**cell["model"], "source": {**cell["model"]["source"], "seed": None}}
    return json.dumps([cell, record.summary["samples"], record.part("model", "weights_hash")], sort_keys=True)


def _grouped(records: Iterable[Record], key: Callable[[Record], str]) -> list[list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return list(groups.values())


def _unique(records: list[Record]) -> bool:
    seeds = [record.cell["cell"]["seed"] for record in records]
    return len(set(seeds)) == len(seeds)


def _setting(records: list[Record], origin: str = "") -> Setting:
    ordered = tuple(sorted(records, key=lambda record: record.cell["cell"]["seed"]))
    return Setting(ordered, origin, _differences(ordered))


def _differences(records: tuple[Record, ...]) -> tuple[str, ...]:
    """What seeds of one setting differ in, though nobody chose it."""
    parts: dict[str, Callable[[Record], Any]] = {
        "devices": lambda record: (record.cost.get("device"), record.part("provenance", "machine", "gpu")),
        "versions of packages": lambda record: record.part("provenance", "versions"),
        "commits of dualtta": lambda record: record.part("provenance", "commit"),
        "numbers of threads": lambda record: record.cell.get("threads"),
        "source weights": lambda record: (_seed_of_source(record), record.part("model", "card", "weights", "sha256")),
    }
    if len({_seed_of_source(record) for record in records}) > 1:
        del parts["source weights"]  # each seed has a source model of its own, as was asked for
    return tuple(
        f"the seeds ran with different {name}"
        for name, part in parts.items()
        if len({json.dumps(part(record), sort_keys=True) for record in records}) > 1
    )


def _seed_of_source(record: Record) -> str:
    return json.dumps(record.part("cell", "model", "source", "seed"), sort_keys=True)
