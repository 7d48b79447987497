"""A cell: one run, given by its settings (dataset, model, method, scenario, seed). `compute.py` runs it.

Its record is stored in a folder named by the hash of these settings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dualtta.records.format import key_of

if TYPE_CHECKING:
    from dualtta.train import Source

FEW = 4  # domains that a title names
ADAPTER_SETTINGS = ("lr", "momentum", "layer", "statistics", "parameters")  # in `settings`, but not fields of the method


@dataclass(frozen=True)
class Cell:
    """The settings of one run. Where the data lies and which device is used is no part of them; see `Workspace`."""

    dataset: str
    model: str
    method: str
    scenario: str = "mild"
    seed: int = 2024
    choices: Mapping[str, Any] = field(default_factory=dict)  # of the dataset
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method, and ADAPTER_SETTINGS
    stream: Mapping[str, Any] = field(default_factory=dict)  # of the scenario: batch_size, limit, domains, ...
    source: "Source | None" = None  # the training that makes the model; None: `weights`
    weights: str | None = None  # a file below the data folder, or "pretrained"; None without a source: random weights
    weights_hash: str = ""  # of that file's content
    fisher: Mapping[str, Any] | None = None  # {"dataset", "choices", "domains", "samples"} of the Fisher importance
    speed: str = "safe"  # see `dualtta.speed`
    stage: str = "result"  # or "tuning": chooses settings, is not reported; not part of the key
    protocol: str | None = None  # that `settings` were chosen by; not part of the key

    def describe(self) -> dict[str, Any]:
        """The settings that the key is made of, as JSON values."""
        return {
            "dataset": {"name": self.dataset, **self.choices},
            "model": {"name": self.model, "source": self.source.settings if self.source else None, "weights": self.weights},
            "method": {"name": self.method, **self.settings},
            "scenario": {"name": self.scenario, **self.stream},
            "fisher": dict(self.fisher) if self.fisher else None,
            "seed": self.seed,
            **({"speed": self.speed} if self.speed != "safe" else {}),
        }

    @property
    def key(self) -> str:
        """The hash of the settings: the name of the cell's folder."""
        return key_of(self.describe(), self.weights_hash)


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """Each cell once, in order."""
    return list({cell.key: cell for cell in cells}.values())


def title(task: "Cell | Source") -> str:
    """A cell, or the training of a source model, in one line."""
    if not isinstance(task, Cell):
        domains = "+".join(task.choices.get("domains", ()))
        return f"train {task.model} on {task.dataset}{' ' + domains if domains else ''}"
    parts = [*task.choices.get("corruptions", ()), *_brief(task.stream.get("domains") or ())]
    parts += [f"{task.choices[key]}" for key in ("difficulty", "speed") if key in task.choices]
    trained = f" from {'+'.join(task.source.choices['domains'])}" if task.source and task.source.choices.get("domains") else ""
    data = f"{task.dataset} {'+'.join(parts)}".strip() + trained
    settings = ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in task.settings.items()
    )
    scenario = ", ".join([task.scenario, *_unusual(task.stream)])
    return f"{task.method}({settings}) on {data}, {task.model}, {scenario}, seed {task.seed}"


def _brief(domains: Iterable[str]) -> list[str]:
    """A few domains by their names, more by their number."""
    names = list(domains)
    return names if len(names) <= FEW else [f"{len(names)} domains"]


def _unusual(stream: Mapping[str, Any]) -> list[str]:
    """What distinguishes streams of one scenario on the same domains."""
    before = stream.get("before")
    found = [f"after {before['name']} {'+'.join(before.get('domains') or ())}".strip()] if before else []
    found += [f"{stream['classes']} classes"] if "classes" in stream else []
    found += [f"{stream['repeats']} passes"] if stream.get("repeats", 1) > 1 else []
    return found + ([f"batches of {stream['batch_size']}"] if stream.get("batch_size", 64) != 64 else [])
