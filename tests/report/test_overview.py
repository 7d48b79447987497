"""The results table for a README."""

from pathlib import Path

import pytest

from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.cell import Cell
from dualtta.cli import main
from dualtta.report.overview import BEGIN, END, put_into


@pytest.fixture
def folder(tmp_path, baselines, write_run) -> Path:
    baselines(tmp_path / "whole")
    write_run(tmp_path / "whole", "dualtta", 0.55, lam=0.5)
    return tmp_path / "whole"


# the table


def test_the_table_has_benchmarks_below_and_methods_beside_each_other(folder, capsys, write_run):
    write_run(folder, "tent", 0.9, "snow")  # a cell that the others lack
    assert main(["results", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = dict(zip(lines[0].split(" | "), lines[2].split(" | "), strict=True))
    assert shown["|"] == "| imagenet_c, resnet50_v1, mild"
    assert (shown["No adapt"], shown["EATA"], shown["Tent"]) == ("40.0", "**50.0**", "46.0")
    assert shown["samples |"] == "1,000, 2 seeds |"


def test_the_table_goes_between_its_marks(folder, tmp_path, capsys):
    page = tmp_path / "README.md"
    page.write_text(f"# A\n\n{BEGIN}\nold\n{END}\n\nrest\n")
    assert main(["results", str(folder), "--into", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"# A\n\n{BEGIN}\n| |")
    assert text.endswith(f"{END}\n\nrest\n")
    assert "\nold" not in text
    page.write_text("# A\n")
    assert main(["results", str(folder), "--into", str(page)]) == 2
    assert "has no place for the table" in capsys.readouterr().err
    assert page.read_text() == "# A\n"


def test_the_table_stands_beside_the_papers_numbers_where_it_is_the_same(tmp_path, capsys, make_rows, write_record):
    for seed in (1, 2):
        setup = Setup("colored_mnist", 2, "resnet18", {"split": "test"}, {})
        cell: Cell = setup.cells(["source"], Options(seeds=(seed,)))[0]
        write_record(tmp_path, cell, make_rows(0.7, 400, 4, seed), ("0 red", "0 green", "1 red", "1 green"))
    assert main(["results", str(tmp_path)]) == 0
    assert "(63.5 / 20.1)" in capsys.readouterr().out


def test_the_table_is_over_the_seeds_that_all_methods_have(tmp_path, capsys, write_run):
    write_run(tmp_path, "source", 0.9, seeds=(1,))
    write_run(tmp_path, "source", 0.4, seeds=(2, 3))
    write_run(tmp_path, "norm", 0.5, seeds=(2, 3))
    assert main(["results", str(tmp_path)]) == 0
    assert "| 40.0 | **50.0** | 1,000, 2 seeds |" in capsys.readouterr().out


def test_the_table_goes_between_two_lines_of_their_own_and_line_ends_stay(tmp_path):
    page = tmp_path / "README.md"
    page.write_bytes(f"Between {BEGIN} and {END}.\r\n{BEGIN}\r\nold\r\n{END}\r\nrest\r\n".encode())
    put_into(page, "| a |\n| b |")
    assert page.read_bytes().decode() == f"Between {BEGIN} and {END}.\r\n{BEGIN}\r\n| a |\r\n| b |\r\n{END}\r\nrest\r\n"


@pytest.mark.parametrize("lines", [[END, "x", BEGIN], [BEGIN, "x", BEGIN, "y", END], [BEGIN, "x", END, "y", END]])
def test_a_file_with_its_marks_twice_or_turned_round_stays_as_it_is(lines, tmp_path):
    page = tmp_path / "README.md"
    page.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="once"):
        put_into(page, "| a |")
    assert page.read_text() == "\n".join(lines)
