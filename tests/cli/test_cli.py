"""The command line: help, exit codes, error messages and output."""

import json
import subprocess
import sys

import pytest

import dualtta
from dualtta.cli.parser import COMMANDS, first_line
from dualtta.methods import METHODS

HELP = """
import sys
from dualtta.cli import main
from dualtta.cli.parser import COMMANDS
for words in [[], *([name] for name in COMMANDS)]:
    try:
        main([*words, "--help"])
    except SystemExit as stop:
        assert not stop.code
    assert "torch" not in sys.modules
"""


def test_help_of_every_command_is_shown_without_importing_torch():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: dualtta") == len(COMMANDS) + 1


def test_bad_input_in_a_process_of_its_own_is_one_line_and_exit_code_2(tmp_path):
    command = [sys.executable, "-m", "dualtta", "conformance", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "dualtta: there is no folder nowhere\n"
    assert not done.stdout


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
def test_bad_input_is_one_line_and_exit_code_2(args, says, tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    done = cli(*args)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_list_shows_methods_and_views(cli):
    listed = json.loads(cli("list", "--json").stdout)
    assert listed["methods"]["dualtta"]["tau_sp"] == 0.7
    assert set(listed["views"]) >= {"patch", "style"}
    assert listed["models"]["vit_base_patch16_224"] == "ViT-B/16, LayerNorm"
    assert "colored_digits" in listed["datasets"]
    table = cli("list").stdout
    assert "eata_dual" in table
    assert "style" in table


def test_the_first_line_of_every_methods_docstring_is_a_sentence():
    assert all(first_line(method).endswith(".") for method in METHODS.values())


def test_version(cli):
    assert cli("--version").stdout.strip() == f"dualtta {dualtta.__version__}"


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
def test_bad_settings_of_a_run_fail_before_any_work(args, says, tmp_path, monkeypatch, cli):
    monkeypatch.delenv("DUALTTA_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    done = cli(*args)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_plan_is_shown_without_running_it(tmp_path, monkeypatch, cli):
    pytest.importorskip("mlxtend")
    monkeypatch.chdir(tmp_path)
    plan = json.loads(cli("run", "debug", "--launcher", "dry", "--limit", "32", "--json").stdout)
    assert plan["cells"] == len(plan["todo"]) == 6
    assert plan["seconds"] > 0
    assert not list(tmp_path.iterdir())


def test_a_run_prints_its_table_and_where_the_records_are(tmp_path, monkeypatch, cli):
    pytest.importorskip("mlxtend")
    monkeypatch.chdir(tmp_path)
    args = ("run", "debug", "--limit", "32", "--methods", "source,tent", "--seeds", "1")
    done = cli(*args)
    assert done.returncode == 0, done.stderr
    assert "32 samples (a subset), 1 seed" in done.stdout
    assert "2 cells computed, 0 were there already" in done.stdout
    assert "`dualtta report " in done.stdout
    again = json.loads(cli(*args, "--json").stdout)
    assert (again["computed"], again["skipped"]) == (0, 2)
    assert [row["method"] for row in again["rows"]] == ["source", "tent"]
