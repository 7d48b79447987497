"""What tests of reports share: tables of folders, their values and notes, plans of experiments."""

import json
from dataclasses import replace
from pathlib import Path

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import Cell
from dualtta.paper import experiments
from dualtta.report.gather import gather
from dualtta.report.table import Table, Value
from dualtta.report.tables import build_tables

RECORDS = Path(__file__).parent / "recorded"
DEMO, UNWELL = RECORDS / "demo", RECORDS / "unwell"
LEVELS = {
    "source": 0.5,
    "tent": 0.52,
    "sar": 0.53,
    "eata": 0.55,
    "deyo": 0.6,
    "dualtta": 0.63,
    "deyo_dual": 0.61,
    "eata_dual": 0.57,
}


def tables_of(*folders: Path) -> dict[str, Table]:
    return {table.name: table for table in build_tables(gather(folders))}


def at(table: Table, label: str, column: str) -> Value:
    row = next(row for row in table.rows if row.label == label)
    found = row.values[table.header.index(column) - 1]
    assert isinstance(found, Value)
    return found


def said(table: Table, value: Value) -> str:
    """All notes that a value is marked with."""
    return "; ".join(table.notes[mark] for mark in value.marks)


def plan(experiment: str, **options) -> list[Cell]:
    cells = getattr(experiments, experiment.replace("-", "_"))(Options(**{"seeds": (2024, 2025), **options}))
    assert isinstance(cells, list)
    return cells


def one_cell(**changes) -> Cell:
    return replace(plan("benchmarks", datasets=("colored_mnist",), methods=("tent",), seeds=(1,))[0], **changes)


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
