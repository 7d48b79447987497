"""Records of cells that nobody ran, for the tests of reports: real settings, rows drawn by a generator, everything else as the
grid writes it."""

import time
from pathlib import Path

import numpy as np

from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.cell import Cell, title
from dualtta.records import format as records
from dualtta.records.metrics import summarise

GROUPS = ("0 red", "0 green", "1 red", "1 green")
CLASSES = {"pacs": 7, "office_home": 65, "imagenet_c": 1000}


def make_rows(accuracy: float, samples: int, groups: int = 0, seed: int = 0, domains: int = 1) -> dict[str, np.ndarray]:
    """A share `accuracy` of the samples is right, as nearly as whole numbers allow; the rest is drawn."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, samples)
    right = rng.permutation(samples) < round(accuracy * samples)
    plus = rng.random(samples) < 0.3
    return {
        "index": np.arange(samples),
        "label": label,
        "prediction": np.where(right, label, 1 - label),
        "domain": np.arange(samples) % domains,
        "group": rng.integers(0, groups, samples) if groups else np.full(samples, -1),
        "segment": np.zeros(samples, int),
        "batch": np.arange(samples) // 64,
        "confidence": rng.uniform(0.5, 1, samples),
        "entropy": rng.uniform(0, 0.7, samples),
        "drop_alter": rng.uniform(-0.2, 1, samples),
        "drop_preserve": rng.uniform(-0.2, 1, samples),
        "weight": np.ones(samples),
        "plus": plus,
        "minus": ~plus & (rng.random(samples) < 0.1),
    }


def write_plan(out: Path, cells: list[Cell], accuracy, samples: int = 100, **about) -> None:
    """A record for each cell; `accuracy` by method, or a function of the cell."""
    for cell in cells:
        share = accuracy(cell) if callable(accuracy) else accuracy[cell.method]
        groups = GROUPS if cell.dataset in ("colored_mnist", "waterbirds") else ()
        write_record(out, cell, make_rows(share, samples, len(groups), cell.seed), groups, **about)


def write_record(out: Path, cell: Cell, rows: dict[str, np.ndarray], groups: tuple[str, ...] = (), **about) -> Path:
    """The folder of the new record; `about` goes into cell.json and, as `cost`, into done."""
    kinds = {name: column.astype(records.COLUMNS[name]) for name, column in rows.items()}
    cost, classes = about.pop("cost", {}), CLASSES.get(cell.dataset, 2)
    method = {"name": cell.method, "lr": 5e-4, "tau_sa": 0.4, "tau_sp": 0.7, **cell.settings}
    domains = tuple(f"domain {number}" for number in range(int(rows["domain"].max()) + 1))
    summary = summarise(kinds, classes, domains, groups, method)
    counts = {"batches": int(rows["batch"].max()) + 1, "updates": 1, "skips": 0, "recoveries": 0, "collapsing": 0}
    told = {
        "version": records.VERSION,
        "key": cell.key,
        "title": title(cell),
        "stage": cell.stage,
        "cell": cell.describe(),
        "method": method,
        "data": {"dataset": cell.dataset},
        "classes": [str(number) for number in range(classes)],
        "domains": list(domains),
        "groups": list(groups),
        "subset": cell.stream.get("limit") is not None,
        "model": {"card": None, "weights_hash": cell.weights_hash, "preprocess": {}},
        "threads": 1,
        "provenance": {"versions": {"dualtta": "0.1.0"}, "commit": None, "machine": {"gpu": None}},
    }
    done = {"device": "cpu", "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(0)), "seconds": 1.0}
    files = {
        "cell.json": records.to_json({**told, **about}),
        "indices.npz": records.to_npz({"indices": rows["index"]}),
        "rows.npz": records.to_npz(kinds),
        "summary.json": records.to_json({**summary, **counts, "forwards": 3 * len(rows["label"])}),
        "done": records.to_json({**done, "images_per_second": 100.0, "peak_memory_mb": 500.0, **cost}),
    }
    folder = out / "cells" / cell.key
    folder.mkdir(parents=True, exist_ok=True)
    for name in records.ORDER:
        (folder / name).write_bytes(files[name])  # without `store`'s care for the disk, which takes its time
    return folder


def write(out: Path, method: str, accuracy: float, corruption="fog", seeds=(1, 2), model="resnet50_v1", **settings) -> None:
    """Records on one corruption: the first so many samples are right, so that better is better on the same samples."""
    lr = {} if method in ("source", "norm") else {"lr": 2.5e-4}
    for seed in seeds:
        setup = Setup("imagenet_c", 1000, model, {"corruptions": [corruption], "severities": [5]}, {})
        cell = setup.cells([method], Options(seeds=(seed,)), **lr, **settings)[0]
        rows = make_rows(0.5, 1000, seed=0)
        wrong = np.arange(1000) >= round(accuracy * 1000)
        write_record(out, cell, {**rows, "prediction": np.where(wrong, 1 - rows["label"], rows["label"])})


def baselines(out: Path, corruption="fog", **other) -> None:
    known = {"source": 0.4, "norm": 0.45, "tent": 0.46, "eata": 0.5, "sar": 0.46, "deyo": 0.48, "eata_dual": 0.49}
    for method, accuracy in {**known, "deyo_dual": 0.47, **other}.items():
        write(out, method, accuracy, corruption)
