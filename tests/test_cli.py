"""The command line as a person meets it: help, typos, pipes, and what comes out."""

import json
import subprocess
import sys

import pytest


def dualtta(*args, **options):
    command = [sys.executable, "-m", "dualtta", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize(
    "args", [["--help"], ["conformance", "--help"], ["list", "--help"], ["train", "--help"], ["adapt", "--help"]]
)
def test_help_is_enough_and_does_not_wait_for_torch(args):
    code = f"import sys; from dualtta.cli import main\ntry: main({args})\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage: dualtta" in done.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "subcommand"),
        (["conformence", "x"], "invalid choice: 'conformence'"),
        (["conformance"], "required"),
        (["conformance", "nowhere"], "there is no folder nowhere"),
        (["conformance", "."], "holds no golden vectors"),
        (["list", "--colour"], "colour"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(args, says, tmp_path):
    done = dualtta(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_list_shows_methods_and_views():
    listed = json.loads(dualtta("list", "--json").stdout)
    assert listed["methods"]["dualtta"]["tau_sp"] == 0.7
    assert set(listed["views"]) >= {"patch", "style"}
    assert listed["models"]["vit_base_patch16_224"] == "ViT-B/16, LayerNorm"
    assert "colored_digits" in listed["datasets"]
    table = dualtta("list").stdout
    assert "eata_dual" in table
    assert "style" in table


def test_version():
    import dualtta as package

    assert dualtta("--version").stdout.strip() == f"dualtta {package.__version__}"
