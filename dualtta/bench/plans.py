"""Plan files: the cells that a results folder is going to hold, one file for each stage of a grid.

    plans/<hash of its content>.json

A plan file is written once and never changed, so that resumed runs, several experiments in one folder and several machines do
not interfere: the planned cells are those of all plan files.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dualtta.bench.cell import Cell, title
from dualtta.files import write_bytes

VERSION = 1
FOLDER = "plans"


@dataclass(frozen=True)
class PlannedCell:
    """What `dualtta watch` needs of a cell before it has a record."""

    title: str
    dataset: str
    model: str
    method: str
    scenario: str


def write_plan(out: Path, cells: Iterable[Cell]) -> str:
    """Write the plan file of these cells unless it exists. Returns its name."""
    listed = {c.key: asdict(PlannedCell(title(c), c.dataset, c.model, c.method, c.scenario)) for c in cells}
    data = json.dumps({"version": VERSION, "cells": listed}, indent=1, sort_keys=True).encode()
    name = hashlib.sha256(data).hexdigest()[:16]
    path = out / FOLDER / f"{name}.json"
    if listed and not path.is_file():
        with suppress(OSError):  # only `watch` reads it: the run goes on without
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, data)
    return name


def read_plans(out: Path) -> dict[str, dict[str, PlannedCell]]:
    """The cells of each plan file, by key. Files that are no plans of this version are ignored."""
    found = {}
    for path in sorted((out / FOLDER).glob("*.json")):
        try:
            found[path.stem] = _parse(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def _parse(about: Mapping[str, Any]) -> dict[str, PlannedCell]:
    if about["version"] != VERSION:
        raise ValueError(f"format {about['version']}")
    return {key: PlannedCell(**cell) for key, cell in about["cells"].items()}
