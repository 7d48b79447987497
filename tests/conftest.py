"""Fixtures that tests of several folders use, and the settings of every test process.

A builder that several test files share is a fixture: here, or in the `conftest.py` of the folder where all its users lie. The
fixture is session-scoped and returns the function (`def write_record(): return _write_record`), or a `SimpleNamespace` of
functions where they form a family (`layouts.pacs(root)`). Tests take it as an argument; test files import nothing from each
other, and nothing is added to `sys.path`.
"""

import signal
from pathlib import Path

import pytest
import torch
from grids import small_grid

from dualtta.bench.cell import Place
from dualtta.bench.run import run_plan

torch.set_num_threads(1)  # the nets are tiny; pytest's workers fill the cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell does for background jobs; children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    result = run_plan(small_grid(), Place(out))
    assert result.computed == 6
    assert not result.failed
    return out
