"""How long a report over a million rows takes, and how much memory.

    python benchmarks/report.py [--rows 1000000] [--cells 10] [--out FOLDER]

Records are drawn, written in the true format by `dualtta.records.store`, and reported on by `dualtta report` in a process of
its own: tables, figures and the page. The target is under 60 s and under 2 GiB on two cores.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dualtta.bench.cell import Cell, title
from dualtta.bench.provenance import provenance
from dualtta.records import format as records
from dualtta.records.metrics import Column, summarise

METHODS = ("source", "tent", "sar", "eata", "deyo", "dualtta")
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "snow", "contrast", "jpeg_compression")
CLASSES = 1000
SECONDS, MEGABYTES = 60.0, 2048.0  # the target


def draw_rows(samples: int, seed: int, accuracy: float, looks: bool) -> dict[str, Column]:
    """A stream of five domains, one after the other."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, samples)
    right = rng.random(samples) < accuracy
    confidence = np.clip(rng.beta(3, 2, samples) + 0.15 * right, 0.001, 1)
    alter = confidence * rng.beta(2, np.where(right, 1, 3))
    preserve = confidence * rng.beta(1, np.where(right, 6, 1.2))
    domain = np.arange(samples) * len(CORRUPTIONS) // samples
    drawn: dict[str, Column] = {
        "index": rng.permutation(samples),
        "label": label,
        "prediction": np.where(right, label, (label + 1) % CLASSES),
        "domain": domain,
        "group": np.full(samples, -1),
        "segment": domain,
        "batch": np.arange(samples) // 64,
        "confidence": confidence,
        "entropy": 7 * (1 - confidence),
        "drop_alter": alter if looks else np.full(samples, np.nan),
        "drop_preserve": preserve if looks else np.full(samples, np.nan),
        "weight": rng.random(samples),
        "plus": (alter > 0.4) & (preserve < 0.7) & looks,
        "minus": (alter < 0.4) & (preserve > 0.7) & looks,
    }
    return {name: column.astype(records.COLUMNS[name]) for name, column in drawn.items()}


def write_cell(out: Path, number: int, samples: int) -> None:
    method, seed = METHODS[-1 - number % len(METHODS)], 2024 + number // len(METHODS)
    cell = Cell(
        dataset="imagenet_c",
        model="resnet50",
        method=method,
        seed=seed,
        choices={"corruptions": list(CORRUPTIONS), "severities": [5]},
        weights="pretrained",
        weights_hash="pretrained",
    )
    looks = method == "dualtta"
    rows = draw_rows(samples, number, 0.4 + 0.02 * METHODS.index(method), looks)
    settings = {"tau_sa": 0.4, "tau_sp": 0.7, "drop": "absolute"} if looks else {}
    domains = tuple(f"{name}_5" for name in CORRUPTIONS)
    summary = summarise(rows, CLASSES, domains, (), settings)
    counts = {"batches": samples // 64, "updates": 0, "skips": 0, "recoveries": 0, "collapsing": 0, "forwards": 3 * samples}
    about = {
        "version": records.VERSION,
        "key": cell.key,
        "title": title(cell),
        "stage": cell.stage,
        "cell": cell.describe(),
        "method": {**settings, "name": method, "lr": 5e-4, "momentum": 0.9, "layer": None},
        "data": {"dataset": cell.dataset, "images": samples, "domains": list(domains)},
        "classes": [f"class {number}" for number in range(CLASSES)],
        "domains": list(domains),
        "groups": [],
        "subset": False,
        "model": {"card": None, "weights_hash": cell.weights_hash, "preprocess": {}},
        "threads": 1,
        "provenance": provenance(),
    }
    cost = {"finished": "2026-01-01T00:00:00Z", "seconds": 100.0, "images_per_second": samples / 100, "device": "cpu"}
    files = {
        "cell.json": records.to_json(about),
        "indices.npz": records.to_npz({"index": rows["index"]}),
        "rows.npz": records.to_npz(rows),
        "summary.json": records.to_json({**summary, **counts}),
        "done": records.to_json({**cost, "peak_memory_mb": 0.0}),
    }
    records.store(out / "cells" / cell.key, files)


def report(out: Path) -> dict[str, float]:
    """Seconds and megabytes of `dualtta report`, from the shell's point of view."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "dualtta", "report", str(out), "--json"], check=False, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"the report failed: {done.stderr.strip()}")
    printed = json.loads(done.stdout)
    if printed["notes"]:
        raise SystemExit(f"not all rows are in the report: {printed['notes'][0]}")
    page = Path(printed["page"])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    return {"seconds": round(seconds, 1), "peak_memory_mb": round(peak), "page_mb": round(page.stat().st_size / 2**20, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--cells", type=int, default=10)
    parser.add_argument("--out", type=Path, help="keep the records and the report here")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = chosen.out or Path(folder)
        for number in range(chosen.cells):
            write_cell(out, number, chosen.rows // chosen.cells)
        measured = report(out)
    print(f"{'rows':>10} {'cells':>6} {'cores':>6} {'seconds':>8} {'peak MB':>8} {'page MB':>8}")
    cores = len(os.sched_getaffinity(0))
    print(
        f"{chosen.rows:>10,} {chosen.cells:>6} {cores:>6} {measured['seconds']:>8} "
        f"{measured['peak_memory_mb']:>8} {measured['page_mb']:>8}"
    )
    print(json.dumps({"rows": chosen.rows, "cells": chosen.cells, "cores": cores, **measured}))
    return 0 if measured["seconds"] < SECONDS and measured["peak_memory_mb"] < MEGABYTES else 1


if __name__ == "__main__":
    sys.exit(main())
