"""One CPU thread a worker: the nets are tiny, and workers fill the cores. Ctrl-C is heard, however pytest was started."""

import signal
from pathlib import Path

import pytest
import torch
from grids import small_grid

from dualtta.bench.cell import Place
from dualtta.bench.run import run_plan

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what runs behind it, and children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    result = run_plan(small_grid(), Place(out))
    assert result.computed == 6
    assert not result.failed
    return out
