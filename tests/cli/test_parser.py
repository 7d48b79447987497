"""Every command: help, exit codes and error messages."""

import subprocess
import sys

import pytest

import dualtta
from dualtta.cli.parser import COMMANDS

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


def test_version(cli):
    assert cli("--version").stdout.strip() == f"dualtta {dualtta.__version__}"
