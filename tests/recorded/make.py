"""Makes the records beside this file, with the tool: `python tests/records/make.py` in the root of the source tree.

The demo's two setups, cut short, and three cells that have no result to show.
"""

import dataclasses
import json
import shutil
from pathlib import Path

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import Cell
from dualtta.bench.compute import run_cell
from dualtta.bench.experiments import demo_setups
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace
from dualtta.records.format import VERSION

HERE = Path(__file__).parent
RATES = {"colored_digits": 8e-3, "digits_c": 2e-3}


def good() -> list[Cell]:
    """Two datasets, one with groups; four methods, three seeds; two cells that chose a learning rate and are not reported."""
    cells = []
    for setup in demo_setups():
        setup = dataclasses.replace(setup, stream={"limit": 240 if setup.dataset == "colored_digits" else 80})
        options = Options(batch_size=16)
        cells += setup.cells(["source"], options)
        cells += setup.cells(["tent", "deyo", "dualtta"], options, lr=RATES[setup.dataset])
        tuning = setup.cells(["dualtta"], Options(batch_size=16, seeds=(1999,)), lr=3e-2)
        cells += [dataclasses.replace(cell, stage="tuning") for cell in tuning]
    return cells


def unwell(workspace: Workspace) -> None:
    """One that failed, one that was killed before its end, one of an older format."""
    setup = dataclasses.replace(demo_setups()[0], stream={"limit": 64})
    options = Options(batch_size=16, seeds=(2024,))
    failed = setup.cells(["dualtta"], options, layer="nowhere")[0]
    killed, old = setup.cells(["tent", "deyo"], options)
    for cell in (failed, killed, old):
        run_cell(cell, workspace)
    (workspace.folder(killed) / "done").unlink()
    about = json.loads((workspace.folder(old) / "cell.json").read_text())
    (workspace.folder(old) / "cell.json").write_text(
        json.dumps({**about, "version": VERSION - 1}, indent=1, sort_keys=True) + "\n"
    )


if __name__ == "__main__":
    for name in ("demo", "unwell"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    result = run_plan(good(), Workspace(HERE / "demo"))
    assert not result.failed, result.failed
    shutil.copytree(HERE / "demo" / "models", HERE / "unwell" / "models")
    unwell(Workspace(HERE / "unwell"))
    for name in ("demo", "unwell"):
        shutil.rmtree(HERE / name / "models")  # records are read without them
