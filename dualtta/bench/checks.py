"""What can be known to be wrong with a grid before any work starts."""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from dualtta.bench.cell import WIRING, Cell, Place
from dualtta.data.registry import open_dataset
from dualtta.streams.scenarios import make_scenario


def validate(cells: Iterable[Cell], place: Place, *, fetch: bool = True) -> None:
    """Find what can be known to be wrong before any work starts; `fetch` also gets published weights, or says it cannot."""
    from dualtta.methods import make_method

    out = place.out.absolute()
    there = next(path for path in (out, *out.parents) if path.exists())  # nothing is made before all is known to be well
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"{place.out} cannot be written to: choose another folder with --out")
    if shutil.disk_usage(there).free < 2**20 * 64:
        raise ValueError(f"the disk of {place.out} is full: records need some room, choose another folder with --out")
    for name, settings in {(c.method, json.dumps(dict(c.settings), sort_keys=True)) for c in cells}:
        make_method(name, **{key: value for key, value in json.loads(settings).items() if key not in WIRING})
    for name, stream in {(c.scenario, json.dumps(dict(c.stream), sort_keys=True)) for c in cells}:
        make_scenario(name, **json.loads(stream))
    for name, choices in {(c.dataset, json.dumps(dict(c.choices), sort_keys=True)) for c in cells}:
        open_dataset(name, place.home(name), **json.loads(choices))
    starts = {(c.model, c.source.weights if c.source else c.weights) for c in cells}
    for model in {name for name, weights in starts if weights == "pretrained" and fetch}:
        from dualtta.zoo.hub import published_weights
        from dualtta.zoo.registry import find_model

        published_weights(model, find_model(model).tag)  # fetched once, or an error now instead of one a cell
    for cell in cells:
        file = place.weights(cell.weights)
        if file not in (None, "pretrained") and not Path(file).is_file():
            raise ValueError(f"there are no weights {file}: name a file below the data folder (--root) with --weights")
