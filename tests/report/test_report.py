"""Reports: every setting in a table, tables as text in four formats, and the command."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dualtta.bench.cell import Cell
from dualtta.records.frame import load_records
from dualtta.report.render import common, notes_text, tex, to_csv, to_latex, to_markdown
from dualtta.report.table import Row, Table, Value
from dualtta.report.terminal import pieces, to_terminal

RECORDS = Path(__file__).parents[1] / "recorded"
DEMO, UNWELL = RECORDS / "demo", RECORDS / "unwell"


def test_the_demo_as_text(tables_of):
    assert to_markdown(tables_of(DEMO)["results"]) == (RECORDS / "results.md").read_text()


def test_every_setting_is_in_a_table(tmp_path, plan, tables_of, write_plan):
    cells = [
        Cell("colored_digits", "resnet_tiny", "mine", scenario="correlated", settings={"lr": 0.1, "depth": [1, 2]}),
        Cell("pacs", "resnet50", "tent", weights="pretrained"),  # no pair
        Cell("imagenet_c", "resnet50", "tent", choices={"corruptions": ["fog"], "severities": [3]}, weights="pretrained"),
        *plan("sweep-layer", datasets=("waterbirds",), seeds=(1,)),
    ]
    write_plan(tmp_path, cells, lambda cell: 0.6)
    found = [row.label for table in tables_of(tmp_path).values() if table.name != "cost" for row in table.rows]
    assert "mine, depth [1, 2], lr 0.1" in found
    assert "DualTTA, layer layer3" in found
    tables = tables_of(tmp_path)
    assert "random weights: the model was never trained" in tables["colored-digits-resnet-tiny-correlated"].notes.values()
    assert "imagenet_c fog, severity 3, resnet50, mild" in tables["imagenet-c-resnet50-mild"].title
    assert [row.label for row in tables["results"].rows] == ["Tent", "mine"]


def test_a_collapse_is_said(tmp_path, at, edit, make_rows, one_cell, said, tables_of, write_record):
    folder = write_record(tmp_path, one_cell(), make_rows(0.5, 100, 4), ("a", "b", "c", "d"))
    edit(folder / "summary.json", collapsing=2)
    table = tables_of(tmp_path)["benchmarks"]
    assert "collapsed onto few classes in 1 of 1 seeds" in said(table, at(table, "Tent", "ColoredMNIST, avg"))


def test_cost_counts_forwards_and_names_the_device(tables_of):
    table = tables_of(DEMO)["cost"]
    row = next(row for row in table.rows if row.label == "DualTTA" and "digits_c" in row.values[0])
    assert row.values[1:3] == ("cpu", "3")
    assert row.values[3].mean == 3


# how tables are written

HOSTILE = "a|b <script>alert(1)</script> \x1b[2J\n# 100 % of_{x}^2 \\end{table} *"
NASTY = Table(
    "nasty",
    HOSTILE,
    ("method", HOSTILE),
    (Row(HOSTILE, (Value(1.5, 0.25, 3, 10, 1.0, ("a",), best=True),)), Row("=cmd()", (Value(),))),
    {"a": HOSTILE, "–": "not measured", "(1)": "of all"},  # noqa: RUF001
)


def test_markdown_escapes_what_others_named():
    lines = to_markdown(NASTY).splitlines()
    assert len(lines) == 10  # no name breaks a line
    assert "<script>" not in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)
    assert lines[4].replace("\\|", "").count("|") == 3
    assert "**1.50 ± 0.25** <sup>a</sup><br><sub>paper 1.00, +0.50</sub>" in lines[4]


def test_latex_is_booktabs_with_the_best_in_bold_and_everything_escaped():
    text = to_latex(NASTY)
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1
    assert r"\textbf{1.50 $\pm$ 0.25}\textsuperscript{a} {\scriptsize (paper 1.00, +0.50)}" in text
    assert text.count(r"\end{table}") == 1  # the hostile one is escaped
    assert tex("_{x}^2 100 %") == r"\_\{x\}\textasciicircum{}2 100 \%"
    assert text.count("{") - text.count("}") == text.count(r"\{") - text.count(r"\}")
    assert "\x1b" not in text


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex here")
def test_latex_compiles_and_no_table_is_wider_than_a_line(tmp_path, tables_of):
    tables = [NASTY, replace(NASTY, name="broad", header=("method", HOSTILE * 3)), *tables_of(DEMO).values()]
    packages = "\\documentclass{article}\n\\usepackage{booktabs,amssymb,graphicx}\n"
    body = "\n".join(to_latex(table) + r"\clearpage" for table in tables)
    (tmp_path / "t.tex").write_text(f"{packages}\\begin{{document}}\n{body}\n\\end{{document}}\n")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.findall(r"Overfull .hbox \((.*)pt too wide\) in paragraph", done.stdout)


def test_csv_has_a_line_a_value_in_full_precision():
    rows = list(csv.DictReader(io.StringIO(to_csv(NASTY))))
    assert len(rows) == 2
    assert {k: rows[0][k] for k in ("mean", "deviation", "seeds", "samples", "reported", "difference", "best")} == {
        **{"mean": "1.5", "deviation": "0.25", "seeds": "3", "samples": "10"},
        **{"reported": "1.0", "difference": "0.5", "best": "1"},
    }
    assert rows[1]["label"] == "'=cmd()"  # no formula in a spreadsheet
    assert rows[1]["mean"] == ""


def test_csv_of_the_demo_carries_the_same_numbers_as_the_table(at, said, tables_of):
    table = tables_of(DEMO)["results"]
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(rows) == len(table.rows) * (len(table.header) - 1)
    for line in rows:
        value = at(table, line["label"], line["column"])
        assert float(line["mean"]) == value.mean
        assert line["notes"] == said(table, value)


def test_a_note_on_every_value_is_said_once():
    table = Table("t", "T", ("m", "x"), (Row("a", (Value(1.0, marks=("a", "b")),)), Row("b", (Value(2.0, marks=("a",)),))))
    table = replace(table, notes={"a": "a subset", "b": "collapsed"})
    assert common(table) == {"a"}
    assert notes_text(table) == ["all values: a subset", "b: collapsed"]
    assert "| a | 1.00 <sup>b</sup> |" in to_markdown(table)
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["notes"] == "a subset; collapsed"  # where a value stands alone


def test_a_note_that_a_number_of_the_paper_alone_has_too_stays_at_the_numbers():
    """Else the dash loses its mark, and the note says of the rest of the paper's numbers what holds for some."""
    told = [Value(mean, reported=number, marks=("a",)) for mean, number in ((8.2, 4.5), (-2.7, 3.1), (None, 1.4))]
    rows = tuple(Row(str(i), (value,)) for i, value in enumerate((*told, Value(reported=6.0))))
    table = Table("t", "T", ("claim", "measured"), rows, {"a": "the text differs from the tables"})
    assert common(table) == set()
    assert "– <sup>a</sup><br><sub>paper 1.40" in to_markdown(table)  # noqa: RUF001
    assert notes_text(table) == ["a: the text differs from the tables"]


