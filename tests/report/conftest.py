"""Records made of drawn numbers, and pages as a browser reads them."""

import html.parser
import json
import re
from pathlib import Path

import numpy as np
import pytest

from dualtta.records import format as records
from dualtta.records.metrics import summarise
from dualtta.report import contents_of, read_results
from dualtta.report.page import page
from dualtta.report.table import Table
from dualtta.report.tables import build_tables


def _rows_of(
    samples: int, seed: int, *, accuracy: float = 0.7, domains: int = 1, groups: int = 0, classes: int = 4, looks=True
):
    """Rows in which right samples fall under alteration and hold under restyling more often than wrong ones."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, classes, samples)
    right = rng.random(samples) < accuracy
    confidence = np.clip(rng.beta(5, 2, samples) + 0.1 * right, 0.05, 1).astype(np.float32)
    alter = (confidence * rng.beta(2, np.where(right, 1, 3), samples)).astype(np.float32)
    preserve = (confidence * rng.beta(1, np.where(right, 6, 1.2), samples)).astype(np.float32)
    domain = np.repeat(np.arange(domains), -(-samples // domains))[:samples]
    plus, minus = (alter > 0.4) & (preserve < 0.7), (alter < 0.4) & (preserve > 0.7)
    missing = np.full(samples, np.nan, np.float32)
    return {
        "index": np.arange(samples),
        "label": label.astype(np.int32),
        "prediction": np.where(right, label, (label + 1) % classes).astype(np.int32),
        "domain": domain.astype(np.int32),
        "group": (rng.integers(0, groups, samples) if groups else np.full(samples, -1)).astype(np.int32),
        "segment": domain.astype(np.int32),
        "batch": (np.arange(samples) // 64).astype(np.int32),
        "confidence": confidence,
        "entropy": (1.4 * (1 - confidence)).astype(np.float32),
        "drop_alter": alter if looks else missing,
        "drop_preserve": preserve if looks else missing,
        "weight": np.ones(samples, np.float32),
        "plus": plus if looks else np.zeros(samples, bool),
        "minus": minus if looks else np.zeros(samples, bool),
    }


def _make(
    out: Path,
    method: str = "dualtta",
    seed: int = 1,
    *,
    dataset: str = "made",
    model: str = "net",
    samples: int = 400,
    accuracy: float = 0.7,
    domains: tuple[str, ...] = ("all",),
    groups: tuple[str, ...] = (),
    choices: dict | None = None,
    settings: dict | None = None,
    stream: dict | None = None,
    subset: bool = False,
    stage: str = "result",
    key: str | None = None,
    rows: dict | None = None,
) -> Path:
    """Write one record below `out`; its folder."""
    looks = method == "dualtta"
    settings = settings or {}
    if rows is None:
        rows = _rows_of(samples, seed, accuracy=accuracy, domains=len(domains), groups=len(groups), looks=looks)
    thresholds = {"tau_sa": 0.4, "tau_sp": 0.7, "drop": "absolute", "alter": {"view": "patch", "grid": 4}} if looks else {}
    full = {**thresholds, **settings}
    classes = [f"class {number}" for number in range(4)]
    summary = summarise(rows, len(classes), domains, groups, full)
    forwards = len(rows["label"]) * {"source": 1, "deyo": 2, "dualtta": 3}.get(method, 1)
    counts = {"batches": 7, "updates": 7 * looks, "skips": 0, "recoveries": 0, "collapsing": 0, "forwards": forwards}
    cell = {
        "dataset": {"name": dataset, **(choices or {})},
        "model": {"name": model, "source": None, "weights": None},
        "method": {"name": method, **settings},
        "scenario": {"name": "mild", "batch_size": 64, **(stream or {})},
        "fisher": None,
        "seed": seed,
    }
    key = key or records.key_of(cell, "")
    about = {
        "version": records.VERSION,
        "key": key,
        "title": f"{method} on {dataset}, seed {seed}",
        "stage": stage,
        "cell": cell,
        "method": {**full, "name": method, "lr": 5e-4, "momentum": 0.9, "layer": None},
        "data": {"dataset": dataset, "images": len(rows["label"]), "domains": list(domains)},
        "classes": classes,
        "domains": list(domains),
        "groups": list(groups),
        "subset": subset,
        "model": {"card": None, "weights_hash": "", "preprocess": {"mean": [0.5] * 3, "std": [0.5] * 3, "size": None}},
        "threads": 1,
        "provenance": {
            "versions": {"dualtta": "0.1.0", "python": "3.11.7", "torch": "2.15.0"},
            "commit": None,
            "machine": {"system": "Linux", "processor": "x86_64", "gpu": None},
        },
    }
    cost = {
        "finished": "2026-01-01T00:00:00Z",
        "seconds": 1.0,
        "images_per_second": 3000.0 / forwards * len(rows["label"]),
        "peak_memory_mb": 100.0,
        "device": "cpu",
    }
    folder = out / "cells" / key
    records.store(
        folder,
        {
            "cell.json": records.to_json(about),
            "indices.npz": records.to_npz({"index": rows["index"]}),
            "rows.npz": records.to_npz(rows),
            "summary.json": records.to_json({**summary, **counts}),
            "done": records.to_json(cost),
        },
    )
    return folder


def _page_of(out: Path, tables: list[Table] | None = None) -> str:
    frame, notes = read_results([out])
    return page(contents_of(out.name, frame, build_tables(frame) if tables is None else tables, notes))


class _Elements(html.parser.HTMLParser):
    """What a browser would find: elements with their attributes, and the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in ("meta", "img", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not self.open or self.open[-1] != "style":
            self.text += data

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]


def _embedded(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found.group(1))


@pytest.fixture(scope="session", name="make")
def make_fixture():
    return _make


@pytest.fixture(scope="session", name="rows_of")
def rows_of_fixture():
    return _rows_of


@pytest.fixture(scope="session", name="Elements")
def elements_fixture():
    return _Elements


@pytest.fixture(scope="session", name="embedded")
def embedded_fixture():
    return _embedded


@pytest.fixture(scope="session", name="page_of")
def page_of_fixture():
    return _page_of
