"""The command line as a person meets it: help, typos, pipes, and what comes out."""

import json
import subprocess
import sys

import pytest


def dualtta(*args, **options):
    command = [sys.executable, "-m", "dualtta", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize(
    "args",
    [[*command, "--help"] for command in ([], ["conformance"], ["list"], ["train"], ["adapt"], ["diagnose"], ["watch"])],
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


def test_what_a_method_is_is_said_in_one_whole_line():
    from dualtta.cli.parser import first_line
    from dualtta.methods import METHODS

    assert all(first_line(method).endswith(".") for method in METHODS.values())


def test_version():
    import dualtta as package

    assert dualtta("--version").stdout.strip() == f"dualtta {package.__version__}"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", "bench"], "there is no experiment 'bench'"),
        (["run", "debug", "--methods", "tentt"], "did you mean 'tent'"),
        (["run", "debug", "--datasets", "pcs"], "did you mean 'pacs'"),
        (["run", "debug", "--protocol", "papper"], "did you mean 'paper'"),
        (["run", "debug", "--seeds", "one"], "seeds are whole numbers"),
        (["run", "debug", "--limit", "0"], "limit must be at least 1"),
        (["run", "debug", "--seeds", "1,-1"], "a seed is a whole number from 0 to 4294967295, not -1"),
        (["run", "debug", "--seeds", "4294967296"], "a seed is a whole number from 0 to 4294967295"),
        (["run", "debug", "--jobs", "-1"], "jobs must be at least 1"),
        (["run", "debug", "--workers", "-1"], "workers must be at least 0"),
        (["run", "debug", "--backbone", "resnet51"], "there is no model 'resnet51'"),
        (["run", "demo", "--recipe", "epoch=3"], "did you mean 'epochs'"),
        (["run", "debug", "--launcher", "rai"], "did you mean 'ray'"),
        (["run", "debug", "--device", "gpu"], "the device 'gpu' cannot be used"),
        (["run", "debug", "--root", "nowhere"], "there is no folder nowhere"),
        (["run", "benchmarks", "--datasets", "pacs", "--weights", "missing.pt"], "there are no weights missing.pt"),
        (["run", "benchmarks", "--datasets", "colored_mnist"], "say where your data is with --root"),
    ],
)
def test_bad_settings_of_a_run_fail_before_any_work(args, says, tmp_path, monkeypatch):
    monkeypatch.delenv("DUALTTA_DATA", raising=False)
    done = dualtta(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_plan_is_shown_without_running_it(tmp_path):
    pytest.importorskip("mlxtend")
    plan = json.loads(dualtta("run", "debug", "--launcher", "dry", "--limit", "32", "--json", cwd=tmp_path).stdout)
    assert plan["cells"] == len(plan["todo"]) == 6
    assert plan["seconds"] > 0
    assert not list(tmp_path.iterdir())


def test_a_run_prints_its_table_and_where_the_records_are(tmp_path):
    pytest.importorskip("mlxtend")
    args = ("run", "debug", "--limit", "32", "--methods", "source,tent", "--seeds", "1")
    done = dualtta(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "32 samples (a subset), 1 seed" in done.stdout
    assert "2 cells computed, 0 were there already" in done.stdout
    assert "`dualtta report " in done.stdout
    again = json.loads(dualtta(*args, "--json", cwd=tmp_path).stdout)
    assert (again["computed"], again["skipped"]) == (0, 2)
    assert [row["method"] for row in again["rows"]] == ["source", "tent"]