def test_the_terminal_shows_the_best_in_bold_and_the_papers_below():
    from rich.console import Console

    console = Console(width=200, force_terminal=True, color_system="standard", file=io.StringIO())
    console.print(to_terminal(NASTY))
    text = console.file.getvalue()
    assert re.search(r"\x1b\[1m *1\.50 ± 0\.25\x1b\[0m", text)  # bold
    assert re.search(r"\x1b\[2mpaper 1\.00, \+0\.50", text)  # dim
    assert "\x1b[2J" not in text  # the hostile name does not clear the screen


def test_a_wide_table_is_cut_for_a_narrow_terminal_and_no_value_is_broken(tables_of):
    from rich.console import Console

    table = tables_of(DEMO)["quadrants"]
    parts = pieces(table, 160)
    assert len(parts) > 1
    assert sum(len(part.header) - 1 for part in parts) == len(table.header) - 1
    console = Console(width=160, file=io.StringIO())
    for part in parts:
        console.print(to_terminal(part, common(table), 160))
    shown = console.file.getvalue()
    values = [v for row in table.rows for v in row.values if isinstance(v, Value)]
    assert all(f"{v.mean:.2f} ± {v.deviation:.2f}" in shown for v in values)
    assert max(map(len, shown.splitlines())) <= 160


