"""Records computed with other defaults than their method has now. A cell's key holds the chosen settings, not the defaults."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dualtta.methods import METHODS, make_method, stored_settings
from dualtta.records.reading import Record


def changed_defaults(about: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """By setting, the value that a record (its cell.json) was computed with and the method's default now."""
    chosen, used = about["cell"]["method"], about["method"]
    name = chosen["name"]
    if name not in METHODS:  # of a plug-in that is not installed
        return {}
    own = {*METHODS[name].aliases, *(spec.name for spec in dataclasses.fields(METHODS[name]))}
    now = stored_settings(make_method(name, **{key: value for key, value in chosen.items() if key in own}))
    now = json.loads(json.dumps({**now, "statistics": METHODS[name].statistics}))
    fixed = {*chosen, "preserve"} if "layer" in chosen else set(chosen)
    return {key: (used[key], value) for key, value in now.items() if key in used and used[key] != value and key not in fixed}


def notes(records: Iterable[Record]) -> list[str]:
    """One line for each method whose records were computed with other defaults."""
    changed = [(record.cell["method"]["name"], changed_defaults(record.cell)) for record in records]
    found = Counter(
        (name, ", ".join(f"{key} {used}, now {now}" for key, (used, now) in some.items())) for name, some in changed if some
    )
    return [
        f"{count} existing records of {name} have other defaults ({words}): compute them again with another --out"
        for (name, words), count in found.items()
    ]
