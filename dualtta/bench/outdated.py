"""Records made with other defaults than a method has now: a cell is named by what was asked for, without the defaults."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dualtta.methods import METHODS, make_method, settings
from dualtta.records.reading import Record


def outdated(about: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """By setting, what a record (its cell.json) was made with and what its method takes today."""
    asked, was = about["cell"]["method"], about["method"]
    name = asked["name"]
    if name not in METHODS:  # a plugin's that is not here
        return {}
    own = {spec.name for spec in dataclasses.fields(METHODS[name])}
    now = settings(make_method(name, **{key: value for key, value in asked.items() if key in own}))
    now = json.loads(json.dumps({**now, "statistics": METHODS[name].statistics}))
    same = {*asked, "preserve"} if "layer" in asked else set(asked)
    return {key: (was[key], value) for key, value in now.items() if key in was and was[key] != value and key not in same}


def said(records: Iterable[Record]) -> list[str]:
    """One line for each method whose records are not of today's defaults."""
    changed = [(record.cell["method"]["name"], outdated(record.cell)) for record in records]
    found = Counter(
        (name, ", ".join(f"{key} {was}, now {now}" for key, (was, now) in some.items())) for name, some in changed if some
    )
    return [
        f"other defaults in {count} of the records of {name} that were there ({words}): run into another folder for today's"
        for (name, words), count in found.items()
    ]
