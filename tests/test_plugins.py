"""Methods, experiments and commands of other packages come in by entry point; a broken one does no harm."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.slow  # every test runs Python anew, where the package is installed

MODULE = '''
from dataclasses import dataclass
from dualtta import Method, Selection

@dataclass(frozen=True, kw_only=True)
class Confident(Method):
    """Minimise the entropy of confident samples."""
    name = "confident"
    title = "Confident"
    published = "2026-01"
    least: float = 0.9
    def select(self, probe, memory):
        return Selection.of(probe.confidence > self.least, probe.confidence)
'''
GRIDS = '''
from dualtta.bench.benchmarks import Setup

def two_cells(options):
    """Two cells of a package."""
    setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
    return setup.cells(options.methods or ("source", "confident"), options)
'''
COMMAND = '''
import torch

def greet(name: str, twice: bool = False) -> int:
    """Greet somebody by name.

    Args:
        name: The name.
        twice: Greet twice.
    """
    print(*[f"hello {name}"] * (1 + twice))
    return 0
'''
ENTRIES = """
[dualtta.methods]
confident = my_tta:Confident
broken = my_tta:Missing
module = my_tta
tent = my_tta:Confident
[dualtta.experiments]
two-cells = my_tta:two_cells
demo = my_tta:two_cells
broken-cells = my_tta:missing
[dualtta.commands]
greet = my_commands:greet
list = my_commands:greet
broken = my_commands:missing
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package with entry points of all kinds: `python(*words)` runs Python where it is installed."""
    home = tmp_path_factory.mktemp("package")
    (home / "my_tta.py").write_text(GRIDS + MODULE)  # one module may register objects of all kinds
    (home / "my_commands.py").write_text(COMMAND)
    info = home / "my_tta-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tta\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(home), str(Path(__file__).parents[1])])}

    def python(*words, **options):
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment, **options)

    return SimpleNamespace(home=home, python=python)


CHECK = """
import dualtta
from dualtta.testing import check_method
assert dualtta.METHODS["confident"].__module__ == "my_tta"
assert dualtta.METHODS["tent"].__module__ == "dualtta.methods.tent", "a plug-in cannot replace a method"
assert not {"broken", "module"} & set(dualtta.METHODS)
check_method("confident")
"""


def test_a_package_registers_its_method(package):
    done = package.python("-c", CHECK)
    assert done.returncode == 0, done.stderr
    assert "the method 'broken' of my_tta:Missing does not load" in done.stderr
    assert "the method 'module' of my_tta does not load: it is no method" in done.stderr


def test_methods_and_experiments_of_a_package_are_listed(package):
    done = package.python("-m", "dualtta", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert listed["methods"]["confident"]["least"] == 0.9
    assert listed["experiments"]["two-cells"] == "Two cells of a package."
    assert listed["experiments"]["demo"].startswith("The embedded digits")
    assert "broken-cells" not in listed["experiments"]
    assert "the experiment 'broken-cells' of my_tta:missing does not load" in done.stderr


@pytest.fixture(scope="module")
def records(package, tmp_path_factory):
    """Records of the package's method beside others: what tables, figures and the page are made of."""
    pytest.importorskip("mlxtend")
    out = tmp_path_factory.mktemp("records")
    words = ["-m", "dualtta", "run", "debug", "--methods", "source,confident", "--seeds", "1", "--limit", "64"]
    done = package.python(*words, "--device", "cpu", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    assert [row["method"] for row in json.loads(done.stdout)["rows"]] == ["source", "confident"]
    return out


def test_a_method_of_a_package_runs_in_any_experiment(records):
    cells = [json.loads(path.read_text()) for path in records.glob("cells/*/cell.json")]
    assert {cell["method"]["name"]: cell["method"].get("least") for cell in cells} == {"source": None, "confident": 0.9}


def test_an_experiment_of_a_package_is_planned_and_run_by_name(package, tmp_path):
    pytest.importorskip("mlxtend")
    words = ["-m", "dualtta", "run", "two-cells", "--launcher", "dry", "--seeds", "1", "--json", "--out", tmp_path / "out"]
    done = package.python(*words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cells"] == 2


HELP = """
import sys
from dualtta.cli import main
try:
    main(["--help"])
finally:
    assert not {"torch", "numpy", "my_commands", "my_tta"} & set(sys.modules)
"""


def test_a_command_of_a_package_is_in_the_help_without_being_imported(package):
    done = package.python("-c", HELP)
    assert done.returncode == 0, done.stderr
    assert "Greet somebody by name." in done.stdout
    assert "my_commands:missing" in done.stdout  # nothing is known of it but where it should be
    assert "Show the names of methods" in done.stdout, "a plug-in cannot replace a command"


def test_a_command_of_a_package_takes_its_arguments_and_help(package):
    assert package.python("-m", "dualtta", "greet", "Ann", "--twice").stdout == "hello Ann hello Ann\n"
    assert "Greet twice." in package.python("-m", "dualtta", "greet", "--help").stdout


def test_a_broken_command_is_one_line_and_the_others_work(package):
    done = package.python("-m", "dualtta", "broken")
    assert done.returncode == 2
    assert "the command 'broken' of my_commands:missing does not load" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert package.python("-m", "dualtta", "--version").returncode == 0
