"""What other packages add to a report: a method with its title and colour, tables, remarks and reported numbers."""

import os
import subprocess
import sys

import pytest

from dualtta.report import make_report, read_results
from dualtta.report.plugins import REFERENCES, REMARKS, TABLES
from dualtta.report.table import Reported, Row, Table
from dualtta.report.tables import build_tables

METHOD = '''
from dataclasses import dataclass
from dualtta import Appearance, Method, Selection

@dataclass(frozen=True, kw_only=True)
class Confident(Method):
    """Minimise the entropy of confident samples."""
    name = "confident"
    title = "Confident Samples"
    published = "2030-01"
    appearance = Appearance("#123456", "p", ":")
    def select(self, probe, memory):
        return Selection.of(probe.confidence > 0.5, probe.confidence)
'''
GRID = """
import sys
from pathlib import Path
from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace

if __name__ == "__main__":
    setup = Setup("colored_digits", 2, "resnet_tiny", {"split": "test"}, {})
    cells = setup.cells(("source", "confident"), Options(seeds=(1,), limit=64, batch_size=32))
    assert not run_plan(cells, Workspace(Path(sys.argv[1]))).failed
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Records of a method that is installed where they are made, and not where they are read."""
    home, out = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("grid")
    (home / "my_tta.py").write_text(METHOD)
    (home / "grid.py").write_text(GRID)
    (home / "my_tta-1.0.dist-info").mkdir()
    (home / "my_tta-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tta\nVersion: 1.0\n")
    (home / "my_tta-1.0.dist-info" / "entry_points.txt").write_text("[dualtta.methods]\nconfident = my_tta:Confident\n")
    path = os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, home / "grid.py", out], check=True, env={**os.environ, "PYTHONPATH": path})
    return out


@pytest.mark.slow
def test_a_method_of_another_package_has_its_title_and_colour_in_tables_figures_and_page(grid):
    made = make_report([grid])
    (table,) = [table for table in made.tables if table.name.startswith("colored-digits")]
    assert [row.label for row in table.rows] == ["No adapt", "Confident Samples"]
    assert "Confident Samples" in (made.out / "report.md").read_text()
    assert "#123456" in (made.out / "figures" / "cost.svg").read_text()
    assert made.page is not None
    page = made.page.read_text()
    assert "Confident Samples" in page
    assert '"color":"#123456"' in page


def test_a_plug_in_adds_tables_and_the_settings_it_shows_are_in_no_other(make, tmp_path, monkeypatch):
    make(tmp_path, "source")
    make(tmp_path, "dualtta", dataset="other")

    def tables(frame):
        mine = frame[frame["dataset"] == "made"]
        return [Table("mine", "Mine", ("method",), (Row("a row", ()),), settings=frozenset(mine["setting"]))]

    monkeypatch.setitem(TABLES, "mine", tables)
    monkeypatch.delitem(TABLES, "paper")
    names = [table.name for table in build_tables(read_results([tmp_path])[0])]
    assert names == ["mine", "other-net-mild", "cost"]


def test_a_plug_in_adds_remarks_and_reported_numbers(make, tmp_path, monkeypatch, capsys):
    from dualtta.cli import main

    make(tmp_path, "source")
    make(tmp_path, "dualtta")
    monkeypatch.setitem(REMARKS, "mine", lambda cell: ["measured on a Monday"] if cell.method == "dualtta" else [])
    monkeypatch.setitem(REFERENCES, "mine", lambda cell, units, metric: Reported(12.34) if cell.method == "dualtta" else None)
    table = build_tables(read_results([tmp_path])[0])[0]
    assert "measured on a Monday" in table.notes.values()
    assert main(["results", str(tmp_path)]) == 0
    assert "(12.3)" in capsys.readouterr().out
