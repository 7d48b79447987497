"""Fixtures that tests of several folders use, and the settings of every test process.

A builder that several test files share is a fixture: here, or in the `conftest.py` of the folder where all its users lie. The
fixture is session-scoped and returns the function (`def write_record(): return _write_record`), or a `SimpleNamespace` of
functions where they form a family (`layouts.pacs(root)`). Tests take it as an argument; test files import nothing from each
other, and nothing is added to `sys.path`.
"""

import json
import signal
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import dualtta
from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.cell import Cell, title
from dualtta.bench.experiments import EXPERIMENTS
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace
from dualtta.cli import main
from dualtta.paper import experiments, placing, tables
from dualtta.records import format as records
from dualtta.records.metrics import summarise
from dualtta.report import read_results
from dualtta.report.plugins import REFERENCES, REMARKS, TABLES
from dualtta.report.table import Table, Value
from dualtta.report.tables import build_tables
from dualtta.testing import run as run_stream
from dualtta.testing import small_stream

torch.set_num_threads(1)  # the nets are tiny; pytest's workers fill the cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell does for background jobs; children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


for _group, _plug_in in ((TABLES, tables.tables), (REMARKS, placing.remarks), (REFERENCES, placing.reference)):
    _group.setdefault("paper", _plug_in)  # as its entry points do, also where the package is not installed anew


@pytest.fixture(scope="session")
def small_grid():
    """A function of options that returns six small cells."""

    def cells(limit=96, **options):
        setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
        return setup.cells(("source", "tent", "dualtta"), Options(seeds=(1, 2), limit=limit, batch_size=32, **options))

    return cells


@pytest.fixture(scope="session")
def content():
    """A function of a grid's folder that returns the parts of its records which are the same in every run."""

    def read(out):
        found = {}
        for path in sorted(out.glob("cells/*/*")):
            if path.name == "cell.json":
                about = json.loads(path.read_text())
                del about["provenance"]
                found[f"{path.parent.name}/{path.name}"] = json.dumps(about).encode()
            elif path.name != "done":
                found[f"{path.parent.name}/{path.name}"] = path.read_bytes()
        return found

    return read


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, small_grid) -> Path:
    """The folder of the computed small grid. Tests that change it work on a copy."""
    out = tmp_path_factory.mktemp("undisturbed")
    result = run_plan(small_grid(), Workspace(out))
    assert result.computed == 6
    assert not result.failed
    return out


@pytest.fixture(scope="session")
def cells_of():
    """A function of seeds that returns cells of two batches, by default under `source` and `tent`."""

    def cells(*seeds, methods=("source", "tent")):
        setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
        return setup.cells(methods, Options(seeds=seeds, limit=32, batch_size=16))

    return cells


@pytest.fixture(scope="session")
def finished_grid(tmp_path_factory, cells_of) -> Path:
    """The folder of the computed `cells_of(1, 2)`. Tests that change it work on a copy."""
    out = tmp_path_factory.mktemp("finished")
    assert run_plan(cells_of(1, 2), Workspace(out)).computed == 4
    return out


@pytest.fixture
def cli(capsys):
    """Run a command in this process: an object with returncode, stdout and stderr, as `subprocess.run` returns."""

    def run(*args):
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as stop:  # --help and --version
            code = stop.code or 0
        written = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=written.out, stderr=written.err)

    return run


@pytest.fixture(scope="session")
def squares(tmp_path_factory):
    """Two domains of bright and dark squares, 40 images each."""
    root = tmp_path_factory.mktemp("squares")
    rng = np.random.default_rng(0)
    for domain in ("day", "night"):
        for label, name in enumerate(("dark", "bright")):
            home = root / domain / name
            home.mkdir(parents=True)
            for number in range(20):
                pixels = rng.integers(0, 90, (28, 28, 3), np.uint8) + np.uint8(130 * label)
                Image.fromarray(pixels).save(home / f"{number}.png")
    return root


# records of cells that were not run: real settings, drawn per-sample columns, everything else as a grid writes it

GROUPS = ("0 red", "0 green", "1 red", "1 green")
CLASSES = {"pacs": 7, "office_home": 65, "imagenet_c": 1000}


def _make_rows(accuracy: float, samples: int, groups: int = 0, seed: int = 0, domains: int = 1) -> dict[str, np.ndarray]:
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


def _write_plan(out: Path, cells: list[Cell], accuracy, samples: int = 100, **about) -> None:
    """A record for each cell; `accuracy` by method, or a function of the cell."""
    for cell in cells:
        share = accuracy(cell) if callable(accuracy) else accuracy[cell.method]
        groups = GROUPS if cell.dataset in ("colored_mnist", "waterbirds") else ()
        _write_record(out, cell, _make_rows(share, samples, len(groups), cell.seed), groups, **about)


def _write_record(out: Path, cell: Cell, rows: dict[str, np.ndarray], groups: tuple[str, ...] = (), **about) -> Path:
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


