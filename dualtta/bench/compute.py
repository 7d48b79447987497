"""Running one cell, or training one source model. What fails is recorded with its reason, and the next run tries it again."""

import hashlib
import json
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.bench.cell import Cell, title
from dualtta.bench.locks import RunningTask, lock
from dualtta.bench.workspace import Workspace
from dualtta.data.registry import open_dataset
from dualtta.records import format as records
from dualtta.streams.scenarios import make_scenario

if TYPE_CHECKING:
    from torch import nn

    from dualtta.data.preprocess import Preprocess
    from dualtta.fisher import Fisher
    from dualtta.method import Method
    from dualtta.train import Source

ProgressCallback = Callable[[int, int, int], None]  # after each batch: its size, how many are correct, samples in all


def no_progress(size: int, correct: int, total: int) -> None:
    """Ignores progress."""


def run_cell(cell: Cell, workspace: Workspace, progress: ProgressCallback = no_progress) -> str:
    """Compute a cell and store its record. Returns the reason of a failure, which is stored as well, or ""."""
    folder = workspace.folder(cell)
    try:
        with lock(workspace.out, RunningTask("cell", cell.key, title(cell))):
            records.store(folder, compute(cell, workspace, progress))
    except Exception as error:  # anything that a model, a dataset or the disk raises: the other cells go on
        return record_failure(folder, error)
    return ""


def run_source(source: "Source", workspace: Workspace) -> str:
    """Train a source model. Returns the reason of a failure, or ""."""
    import torch

    from dualtta.train import train

    torch.set_num_threads(workspace.threads)
    try:
        with lock(workspace.out, RunningTask("training", source.key, title(source))):
            train(source, workspace.models, workspace.dataset_folder(source.dataset), device=workspace.device, progress=False)
    except Exception as error:  # `run_plan` records it for the cells that need the model
        return failure_reason(error)
    return ""


def failure_reason(error: BaseException) -> str:
    """The type and message of an error, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def record_failure(folder: Path, error: BaseException) -> str:
    """Store the reason of a failure in the cell's folder, and return it."""
    with suppress(OSError):  # a full disk may be the failure
        records.fail(folder, failure_reason(error))
    return failure_reason(error)


def compute(cell: Cell, workspace: Workspace, progress: ProgressCallback = no_progress) -> records.Files:
    """Run a cell and return the files of its record; nothing is written."""
    import torch

    from dualtta.adapter import CollapseWarning
    from dualtta.bench.evaluate import evaluate
    from dualtta.bench.provenance import provenance
    from dualtta.data.loading import load
    from dualtta.methods import stored_settings
    from dualtta.records.metrics import summarise
    from dualtta.wrap import adapt

    torch.set_num_threads(workspace.threads)
    begun = time.perf_counter()
    dataset = open_dataset(cell.dataset, workspace.dataset_folder(cell.dataset), **cell.choices)
    model, preprocess, card = open_source(cell, workspace, len(dataset.classes))
    stream = make_scenario(cell.scenario, **cell.stream).stream(dataset, cell.seed)
    model.to(workspace.device)
    fisher = estimate_importance(cell, workspace, model, preprocess)
    adapter = adapt(model, cell.method, seed=cell.seed, fisher=fisher, speed=cell.speed, **cell.settings)
    if workspace.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    batches = load(dataset, stream, preprocess, device=workspace.device, workers=workspace.workers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the summary counts it
        run = evaluate(adapter, batches, lambda size, correct: progress(size, correct, len(stream)))
    rows, method = run.rows, stored_settings(adapter.method)
    summary = summarise(rows, len(dataset.classes), dataset.domains, dataset.groups, method)
    about = {
        "version": records.VERSION,
        "key": cell.key,
        "title": title(cell),
        "stage": cell.stage,
        "protocol": cell.protocol,
        "cell": cell.describe(),
        "method": {**method, "name": cell.method, "lr": adapter.lr, "momentum": adapter.momentum, **adapter.wiring},
        "method_about": describe_method(adapter.method),
        "data": dataset.about(),
        "classes": list(dataset.classes),
        "domains": list(dataset.domains),
        "groups": list(dataset.groups),
        "subset": cell.stream.get("limit") is not None,
        "model": {"card": card, "weights_hash": cell.weights_hash, "preprocess": preprocess.about()},
        "threads": workspace.threads,
        "provenance": provenance(),
    }
    seconds = time.perf_counter() - begun
    cost = {
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": seconds,
        "images_per_second": len(rows["label"]) / max(run.seconds, 1e-9),
        "peak_memory_mb": peak_memory(workspace.device),
        "device": workspace.device,
    }
    return {
        "cell.json": records.to_json(about),
        "indices.npz": stream.to_bytes(),
        "rows.npz": records.to_npz(rows),
        "summary.json": records.to_json({**summary, **run.counts}),
        "done": records.to_json(cost),
    }


def describe_method(method: "Method") -> dict[str, Any]:
    """What tables and figures show of a method: title, paper, date, whether it learns, colours; so they need not import it."""
    return {
        "title": method.title or method.name,
        "paper": method.paper,
        "published": method.published,
        "learns": method.learns(),
        "appearance": asdict(method.appearance) if method.appearance else None,
    }


def open_source(cell: Cell, workspace: Workspace, classes: int) -> tuple["nn.Module", "Preprocess", dict[str, Any] | None]:
    """The cell's source model, its preprocessing and, if it was trained here, its card."""
    import torch

    from dualtta.train import load_source
    from dualtta.zoo.registry import open_model

    if cell.source is not None:
        return load_source(workspace.models / cell.source.key)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.seed)
        model, preprocess = open_model(cell.model, classes, workspace.weights_file(cell.weights))
    return model, preprocess, None


def estimate_importance(cell: Cell, workspace: Workspace, model: "nn.Module", preprocess: "Preprocess") -> "Fisher | None":
    """The Fisher importance on source data, for methods that use it; cached beside the source models."""
    if cell.fisher is None:
        return None
    from dualtta.data.loading import load
    from dualtta.fisher import estimate_fisher

    name, choices, samples = (cell.fisher[key] for key in ("dataset", "choices", "samples"))
    dataset = open_dataset(name, workspace.dataset_folder(name), **choices)
    stream = make_scenario("mixed", limit=samples, domains=cell.fisher.get("domains")).stream(dataset, seed=0)
    origin = f"{len(stream)} of {name} {json.dumps({**cell.fisher, 'choices': choices}, sort_keys=True)}"
    model_key = cell.source.key if cell.source else cell.weights_hash or "random"
    cache = workspace.models / f"fisher-{hashlib.sha256(f'{model_key} {origin}'.encode()).hexdigest()[:16]}.safetensors"
    workspace.models.mkdir(parents=True, exist_ok=True)
    batches = (batch.x for batch in load(dataset, stream, preprocess, device=workspace.device, workers=workspace.workers))
    return estimate_fisher(model, batches, origin=origin, cache=cache, progress=False)


def peak_memory(device: str) -> float:
    """Peak memory in MB: of the GPU if it is used, else of this process."""
    import resource

    import torch

    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
