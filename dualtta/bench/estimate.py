"""The launcher `dry`: the cells that a grid would compute, and an estimate of the time they take."""

import json as jsonlib
import time
from statistics import median
from typing import Any

from dualtta.bench.cell import Cell, distinct, title
from dualtta.bench.compute import open_source
from dualtta.bench.preflight import validate
from dualtta.bench.run import Plan
from dualtta.bench.workspace import Workspace, pending, untrained
from dualtta.records.reading import read_folder
from dualtta.records.verification import verify_complete
from dualtta.streams.scenarios import make_scenario

BATCHES = 6  # timed for an estimate


def dry_run(plan: Plan, workspace: Workspace, jobs: int, json: bool) -> int:
    """Print the cells to compute and the time they will take; of an experiment with several stages, the first."""
    staged = not isinstance(plan, list)
    cells = distinct(next(plan) if not isinstance(plan, list) else plan)
    validate(cells, workspace, fetch=False)
    todo = pending(cells, workspace)
    training = untrained(todo, workspace)
    seconds = estimate(todo, workspace)
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


def estimate(cells: list[Cell], workspace: Workspace) -> dict[str, float]:
    """Seconds of each cell: the median of records that differ in the seed alone, or timed on a few batches."""
    known: dict[str, list[float]] = {}
    for record in read_folder(workspace.out)[0]:
        if not verify_complete(record):
            known.setdefault(_kind(record.cell["cell"]), []).append(record.cost["seconds"])
    rates = {kind: median(seconds) for kind, seconds in known.items()}
    for cell in cells:
        kind = _kind(cell.describe())
        if kind not in rates:
            rates[kind] = time_batches(cell, workspace)
    return {cell.key: rates[_kind(cell.describe())] for cell in cells}


def _kind(cell: dict[str, Any]) -> str:
    """The same for cells that differ in the seed alone."""
    return jsonlib.dumps({**cell, "seed": None}, sort_keys=True)


def time_batches(cell: Cell, workspace: Workspace) -> float:
    """Open data and model as the cell would, adapt on a few batches, and scale to the whole stream."""
    import torch

    from dualtta.data.loading import load
    from dualtta.data.registry import open_dataset
    from dualtta.wrap import adapt
    from dualtta.zoo.registry import open_model

    torch.set_num_threads(workspace.threads)
    begun = time.perf_counter()
    dataset = open_dataset(cell.dataset, workspace.dataset_folder(cell.dataset), **cell.choices)
    if cell.source is None and cell.weights != "pretrained":
        model, preprocess, _ = open_source(cell, workspace, len(dataset.classes))
    else:  # the weights may be missing yet: random ones take as long
        model, preprocess = open_model(cell.model, len(dataset.classes))
    stream = make_scenario(cell.scenario, **cell.stream).stream(dataset, cell.seed)
    batches = sum(1 for _ in stream.batches())
    adapter = adapt(model.to(workspace.device), cell.method, speed=cell.speed, **cell.settings)
    opened = time.perf_counter() - begun
    seconds = []
    last = time.perf_counter()
    for number, batch in enumerate(load(dataset, stream, preprocess, device=workspace.device, workers=0)):
        adapter(batch.x)
        seconds.append(time.perf_counter() - last)
        if number + 1 == BATCHES:
            break
        last = time.perf_counter()
    return opened + batches * median(seconds[1:] or seconds)
