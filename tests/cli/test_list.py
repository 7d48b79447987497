"""`dualtta list`."""

import json
import os
import subprocess
import sys

import pytest

from dualtta.cli.list import sections
from dualtta.cli.parser import first_line
from dualtta.methods import METHODS


@pytest.fixture(scope="module")
def found():
    return sections()


def test_json_has_the_settings_of_methods_and_a_line_about_everything_else(cli):
    listed = json.loads(cli("list", "--json").stdout)
    assert listed["methods"]["dualtta"]["tau_sp"] == 0.7
    assert set(listed["views"]) >= {"patch", "style"}
    assert listed["models"]["vit_base_patch16_224"] == "ViT-B/16, LayerNorm"
    assert "colored_digits" in listed["datasets"]
    assert json.loads(cli("list", "methods", "--json").stdout) == listed["methods"]


def test_all_names_are_listed_in_a_line_each_without_settings(cli, found):
    printed = cli("list").stdout
    for entries in found.values():
        for name in entries:
            assert sum(line.split()[:1] == [name] for line in printed.splitlines()) >= 1
    assert "tau_sp" not in printed
    assert len(printed.splitlines()) == sum(map(len, found.values())) + 2 * len(found) + 2


@pytest.mark.parametrize("what", [[], ["methods"], ["views"], ["datasets"], ["experiments"], ["dualtta_safe"], ["folder"]])
def test_in_a_pipe_no_line_is_longer_than_100_characters(what, cli):
    lines = cli("list", *what).stdout.splitlines()
    assert lines
    assert max(map(len, lines)) <= 100


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_in_a_terminal_lines_are_as_long_as_it_is_wide():
    import pty

    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "80"}
    command = [sys.executable, "-m", "dualtta", "list", "methods"]
    with subprocess.Popen(command, stdout=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        while part := read(ours):
            printed += part
        assert process.wait(timeout=60) == 0
    os.close(ours)
    lines = printed.decode().splitlines()
    assert 70 < max(map(len, lines)) <= 80


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 2**16)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_a_section_shows_settings_and_a_name_all_about_it(cli):
    assert "tau_sa=0.4, tau_sp=0.7" in cli("list", "methods").stdout
    assert "crowd = 1.3" in cli("list", "dualtta_safe").stdout
    shown = cli("list", "cifar10-wild").stdout
    assert shown.startswith("cifar10-wild (experiments)\n")
    assert "Command: dualtta run cifar10-wild --root DATA" in shown
    assert json.loads(cli("list", "norm", "--json").stdout)["methods"]["settings"]["statistics"] == "batch"


def test_an_unknown_name_is_refused_with_the_nearest(cli):
    done = cli("list", "tennt")
    assert done.returncode == 2
    assert done.stderr == "dualtta: nothing is called 'tennt'; did you mean 'tent'?\n"


def test_the_first_line_of_every_methods_docstring_is_a_sentence():
    assert all(first_line(method).endswith(".") for method in METHODS.values())
