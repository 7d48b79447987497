"""The plan of a grid, without running it: what there is to do, and about how long it will take."""

import json as jsonlib
import time
from statistics import median
from typing import Any

from dualtta.bench.cell import Cell, Place, distinct, open_source, pending, sources, title
from dualtta.bench.checks import validate
from dualtta.bench.run import Plan
from dualtta.records.reading import read_folder
from dualtta.records.verification import verify_complete
from dualtta.streams.scenarios import make_scenario

TRIED = 6  # batches that an estimate is made from


def show_plan(plan: Plan, place: Place, jobs: int, json: bool) -> int:
    """Print the cells to compute and the time they will take; only the first stage of an experiment that has several."""
    staged = not isinstance(plan, list)
    cells = distinct(next(plan) if not isinstance(plan, list) else plan)
    validate(cells, place, fetch=False)
    todo = pending(cells, place)
    training = sources(todo, place)
    seconds = estimate(todo, place)
    about = {
        "cells": len(cells),
        "done": len(cells) - len(todo),
        "train_first": [title(source) for source in training],
        "seconds": round(sum(seconds.values()) / max(jobs, 1), 1) if todo else 0.0,
        "more_stages": staged,
    }
    if json:
        listed = [{"key": cell.key, "title": title(cell), "seconds": round(seconds[cell.key], 1)} for cell in todo]
        print(jsonlib.dumps({**about, "todo": listed}, indent=2))
        return 0
    from dualtta.printing import table

    table(["cell", "about", ""], [[title(cell), f"{seconds[cell.key]:.1f} s", cell.key] for cell in todo])
    for source in training:
        print(f"to train first, not in the estimate: {title(source)}")
    later = "; later stages depend on these" if staged else ""
    print(f"{len(todo)} of {len(cells)} cells to compute, about {about['seconds']:.0f} s, {jobs} at a time{later}")
    return 0


def estimate(cells: list[Cell], place: Place) -> dict[str, float]:
    """Seconds of each cell: as long as the like took before, or by trying a few batches of it."""
    known: dict[str, list[float]] = {}
    for record in read_folder(place.out)[0]:
        if not verify_complete(record):
            known.setdefault(_kind(record.cell["cell"]), []).append(record.cost["seconds"])
    rates = {kind: median(seconds) for kind, seconds in known.items()}
    for cell in cells:
        kind = _kind(cell.describe())
        if kind not in rates:
            rates[kind] = try_out(cell, place)
    return {cell.key: rates[_kind(cell.describe())] for cell in cells}


def _kind(cell: dict[str, Any]) -> str:
    """Cells that differ in the seed alone take as long as each other."""
    return jsonlib.dumps({**cell, "seed": None}, sort_keys=True)


def try_out(cell: Cell, place: Place) -> float:
    """Open everything as the cell would, adapt on a few batches, and multiply."""
    import torch

    from dualtta.data.loading import load
    from dualtta.data.registry import open_dataset
    from dualtta.wrap import adapt
    from dualtta.zoo.registry import open_model

    torch.set_num_threads(place.threads)
    begun = time.perf_counter()
    dataset = open_dataset(cell.dataset, place.home(cell.dataset), **cell.choices)
    if cell.source is None and cell.weights != "pretrained":
        model, preprocess, _ = open_source(cell, place, len(dataset.classes))
    else:  # perhaps not there yet: random weights take about as long
        model, preprocess = open_model(cell.model, len(dataset.classes))
    stream = make_scenario(cell.scenario, **cell.stream).stream(dataset, cell.seed)
    batches = sum(1 for _ in stream.batches())
    adapter = adapt(model.to(place.device), cell.method, speed=cell.speed, **cell.settings)
    opened = time.perf_counter() - begun
    seconds = []
    last = time.perf_counter()
    for number, batch in enumerate(load(dataset, stream, preprocess, device=place.device, workers=0)):
        adapter(batch.x)
        seconds.append(time.perf_counter() - last)
        if number + 1 == TRIED:
            break
        last = time.perf_counter()
    return opened + batches * median(seconds[1:] or seconds)
