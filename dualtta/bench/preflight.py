"""Checks of a grid before any cell runs: the output folder, and the settings of all cells."""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from dualtta.bench.cell import ADAPTER_SETTINGS, Cell
from dualtta.bench.workspace import Workspace
from dualtta.data.registry import open_dataset
from dualtta.streams.scenarios import make_scenario


def validate(cells: Iterable[Cell], workspace: Workspace, *, fetch: bool = True) -> None:
    """Raise a ValueError that names the first problem of a grid. `fetch` also downloads published weights once."""
    from dualtta.methods import make_method

    out = workspace.out.absolute()
    there = next(path for path in (out, *out.parents) if path.exists())  # nothing is created before all checks pass
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"{workspace.out} cannot be written to: choose another folder with --out")
    if shutil.disk_usage(there).free < 2**20 * 64:
        raise ValueError(f"the disk of {workspace.out} is full: records need some room, choose another folder with --out")
    for name, settings in {(c.method, json.dumps(dict(c.settings), sort_keys=True)) for c in cells}:
        make_method(name, **{key: value for key, value in json.loads(settings).items() if key not in ADAPTER_SETTINGS})
    for name, stream in {(c.scenario, json.dumps(dict(c.stream), sort_keys=True)) for c in cells}:
        make_scenario(name, **json.loads(stream))
    for name, choices in {(c.dataset, json.dumps(dict(c.choices), sort_keys=True)) for c in cells}:
        open_dataset(name, workspace.dataset_folder(name), **json.loads(choices))
    starts = {(c.model, c.source.weights if c.source else c.weights) for c in cells}
    for model in {name for name, weights in starts if weights == "pretrained" and fetch}:
        from dualtta.zoo.hub import published_weights
        from dualtta.zoo.registry import find_model

        published_weights(model, find_model(model).tag)  # one error now instead of one a cell
    for cell in cells:
        file = workspace.weights_file(cell.weights)
        if file not in (None, "pretrained") and not Path(file).is_file():
            raise ValueError(f"there are no weights {file}: name a file below the data folder (--root) with --weights")
