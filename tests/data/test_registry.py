"""Datasets of other packages come in by entry point, and a broken one does no harm; the command line knows them all."""

import json
import os
import subprocess
import sys

import pytest

MODULE = '''
import numpy as np
from dualtta.data import Dataset

class Squares(Dataset):
    """Bright and dark squares."""
    name = "squares"
    def __init__(self, root):
        super().__init__(labels=[0, 1, 1], classes=["dark", "bright"])
    def image(self, index):
        return np.full((8, 8, 3), 255 * self.labels[index], np.uint8)
'''
ENTRIES = """
[dualtta.datasets]
squares = my_data:Squares
broken = my_data:Missing
pacs = my_data:Squares
"""
CHECK = """
from dualtta.data import DATASETS, load, open_dataset
from dualtta.data.preprocess import PREPROCESS
from dualtta.streams.scenarios import make_scenario
assert DATASETS["pacs"].__module__ == "dualtta.data.datasets.folders", "a plug-in cannot replace a dataset"
assert "broken" not in DATASETS
data = open_dataset("squares", ".")
batch = next(load(data, make_scenario("mild").stream(data), PREPROCESS["cifar10"], workers=0))
assert batch.x.shape == (3, 3, 8, 8)
"""


def run(*command, **options):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.slow
def test_a_package_registers_its_dataset(tmp_path):
    (tmp_path / "my_data.py").write_text(MODULE)
    info = tmp_path / "my_data-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-data\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = run("-c", CHECK, env=environment)
    assert done.returncode == 0, done.stderr
    assert "the dataset 'broken' of my_data:Missing does not load" in done.stderr
    listed = json.loads(run("-m", "dualtta", "list", "--json", env=environment).stdout)
    assert listed["datasets"]["squares"] == "Bright and dark squares."
    assert set(listed["scenarios"]) >= {"mild", "imbalanced", "mixed", "continual", "correlated", "single"}


@pytest.mark.slow
def test_an_invalid_registration_does_no_harm(tmp_path):
    (tmp_path / "my_mistakes.py").write_text("number = 3\n\nclass Net:\n    pass\n")
    (tmp_path / "my_script.py").write_text("raise SystemExit(3)\n")
    info = tmp_path / "my_mistakes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-mistakes\nVersion: 1.0\n")
    kinds = {"datasets": ("number", "Net.x"), "models": ("number", "Net"), "methods": ("number", "Net")}
    entries = [f"[dualtta.{kind}]\na = my_mistakes:{a}\nb = my_mistakes:{b}\nc = my_script:x" for kind, (a, b) in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join(entries))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = run("-m", "dualtta", "list", "--json", env=environment)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert not {"a", "b", "c"} & (set(listed["datasets"]) | set(listed["models"]) | set(listed["methods"]))
    for kind in kinds:
        for name in "abc":
            assert f"the {kind[:-1]} {name!r} of my_" in done.stderr


@pytest.mark.parametrize("args", [["--help"], ["data", "--help"], ["data", "check", "--help"], ["data", "prepare", "--help"]])
def test_help_is_complete_and_quick(args):
    code = (
        f"import sys; from dualtta.cli import main\ntry: main({args})\n"
        "finally: assert not {'torch', 'numpy', 'PIL'} & set(sys.modules)"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert "usage: dualtta" in done.stdout


def test_check_does_not_wait_for_torch(tmp_path):
    code = f"import sys; from dualtta.cli import main; code = main(['data', 'check', {str(tmp_path)!r}]); "
    done = run("-c", code + "assert 'torch' not in sys.modules; sys.exit(code)")
    assert done.returncode == 2, done.stderr
    assert "it is empty" in done.stderr
