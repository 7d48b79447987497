"""The frame of a report: seeds, damaged and doubled records, and a note on every record that is left out."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dualtta.data.published import CORRUPTIONS
from dualtta.records.frame import load_records
from dualtta.report import contents_of, make_report, read_results
from dualtta.report.page import page
from dualtta.report.table import Row, Value, fewer_seeds
from dualtta.report.tables import build_tables

RECORDS = Path(__file__).parents[1] / "recorded"
DEMO, UNWELL = RECORDS / "demo", RECORDS / "unwell"
LEVELS = {
    "source": 0.5,
    "tent": 0.52,
    "sar": 0.53,
    "eata": 0.55,
    "deyo": 0.6,
    "dualtta": 0.63,
    "deyo_dual": 0.61,
    "eata_dual": 0.57,
}


def test_seeds_of_a_setting_are_one_value_and_tuning_is_apart():
    frame, notes = read_results([DEMO])
    seeds = frame.groupby("setting").seed.agg(tuple)
    assert len(seeds) == 8
    assert set(seeds) == {(2024, 2025, 2026)}
    records = load_records(DEMO)
    assert set(records[records.stage == "tuning"].seed) == {1999}
    assert not frame.notes
    assert notes == ["2 cells on seed 1999 chose settings; they are not reported"]


def test_means_and_deviations_follow_from_the_rows(at, said, tables_of):
    table = tables_of(DEMO)["colored-digits-resnet-tiny-mild"]
    frame, _ = read_results([DEMO])
    rows = [record.rows() for record in frame.query("dataset == 'colored_digits' and method == 'dualtta'").record]
    right = [row["prediction"] == row["label"] for row in rows]
    worst = [min(r[row["group"] == g].mean() for g in range(4)) for r, row in zip(right, rows, strict=True)]
    accuracy, group = at(table, "DualTTA, lr 0.008", "accuracy"), at(table, "DualTTA, lr 0.008", "worst group")
    assert accuracy.mean == pytest.approx(100 * np.mean([r.mean() for r in right]))
    assert accuracy.deviation == pytest.approx(100 * np.std([r.mean() for r in right], ddof=1))
    assert group.mean == pytest.approx(100 * np.mean(worst))
    assert (accuracy.seeds, accuracy.samples, accuracy.reported) == (3, 240, None)
    earlier = "computed with earlier defaults: reduction sum, now mean"
    assert said(table, accuracy) == f"a subset: at most 240 samples of a domain; {earlier}"


def test_rows_on_fewer_seeds_than_others_are_named_below_every_table(tmp_path, plan, tables_of, write_plan):
    cells = plan("benchmarks", datasets=("colored_mnist",), methods=("tent", "dualtta"), seeds=(1, 2, 3))
    write_plan(tmp_path, [cell for cell in cells if (cell.method, cell.seed) != ("tent", 3)], LEVELS)
    write_plan(tmp_path, plan("ablation-filters", datasets=("colored_mnist",), seeds=(1,)), LEVELS)
    tables = tables_of(tmp_path)
    assert "on fewer seeds than 3: Tent (2)" in tables["benchmarks"].notes.values()
    assert "on fewer seeds than 3: ColoredMNIST ✗ ✓ (1), ColoredMNIST ✓ ✗ (1)" in tables["ablation-filters"].notes.values()


def test_one_seed_has_no_deviation(tmp_path, at, plan, tables_of, write_plan):
    write_plan(tmp_path, plan("benchmarks", datasets=("colored_mnist",), methods=("tent",), seeds=(5,)), LEVELS)
    value = at(tables_of(tmp_path)["benchmarks"], "Tent", "ColoredMNIST, avg")
    assert value.deviation is None
    assert value.seeds == 1


def test_cells_without_a_result_are_named_with_the_reason():
    frame, _ = read_results([DEMO, UNWELL])
    assert frame.setting.nunique() == 8
    assert len(frame.notes) == 3
    text = "\n".join(frame.notes)
    assert "has no result: it was not finished" in text
    assert "has no result: ValueError: the model has no layer 'nowhere'" in text
    assert "it has format 0; this version of dualtta reads format 1" in text


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_rows(cell: Path, change) -> None:
    with np.load(cell / "rows.npz") as file:
        rows = dict(file)
    np.savez(cell / "rows.npz", **change(rows))


DAMAGE = {
    "rows.npz is cut": (lambda c: (c / "rows.npz").write_bytes((c / "rows.npz").read_bytes()[:900]), "rows.npz cannot be read"),
    "rows.npz is gone": (lambda c: (c / "rows.npz").unlink(), "rows.npz cannot be read"),
    "rows.npz is text": (lambda c: (c / "rows.npz").write_text("no archive"), "rows.npz cannot be read"),
    "a bit flips in rows.npz": (
        lambda c: (c / "rows.npz").write_bytes(
            bytes(b ^ (255 if 400 < i < 440 else 0) for i, b in enumerate((c / "rows.npz").read_bytes()))
        ),
        "rows.npz cannot be read",
    ),
    "a column is missing": (
        lambda c: edit_rows(c, lambda r: {k: v for k, v in r.items() if k != "label"}),
        "rows.npz lacks label",
    ),
    "a column is short": (lambda c: edit_rows(c, lambda r: {**r, "label": r["label"][:-1]}), "not equally long"),
    "no rows": (lambda c: edit_rows(c, lambda r: {k: v[:0] for k, v in r.items()}), "rows.npz has no samples"),
    "rows are words": (lambda c: edit_rows(c, lambda r: {**r, "label": r["label"].astype(str)}), "no numbers in label"),
    "rows are lost": (
        lambda c: edit_rows(c, lambda r: {k: v[:-1] for k, v in r.items()}),
        "says 240 samples, rows.npz has 239",
    ),
    "a prediction is changed": (
        lambda c: edit_rows(
            c, lambda r: {**r, "prediction": np.where(np.arange(240) == 0, 1 - r["prediction"] % 2, r["prediction"])}
        ),
        "in summary.json does not follow from rows.npz",
    ),
    "another sample count": (lambda c: edit(c / "summary.json", samples=7), "says 7 samples"),
    "another accuracy": (lambda c: edit(c / "summary.json", accuracy=0.99), "accuracy in summary.json does not follow"),
    "NaN": (lambda c: edit(c / "summary.json", worst_group=float("nan")), "worst_group in summary.json does not follow"),
    "a word for a number": (lambda c: edit(c / "summary.json", accuracy="0.5"), "accuracy in summary.json does not follow"),
    "a missing key": (lambda c: (c / "summary.json").write_text("{}"), "it lacks summary.json: batches"),
    "a list for a summary": (lambda c: (c / "summary.json").write_text("[]"), "it lacks the contents of summary.json"),
    "not UTF-8": (lambda c: (c / "summary.json").write_bytes(b'{"accuracy": "\xff\xfe"}'), "cannot be read"),
    "an empty file": (lambda c: (c / "cell.json").write_bytes(b""), "cannot be read"),
    "no settings": (lambda c: edit(c / "cell.json", cell=None), "it lacks the settings"),
    "no seed": (
        lambda c: edit(c / "cell.json", cell={**json.loads((c / "cell.json").read_text())["cell"], "seed": None}),
        "cell.seed",
    ),
    "other settings than the key's": (
        lambda c: edit(c / "cell.json", cell={**json.loads((c / "cell.json").read_text())["cell"], "seed": 2030}),
        "it lacks the settings that give its key",
    ),
    "no names of domains": (lambda c: edit(c / "cell.json", domains=[]), "domains that cell.json does not name"),
    "thresholds that are words": (
        lambda c: edit(c / "cell.json", method={**json.loads((c / "cell.json").read_text())["method"], "tau_sa": "high"}),
        "cannot be summarised",
    ),
    "NaN in the rows": (
        lambda c: edit_rows(c, lambda r: {**r, "confidence": np.full_like(r["confidence"], np.nan)}),
        "calibration_error in summary.json does not follow",
    ),
    "another stage": (lambda c: edit(c / "cell.json", stage="trial"), "there is no stage 'trial'"),
}


@pytest.fixture(scope="module")
def undamaged():
    return read_results([DEMO])[0]


@pytest.fixture(scope="module")
def victim(undamaged):
    """The record that the tests damage."""
    return undamaged.query("dataset == 'colored_digits' and method == 'dualtta'").key.iloc[0]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_left_out_and_named_and_all_others_stay(damage, undamaged, victim, tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    harm, says = DAMAGE[damage]
    harm(tmp_path / "demo" / "cells" / victim)
    frame, _ = read_results([tmp_path / "demo"])
    assert len(frame) == len(undamaged) - 1
    assert [note for note in frame.notes if victim in note and says in note], frame.notes
    assert len(frame.notes) == 1


@pytest.mark.slow
def test_a_report_names_the_record_that_is_left_out_and_compares_the_others(victim, tmp_path, at):
    shutil.copytree(DEMO, tmp_path / "demo")
    (tmp_path / "demo" / "cells" / victim / "rows.npz").unlink()
    report = make_report([tmp_path / "demo"], formats=())
    assert victim in (report.out / "report.md").read_text()
    table = next(table for table in report.tables if table.name == "colored-digits-resnet-tiny-mild")
    assert at(table, "DualTTA, lr 0.008", "accuracy").seeds == 2
    assert at(table, "DeYO, lr 0.008", "accuracy").seeds == 3
    assert not any(value.best for row in table.rows for value in row.values)  # two seeds against three


def test_a_record_that_holds_something_strange_leaves_all_others_in_the_report(tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    strange, huge, deep = [record.folder for record in read_results([tmp_path / "demo"])[0].record][:3]
    edit(strange / "cell.json", provenance="none", title=["a"], data=3, threads={})
    edit(huge / "done", peak_memory_mb=10**400, seconds=-(10**400))
    (deep / "cell.json").write_text("[" * 100_000)
    frame, notes = read_results([tmp_path / "demo"])
    assert len(frame) == 23
    (note,) = frame.notes
    assert deep.name in note
    assert strange.name in page(contents_of("demo", frame, build_tables(frame), notes))


def test_a_folder_of_failures_gives_a_report_that_says_so():
    frame, notes = read_results([UNWELL])
    assert len(notes) == 4
    assert notes[-1] == "no record holds a result: there is nothing to show"
    assert build_tables(frame) == []


def test_no_folder_and_no_records_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere: name one that `dualtta run` wrote"):
        load_records([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="holds no records: name a folder with cells in it"):
        load_records([tmp_path])


def test_a_folder_of_result_folders_is_read_whole(tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    assert read_results([tmp_path])[0].setting.nunique() == 8


def test_a_record_in_two_folders_is_counted_once_and_named(tmp_path):
    shutil.copytree(DEMO, tmp_path / "copy")
    frame, _ = read_results([DEMO, tmp_path / "copy"])
    assert len(frame) == 24
    assert frame.notes == (f"26 records of {tmp_path / 'copy'} are also in {DEMO}: they are counted once",)


def test_other_results_of_the_same_cell_stay_apart_by_their_folder(tmp_path, one_cell, tables_of, write_plan):
    for name, accuracy in (("old", 0.5), ("new", 0.6)):
        write_plan(tmp_path / name, [one_cell()], lambda cell, accuracy=accuracy: accuracy)
    labels = [row.label for row in tables_of(tmp_path / "old", tmp_path / "new")["benchmarks"].rows]
    assert "Tent, in old" in labels
    assert "Tent, in new" in labels


def test_seeds_on_other_sample_counts_are_never_averaged(tmp_path, at, one_cell, tables_of, write_plan):
    for seed, samples in ((1, 100), (2, 100), (3, 90)):
        write_plan(tmp_path, [one_cell(seed=seed)], LEVELS, samples)
    table = tables_of(tmp_path)["benchmarks"]
    assert at(table, "Tent, 100 samples", "ColoredMNIST, avg").seeds == 2
    assert at(table, "Tent, 90 samples", "ColoredMNIST, avg").seeds == 1
    assert at(table, "Tent", "ColoredMNIST, avg").mean is None


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"cost": {"device": "cuda"}}, "different devices"),
        ({"provenance": {"versions": {"torch": "3.0"}}}, "different versions of packages"),
        ({"provenance": {"versions": {"dualtta": "0.1.0"}, "commit": "f00"}}, "different commits of dualtta"),
        ({"threads": 8}, "different numbers of threads"),
        ({"model": {"card": {"weights": {"sha256": "f00"}}, "weights_hash": ""}}, "different source weights"),
    ],
)
def test_what_seeds_differ_in_though_it_was_not_chosen_is_marked(
    about, says, tmp_path, at, one_cell, said, tables_of, write_plan
):
    write_plan(tmp_path, [one_cell()], LEVELS)
    write_plan(tmp_path, [one_cell(seed=2)], LEVELS, **about)
    table = tables_of(tmp_path)["benchmarks"]
    value = at(table, "Tent", "ColoredMNIST, avg")
    assert value.seeds == 2
    assert says in said(table, value)


def test_other_weights_are_another_row(tmp_path, at, plan, said, tables_of, write_plan):
    cells = [replace(c, weights="a.pt") for c in plan("imagenet-c", methods=("tent",), seeds=(1,), backbone="resnet50")]
    write_plan(tmp_path, [replace(cell, weights_hash="aaaa") for cell in cells], LEVELS)
    write_plan(tmp_path, [replace(cell, weights_hash="bbbb", seed=2) for cell in cells], LEVELS)
    tables = tables_of(tmp_path)
    both = [at(tables[name], "Tent", "avg") for name in ("imagenet-c-resnet50", "imagenet-c-resnet50-2")]
    assert [value.seeds for value in both] == [1, 1]
    assert "other weights than the published ones (a file, sha256 aaaa)" in said(tables["imagenet-c-resnet50"], both[0])


def test_passes_over_the_same_images_are_said_in_words_and_in_the_command(tmp_path, at, plan, said, tables_of, write_plan):
    cells = plan("benchmarks", datasets=("colored_mnist",), methods=("tent", "dualtta"), seeds=(1,), repeats=4)
    write_plan(tmp_path, cells, LEVELS)
    table = tables_of(tmp_path)["benchmarks"]
    assert "4 passes over the same images" in said(table, at(table, "Tent", "ColoredMNIST, avg"))
    assert "--repeats 4" in table.command


@pytest.mark.slow
def test_many_tasks_stand_below_each_other_and_few_side_by_side(tmp_path, plan, tables_of, write_plan):
    cells = plan("cifar10-c", methods=("tent", "dualtta"), seeds=(1,))
    write_plan(tmp_path, cells, LEVELS)
    table = tables_of(tmp_path)["results"]
    assert table.header[0] == "where"
    assert len(table.rows) == len(cells) / 2
    few = tables_of(DEMO)["results"]
    assert few.header[0] == "method"
    for corruption in CORRUPTIONS:
        assert any(corruption in row.label for row in table.rows)


def test_a_note_names_few_rows_and_counts_the_rest():
    rows = [Row(f"row {i}", (Value(1.0, seeds=1 + (i == 0)),)) for i in range(20)]
    (note,) = fewer_seeds(rows)
    assert note.startswith("on fewer seeds than 2: row 1 (1), ")
    assert note.endswith("row 8 (1), and 11 more rows")
