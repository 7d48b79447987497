"""What a folder of results is going to hold: every stage of a grid leaves the list of its cells.

    plans/<hash of its content>.json

A plan is written once and never changed, so resuming, several experiments in one folder and several machines cannot get in each
other's way: what is planned is all that any of them lists.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.files import write_bytes

if TYPE_CHECKING:
    from dualtta.bench.cell import Cell

VERSION = 1
FOLDER = "plans"


@dataclass(frozen=True)
class Planned:
    """A cell, as far as others need to know it before it is done."""

    title: str
    dataset: str
    model: str
    method: str
    scenario: str


def leave_plan(out: Path, cells: "Iterable[Cell]") -> str:
    """Write the list of these cells, unless it is there; returns its name."""
    from dualtta.bench.cell import title

    listed = {c.key: asdict(Planned(title(c), c.dataset, c.model, c.method, c.scenario)) for c in cells}
    data = json.dumps({"version": VERSION, "cells": listed}, indent=1, sort_keys=True).encode()
    name = hashlib.sha256(data).hexdigest()[:16]
    path = out / FOLDER / f"{name}.json"
    if listed and not path.is_file():
        with suppress(OSError):  # it is for those who watch: the run goes on without
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, data)
    return name


def read_plans(out: Path) -> dict[str, dict[str, Planned]]:
    """Each plan's cells by key; a file that is no plan of this version is left out."""
    found = {}
    for path in sorted((out / FOLDER).glob("*.json")):
        try:
            found[path.stem] = _read(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def _read(about: Mapping[str, Any]) -> dict[str, Planned]:
    if about["version"] != VERSION:
        raise ValueError(f"format {about['version']}")
    return {key: Planned(**cell) for key, cell in about["cells"].items()}