def _write_run(
    out: Path, method: str, accuracy: float, corruption="fog", seeds=(1, 2), model="resnet50_v1", **settings
) -> None:
    """Records on one corruption: the first so many samples are right, so that paired comparisons agree with the accuracies."""
    lr = {} if method in ("source", "norm") else {"lr": 2.5e-4}
    for seed in seeds:
        setup = Setup("imagenet_c", 1000, model, {"corruptions": [corruption], "severities": [5]}, {})
        cell = setup.cells([method], Options(seeds=(seed,)), **lr, **settings)[0]
        rows = _make_rows(0.5, 1000, seed=0)
        wrong = np.arange(1000) >= round(accuracy * 1000)
        _write_record(out, cell, {**rows, "prediction": np.where(wrong, 1 - rows["label"], rows["label"])})


def _baselines(out: Path, corruption="fog", **other) -> None:
    known = {"source": 0.4, "norm": 0.45, "tent": 0.46, "eata": 0.5, "sar": 0.46, "deyo": 0.48, "eata_dual": 0.49}
    for method, accuracy in {**known, "deyo_dual": 0.47, **other}.items():
        _write_run(out, method, accuracy, corruption)


# tables of a report


def _tables_of(*folders: Path) -> dict[str, Table]:
    return {table.name: table for table in build_tables(read_results(folders)[0])}


def _at(table: Table, label: str, column: str) -> Value:
    row = next(row for row in table.rows if row.label == label)
    found = row.values[table.header.index(column) - 1]
    assert isinstance(found, Value)
    return found


def _said(table: Table, value: Value) -> str:
    """All notes that a value is marked with."""
    return "; ".join(table.notes[mark] for mark in value.marks)


def _plan(experiment: str, **options) -> list[Cell]:
    cells = (EXPERIMENTS.get(experiment) or getattr(experiments, experiment.replace("-", "_")))(
        Options(**{"seeds": (2024, 2025), **options})
    )
    assert isinstance(cells, list)
    return cells


def _one_cell(**changes) -> Cell:
    return replace(_plan("benchmarks", datasets=("colored_mnist",), methods=("tent",), seeds=(1,))[0], **changes)


def _edit(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture(scope="session")
def make_rows():
    return _make_rows


@pytest.fixture(scope="session")
def write_plan():
    return _write_plan


@pytest.fixture(scope="session")
def write_record():
    return _write_record


@pytest.fixture(scope="session")
def write_run():
    return _write_run


@pytest.fixture(scope="session")
def baselines():
    return _baselines


@pytest.fixture(scope="session")
def tables_of():
    return _tables_of


@pytest.fixture(scope="session")
def at():
    return _at


@pytest.fixture(scope="session")
def said():
    return _said


@pytest.fixture(scope="session")
def plan():
    return _plan


@pytest.fixture(scope="session")
def one_cell():
    return _one_cell


@pytest.fixture(scope="session")
def edit():
    return _edit


# the same stream at two speeds

LOOSE = {
    "dualtta": {"tau_sa": 0.05, "tau_sp": 0.1},
    "deyo": {"tau_plpd": 0.0},
    "deyo_dual": {"tau_plpd": 0.05},
    "eata": {"epsilon": 0.9},
    "dualtta_safe": {"guard": False, "tau_sa": 0.05, "tau_sp": 0.1, "crowd": 2.5, "steady": 0.5},
}


def _both(model, method, batches, speed="safe", **options):
    """The same stream at full cost and with shortcuts, in float64, where only rounding may differ."""
    options = {"lr": 1e-3, **LOOSE.get(method, {}), **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dualtta.CollapseWarning)
        pairs = [
            (a := dualtta.adapt(model.double(), method, speed=s, **options), run_stream(a, batches)) for s in ("naive", speed)
        ]
    return pairs


def _assert_same(naive, quick, limit=1e-9):
    (reference, steps), (adapter, others) = naive, quick
    for a, b in zip(steps, others, strict=True):
        assert (a.logits - b.logits).abs().max() < limit
        assert torch.equal(a.plus, b.plus)
        assert torch.equal(a.minus, b.minus)
        assert (a.weight - b.weight).abs().max() < limit
        assert abs(a.loss - b.loss) < limit
        assert (a.updated, a.skipped, a.recovered, a.collapsing) == (b.updated, b.skipped, b.recovered, b.collapsing)
        assert _same_draws(a, b)
        for name in a.drops:
            looked = ~b.drops[name].isnan()
            assert (a.drops[name] - b.drops[name])[looked].abs().max().nan_to_num() < limit if looked.any() else True
    for name, value in reference.weights.values().items():
        assert (value - adapter.weights.values()[name]).abs().max() < limit
    assert reference.memory.keys() == adapter.memory.keys()
    for name, value in reference.memory.items():
        assert (value - adapter.memory[name]).abs().max() < limit


def _same_draws(a, b):
    return a.draws.keys() == b.draws.keys() and all(all(map(torch.equal, a.draws[name], b.draws[name])) for name in a.draws)


def _doubles(batches=5, size=12, seed=0):
    return [x.double() for x in small_stream(batches, size, seed=seed)]


@pytest.fixture(scope="session")
def loose():
    """Settings by method with which small models of random weights select samples."""
    return LOOSE


@pytest.fixture(scope="session")
def both():
    return _both


@pytest.fixture(scope="session")
def assert_same():
    return _assert_same


@pytest.fixture(scope="session")
def doubles():
    return _doubles
