"""Fixtures that tests of several folders use, and the settings of every test process.

A builder that several test files share is a fixture: here, or in the `conftest.py` of the folder where all its users lie. The
fixture is session-scoped and returns the function (`def write_record(): return _write_record`), or a `SimpleNamespace` of
functions where they form a family (`layouts.pacs(root)`). Tests take it as an argument; test files import nothing from each
other, and nothing is added to `sys.path`.
"""

import json
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace
from dualtta.cli import main

torch.set_num_threads(1)  # the nets are tiny; pytest's workers fill the cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell does for background jobs; children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
