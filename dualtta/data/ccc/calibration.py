"""How difficult corruptions are: the accuracy of a fixed model under each, measured once, and a rule for two together.

The cost of a corruption a at severity s is c(a, s) = -log(accuracy / clean accuracy). Two corruptions together cost

    c(a, s; b, t) = c(a, s) + c(b, t) + g(a, b) sqrt(c(a, s) c(b, t)),

where g is measured at one point for each pair: 0 where the two act independently, above 0 where they add to each other. So a
calibration needs 150 accuracies of single corruptions and 105 of pairs, instead of one for each pair of severities.
`dualtta data calibrate` makes the file for a model.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.data.published import CORRUPTIONS
from dualtta.files import write_bytes
from dualtta.plugins import nearest

GRID = tuple(step / 2 for step in range(1, 11))  # the severities at which single corruptions are measured
BY_SEVERITY = "severity"  # the name of the calibration without a model
EVEN = 0.37  # its cost of one severity: medium difficulty is a sum of severities of 3.75


@dataclass(frozen=True)
class Calibration:
    """The accuracies of a model, as shares: `single` by corruption at the severities of `GRID`, `pairs` the g of "a+b"."""

    model: str
    images: int
    clean: float
    single: Mapping[str, tuple[float, ...]]
    pairs: Mapping[str, float] = field(default_factory=dict)
    made_by: str = ""

    def __post_init__(self) -> None:
        if set(self.single) != set(CORRUPTIONS) or any(len(each) != len(GRID) for each in self.single.values()):
            raise ValueError(f"a calibration holds {len(GRID)} accuracies for each of the 15 corruptions")
        if not 0 < self.clean <= 1 or self.images < 1:
            raise ValueError("a calibration holds the accuracy on clean images, above 0, and their number")

    def cost(self, name: str, severity: float) -> float:
        """c of one corruption, interpolated; it never falls with the severity, though measured accuracies may rise."""
        return float(np.interp(severity, (0.0, *GRID), _costs(self, name)))

    def pair_cost(self, first: str, severity: float, second: str, other: float) -> float:
        """c of two corruptions together."""
        a, b = self.cost(first, severity), self.cost(second, other)
        return a + b + self.pairs.get(pair_name(first, second), 0.0) * math.sqrt(a * b)

    def accuracy(self, first: str, severity: float, second: str, other: float) -> float:
        """The accuracy of the model that is expected under both."""
        return self.clean * math.exp(-self.pair_cost(first, severity, second, other))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; `from_dict` reads them."""
        single = {name: list(accuracies) for name, accuracies in self.single.items()}
        return {**vars(self), "single": single, "pairs": dict(self.pairs)}

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all."""
        write_bytes(path, (json.dumps(self.to_dict(), indent=1) + "\n").encode())


_CACHE: dict[int, tuple[Calibration, dict[str, tuple[float, ...]]]] = {}


def _costs(calibration: Calibration, name: str) -> tuple[float, ...]:
    """Costs of one corruption at severity 0 and at those of `GRID`; computed once for each calibration."""
    kept = _CACHE.get(id(calibration))
    if kept is None or kept[0] is not calibration:
        _CACHE.clear()
        kept = _CACHE[id(calibration)] = (calibration, {})
    if name not in kept[1]:
        size = calibration.images
        measured = (np.asarray(calibration.single[name]) * size + 0.5) / (size + 1)  # no accuracy is exactly 0
        costs = np.maximum.accumulate(np.maximum(-np.log(measured / calibration.clean), 0))
        kept[1][name] = (0.0, *costs.tolist())
    return kept[1][name]


def pair_name(first: str, second: str) -> str:
    """
    >>> pair_name("snow", "fog")
    'fog+snow'
    """
    return "+".join(sorted((first, second)))


def from_dict(values: Mapping[str, Any]) -> Calibration:
    """A calibration from the values of its file; a ValueError where it is none."""
    try:
        single = {name: tuple(map(float, accuracies)) for name, accuracies in values["single"].items()}
        pairs = {name: float(value) for name, value in values.get("pairs", {}).items()}
        clean, images = float(values["clean"]), int(values["images"])
        return Calibration(str(values["model"]), images, clean, single, pairs, str(values.get("made_by", "")))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no calibration of difficulty: it lacks {error}; `dualtta data calibrate` makes one") from error


def read_calibration(path: str | Path) -> Calibration:
    """A file that `dualtta data calibrate` wrote."""
    try:
        return from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ValueError(f"there is no calibration {path}: make one with `dualtta data calibrate`") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


@cache
def shipped(name: str) -> Calibration:
    """A calibration that comes with the package, or `BY_SEVERITY`: each severity as difficult as any other."""
    if name == BY_SEVERITY:
        even = tuple(math.exp(-EVEN * severity) for severity in GRID)
        return Calibration("none: by the sum of severities", 10**9, 1.0, dict.fromkeys(CORRUPTIONS, even))
    known = {path.stem: path for path in Path(__file__).parent.glob("*.json")}
    if name not in known:
        raise ValueError(f"there is no calibration {name!r}; {nearest(name, [BY_SEVERITY, *known])}")
    return read_calibration(known[name])
