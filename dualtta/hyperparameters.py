"""Hyper-parameters of a method: dataclass fields with a range or a list of words."""

import math
from dataclasses import Field, field
from numbers import Real
from typing import Any


def within(default: Any, low: float, high: float = math.inf, *, optional: bool = False) -> Any:
    """A dataclass field that refuses values outside [low, high]; `None` is accepted where it is the default, or `optional`."""
    return field(default=default, metadata={"low": low, "high": high, "optional": optional or default is None})


def one_of(default: str, *others: str) -> Any:
    """A dataclass field that refuses all but these words."""
    return field(default=default, metadata={"words": (default, *others)})


def check_field(owner: str, spec: "Field[Any]", value: Any) -> None:
    if (words := spec.metadata.get("words")) and value not in words:
        raise ValueError(f"{owner}: {spec.name} must be {' or '.join(map(repr, words))}, not {value!r}")
    if isinstance(spec.default, bool) and not isinstance(value, bool):
        raise ValueError(f"{owner}: {spec.name} must be True or False, not {value!r}")
    low, high = spec.metadata.get("low"), spec.metadata.get("high")
    if low is None or high is None or (value is None and spec.metadata["optional"]):
        return
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
        bound = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        raise ValueError(f"{owner}: {spec.name} must be a number {bound}, not {value!r}")