@pytest.mark.parametrize("width", [60, 70, 80, 90, 140])
def test_no_value_is_cut_off_beside_long_labels_and_headings(width):
    from rich.console import Console

    header = ("method", "ColoredMNIST, %adapt", "ColoredMNIST, %corr-adapt", "ColoredMNIST, %low entropy", "PACS, %adapt")
    last = Value(9.41, 0.22, marks=("a",))
    values = (Value(30.58, 0.13, reported=15.6), Value(13.16, 0.08, reported=10.6), Value(53.1, 0.18), last)
    table = Table("t", "T", header, (Row("EATA with D-, own rate", values), Row("DeYO", values)), {"a": "a subset"})
    console = Console(width=width, file=io.StringIO())
    for part in pieces(table, width):
        console.print(to_terminal(part, common(table), width))
    shown = console.file.getvalue()
    assert all(shown.count(text) == 2 for text in ("30.58 ± 0.13", "13.16 ± 0.08", "53.10 ± 0.18", "9.41 ± 0.22 a"))
    assert max(map(len, shown.splitlines())) <= width


def test_pieces_of_a_table_with_repeated_labels_say_in_each_whose_row_it_is():
    rows = [Row("Tent", ("digits", Value(1.0), Value(2.0))), Row("Tent", ("pacs", Value(3.0), Value(4.0)))]
    table = Table("t", "T", ("method", "on", "first", "second"), tuple(rows))
    assert [part.header for part in pieces(table, 20)] == [("method", "on", "first"), ("method", "on", "second")]
    assert [row.values[0] for row in pieces(table, 20)[1].rows] == ["digits", "pacs"]


# the command


def dualtta(*args: str, capsys) -> tuple[int, str, str]:
    from dualtta.cli import main

    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_report_prints_and_writes_its_tables_with_the_notes(tmp_path, capsys):
    code, out, err = dualtta("report", str(DEMO), str(UNWELL), "--out", str(tmp_path / "r"), capsys=capsys)
    assert code == 0
    assert "65.94 ± 1.41" in out
    assert "5 tables in" in out
    assert err.count("dualtta: unwell/cells/") == 3
    names = {path.name for path in (tmp_path / "r" / "tables").iterdir()}
    assert {"results.md", "results.tex", "results.csv", "cost.md"} <= names
    assert len(names) == 15
    assert "has no result: it was not finished" in (tmp_path / "r" / "report.md").read_text()


@pytest.mark.slow
def test_a_later_report_leaves_no_stale_table_and_nothing_else_is_touched(tmp_path, capsys):
    shutil.copytree(DEMO, tmp_path / "demo")
    dualtta("report", str(tmp_path / "demo"), capsys=capsys)
    tables = tmp_path / "demo" / "report" / "tables"
    (tables / "mine.md").write_text("my own")
    for record in load_records(tmp_path / "demo").record:
        if record.cell["cell"]["dataset"]["name"] == "digits_c":
            shutil.rmtree(record.folder)
    dualtta("report", str(tmp_path / "demo"), "--formats", "md", capsys=capsys)
    names = sorted(path.name for path in tables.iterdir())
    assert names == ["colored-digits-resnet-tiny-mild.md", "cost.md", "mine.md", "quadrants.md"]


@pytest.mark.slow
def test_report_as_json(tmp_path, capsys):
    code, out, _ = dualtta("report", str(DEMO), "--out", str(tmp_path), "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    table = next(table for table in found["tables"] if table["name"] == "results")
    assert table["rows"][0]["label"] == "No adapt"
    assert table["rows"][0]["values"][0]["mean"] == pytest.approx(62.31, abs=0.01)
    assert found["notes"] == ["2 cells on seed 1999 chose settings; they are not reported"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere"], "there is no folder nowhere"),
        ([str(RECORDS / "README.md")], "README.md is no Parquet file: name one that `dualtta pack` wrote"),
        ([str(DEMO), "--formats", "mdd"], "did you mean 'md'?"),
    ],
)
def test_bad_input_is_one_line_with_the_way_out(args, says, capsys, tmp_path):
    code, _, err = dualtta("report", *args, "--out", str(tmp_path / "r"), capsys=capsys)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "r").exists()


def test_a_report_of_failures_alone_has_exit_code_1(tmp_path, capsys):
    code, out, err = dualtta("report", str(UNWELL), "--out", str(tmp_path), capsys=capsys)
    assert code == 1
    assert "0 tables" in out
    assert "no record holds a result" in err
    assert "no record holds a result" in (tmp_path / "report.md").read_text()
