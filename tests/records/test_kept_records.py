"""The results table for a README, and the tables of studies."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_records import baselines, make_rows, write, write_record

from dualtta.bench.benchmarks import Options, Setup
from dualtta.bench.cell import Cell
from dualtta.cli import main
from dualtta.report.overview import BEGIN, END, put_into
from dualtta.train import make_source


@pytest.fixture
def folder(tmp_path) -> Path:
    baselines(tmp_path / "whole")
    write(tmp_path / "whole", "dualtta", 0.55, lam=0.5)
    return tmp_path / "whole"


# the table


def test_the_table_has_benchmarks_below_and_methods_beside_each_other(folder, capsys):
    write(folder, "tent", 0.9, "snow")  # a cell that the others lack
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


def test_the_table_stands_beside_the_papers_numbers_where_it_is_the_same(tmp_path, capsys):
    for seed in (1, 2):
        setup = Setup("colored_mnist", 2, "resnet18", {"split": "test"}, {})
        cell: Cell = setup.cells(["source"], Options(seeds=(seed,)))[0]
        write_record(tmp_path, cell, make_rows(0.7, 400, 4, seed), ("0 red", "0 green", "1 red", "1 green"))
    assert main(["results", str(tmp_path)]) == 0
    assert "(63.5 / 20.1)" in capsys.readouterr().out


def test_the_table_is_over_the_seeds_that_all_methods_have(tmp_path, capsys):
    write(tmp_path, "source", 0.9, seeds=(1,))
    write(tmp_path, "source", 0.4, seeds=(2, 3))
    write(tmp_path, "norm", 0.5, seeds=(2, 3))
    assert main(["results", str(tmp_path)]) == 0
    assert "| 40.0 | **50.0** | 1,000, 2 seeds |" in capsys.readouterr().out


# the tables behind the answers


def test_source_models_of_other_seeds_are_studied_apart(tmp_path, capsys):
    for seed, accuracy in ((0, 0.5), (1, 0.8)):
        source = make_source("colored_mnist", seed=seed)
        setup = Setup("colored_mnist", 2, "resnet18", {"split": "test"}, {}, source)
        write_record(tmp_path, setup.cells(["source"], Options(seeds=(1,)))[0], make_rows(accuracy, 400))
    assert main(["study", str(tmp_path), "--json"]) == 0
    found = {study["title"]: study["lines"][0]["accuracy"] for study in json.loads(capsys.readouterr().out)}
    assert found == {
        "colored_mnist, resnet18, mild, batches of 64": pytest.approx(0.5),
        "colored_mnist, resnet18, mild, batches of 64, source model of seed 1": pytest.approx(0.8),
    }


def two_passes(out: Path, method: str, first: float, last: float, **settings) -> None:
    setup = Setup("imagenet_c", 1000, "resnet50_v1", {"corruptions": ["contrast"], "severities": [5]}, {"repeats": 2})
    cell = setup.cells([method], Options(seeds=(1,)), **settings)[0]
    rows = make_rows(0.5, 200, seed=0)
    at = np.arange(200) % 100
    right = at < np.where(np.arange(200) < 100, 100 * first, 100 * last)
    rows |= {"index": at, "label": rows["label"][at], "plus": at < 20, "minus": at >= 90}
    write_record(out, cell, {**rows, "prediction": np.where(right, rows["label"], 1 - rows["label"])})


def test_a_study_shows_passes_differences_and_what_was_right(tmp_path, capsys):
    two_passes(tmp_path, "source", 0.5, 0.5)
    two_passes(tmp_path, "dual_variant", 0.6, 0.1, breaks_by="flip")
    assert main(["study", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["title"] == "imagenet_c, resnet50_v1, mild, batches of 64, 2 passes over the same images"
    source, variant = found["lines"]
    assert source["label"] == "No adapt"
    assert source["difference"] is None
    assert variant["label"] == "dual_variant, breaks_by flip"
    assert (variant["first"], variant["last"], variant["accuracy"]) == pytest.approx((0.6, 0.1, 0.35))
    assert variant["difference"][0] == pytest.approx(-15)
    assert (variant["plus"], variant["minus"]) == pytest.approx((0.2, 0.1))
    assert (variant["plus_right"], variant["minus_right"]) == pytest.approx((0.75, 0.0))  # 20 and 10 of 40; none of 20
    assert main(["study", str(tmp_path), "--markdown"]) == 0
    assert "| dual_variant, breaks_by flip | 35.0 | 60.0 | 10.0 | -15.0 (" in capsys.readouterr().out


def test_a_study_shows_how_a_stream_of_one_pass_begins_and_ends(tmp_path, capsys):
    rows, at = make_rows(0.5, 80), np.arange(80)
    right = (at < 10) | (at % 2 == 0) & (at < 70)  # the first ten, half of the middle, none of the last ten
    rows |= {"prediction": np.where(right, rows["label"], 1 - rows["label"])}
    setup = Setup("imagenet_c", 1000, "resnet50_v1", {"corruptions": ["fog"], "severities": [5]}, {})
    write_record(tmp_path, setup.cells(["tent"], Options(seeds=(1,)))[0], rows)
    assert main(["study", str(tmp_path), "--json"]) == 0
    ((line,),) = (study["lines"] for study in json.loads(capsys.readouterr().out))
    assert (line["first"], line["last"], line["accuracy"]) == pytest.approx((1.0, 0.0, 0.5))


def test_a_study_takes_the_cells_that_all_variants_have(tmp_path, capsys):
    two_passes(tmp_path, "source", 0.5, 0.5)
    write(tmp_path, "tent", 0.9, "fog")
    assert main(["study", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(one["lines"]) for one in found] == [1, 1]  # two passes and one are two tables
    write(tmp_path, "source", 0.4, "snow")
    assert main(["study", str(tmp_path), "--json"]) == 0
    assert 0 in [one["cells"] for one in json.loads(capsys.readouterr().out)]


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
