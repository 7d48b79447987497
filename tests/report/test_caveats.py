"""What a report says below its tables of a method that hardly learned, or that was run with earlier defaults."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from dualtta.cli import main
from dualtta.records.caveats import RESET, SKIPPED, UNUSED
from dualtta.report.page_tables import show_table
from dualtta.report.render import notes_text, tex, to_latex, to_markdown
from dualtta.report.terminal import to_terminal

GROUPS = ("0 red", "0 green", "1 red", "1 green")
AVERAGE = "ColoredMNIST, avg"
SETTINGS = {"name": "dualtta", "lr": 5e-4, "tau_sa": 0.4, "tau_sp": 0.7}
SUM = "computed with earlier defaults: reduction sum, now mean"


@pytest.fixture
def record(tmp_path, one_cell, make_rows, write_record, edit):
    """Write a record with these counts in its summary, and no selected sample where `unused`."""

    def write(method="sar", unused=False, seed=1, about=None, **counts):
        cell = replace(one_cell(seed=seed), method=method, settings={} if method == "source" else {"lr": 5e-4})
        rows = make_rows(0.5, 400, 4, seed)
        if unused:
            rows = {**rows, "plus": np.arange(400) < 3, "minus": np.zeros(400, bool)}
        folder = write_record(tmp_path, cell, rows, GROUPS, **(about or {}))
        edit(folder / "summary.json", **{"batches": 100, "updates": 100, "skips": 0, **counts})
        return tmp_path

    return write


def test_resets_skips_and_unused_samples_are_said_of_the_row_below_the_table(record, at, said, tables_of):
    folder = record("sar", recoveries=11, unused=True)
    record("tent", updates=89, skips=11)
    record("deyo", recoveries=10)
    table = tables_of(folder)["benchmarks"]
    assert f"{RESET} in 1 of 1 seeds" in said(table, at(table, "SAR", AVERAGE))
    assert f"{UNUSED} in 1 of 1 seeds" in said(table, at(table, "SAR", AVERAGE))
    assert f"{SKIPPED} in 1 of 1 seeds" in said(table, at(table, "Tent", AVERAGE))
    assert not any(text in said(table, at(table, "DeYO", AVERAGE)) for text in (RESET, SKIPPED, UNUSED))


def test_seeds_are_counted(record, at, said, tables_of):
    folder = record("sar", seed=1, recoveries=50)
    record("sar", seed=2)
    table = tables_of(folder)["benchmarks"]
    assert f"{RESET} in 1 of 2 seeds" in said(table, at(table, "SAR", AVERAGE))


@pytest.mark.parametrize("about", [{}, {"method_about": {"title": "No adapt", "learns": False}}])
def test_methods_that_never_learn_are_not_marked(about, record, tables_of):
    folder = record("source", unused=True, updates=0, about=about)
    assert not any(UNUSED in note for table in tables_of(folder).values() for note in table.notes.values())


def test_a_method_that_never_took_a_step_is_marked(record, at, said, tables_of):
    folder = record("eata", unused=True, updates=0)
    table = tables_of(folder)["benchmarks"]
    assert UNUSED in said(table, at(table, "EATA", AVERAGE))


def test_every_form_of_a_table_says_it(record, tables_of, capsys):
    folder = record("sar", recoveries=50)
    record("tent")
    table = tables_of(folder)["benchmarks"]
    note = f"{RESET} in 1 of 1 seeds"
    mark = next(mark for mark, text in table.notes.items() if text == note)
    assert note in to_markdown(table)
    assert tex(note) in to_latex(table)
    assert note in str(show_table(table, 1))
    assert f"{mark}: {note}" in notes_text(table)  # printed below the table in a terminal
    Console(width=160).print(to_terminal(table))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("SAR"))
    assert mark in line.split()[2]


# earlier defaults


def test_records_with_the_sum_are_marked_and_not_averaged_with_those_of_today(
    tmp_path, at, one_cell, said, tables_of, write_plan
):
    cells = [replace(one_cell(seed=seed), method="dualtta") for seed in (1, 2, 3)]
    earlier, today = ({"method": {**SETTINGS, "reduction": word}} for word in ("sum", "mean"))
    write_plan(tmp_path / "old", cells[:2], lambda cell: 0.6, **earlier)
    alone = tables_of(tmp_path / "old")["benchmarks"]
    assert SUM in said(alone, at(alone, "DualTTA", AVERAGE))
    write_plan(tmp_path / "new", cells[2:], lambda cell: 0.7, **today)
    both = tables_of(tmp_path / "old", tmp_path / "new")["benchmarks"]
    assert at(both, "DualTTA", AVERAGE).seeds == 1
    assert SUM not in said(both, at(both, "DualTTA", AVERAGE))
    assert at(both, "DualTTA, reduction sum", AVERAGE).seeds == 2


def test_a_sum_that_was_chosen_is_in_the_label(tmp_path, at, one_cell, said, tables_of, write_plan):
    cell = replace(one_cell(), method="dualtta", settings={"lr": 5e-4, "reduction": "sum"})
    write_plan(tmp_path, [cell], lambda cell: 0.6)
    table = tables_of(tmp_path)["benchmarks"]
    value = at(table, "DualTTA, reduction sum", AVERAGE)
    assert value.mean is not None
    assert "earlier" not in said(table, value)


def test_the_table_of_a_readme_marks_the_column_or_the_values(record, one_cell, write_plan, capsys):
    folder = record("sar", recoveries=50)
    sums = {"method": {**SETTINGS, "reduction": "sum"}}
    write_plan(folder, [replace(one_cell(), method="dualtta")], lambda cell: 0.6, 400, **sums)
    assert main(["results", str(folder), "--protocol", "paper"]) == 0
    printed = capsys.readouterr().out
    assert "SAR <sup>a</sup> | DualTTA <sup>b</sup>" in printed.splitlines()[0]
    assert f"<sup>a</sup> {RESET}. <sup>b</sup> {SUM}." in printed
