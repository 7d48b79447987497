"""Reports: numbers that follow from the rows, tables as text, and a word on everything that cannot be believed."""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_records import make_rows, write_plan, write_record

from dualtta.experiments import EXPERIMENTS
from dualtta.grid import Cell
from dualtta.report import make_report, notes
from dualtta.report.benches import SHIFTS
from dualtta.report.claims import CLAIMS
from dualtta.report.gather import gather
from dualtta.report.paper import claims, contradictions, paper, reported
from dualtta.report.render import common, notes_text, tex, to_csv, to_latex, to_markdown
from dualtta.report.table import Row, Table, Value
from dualtta.report.tables import build_tables
from dualtta.report.terminal import pieces, to_terminal
from dualtta.setups import Options

RECORDS = Path(__file__).parent / "records"
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


def tables_of(*folders: Path) -> dict[str, Table]:
    return {table.name: table for table in build_tables(gather(folders))}


def at(table: Table, label: str, column: str) -> Value:
    row = next(row for row in table.rows if row.label == label)
    found = row.values[table.header.index(column) - 1]
    assert isinstance(found, Value)
    return found


def said(table: Table, value: Value) -> str:
    """All notes that a value is marked with."""
    return "; ".join(table.notes[mark] for mark in value.marks)


def plan(experiment: str, **options) -> list[Cell]:
    cells = EXPERIMENTS[experiment](Options(**{"seeds": (2024, 2025), **options}))
    assert isinstance(cells, list)
    return cells


# what is gathered


def test_seeds_of_a_setting_are_one_value_and_tuning_is_apart():
    collected = gather([DEMO])
    assert len(collected.settings) == 8
    assert {setting.seeds for setting in collected.settings} == {(2024, 2025, 2026)}
    assert {seed for setting in collected.tuning for seed in setting.seeds} == {1999}
    assert not collected.notes
    assert notes(collected) == ["2 cells on seed 1999 chose settings; they are not reported"]


def test_means_and_deviations_follow_from_the_rows():
    table = tables_of(DEMO)["colored-digits-resnet-tiny-mild"]
    setting = next(s for s in gather([DEMO]).settings if (s.dataset, s.method) == ("colored_digits", "dualtta"))
    rows = [record.rows() for record in setting.records]
    right = [row["prediction"] == row["label"] for row in rows]
    worst = [min(r[row["group"] == g].mean() for g in range(4)) for r, row in zip(right, rows, strict=True)]
    accuracy, group = at(table, "DualTTA, lr 0.008", "accuracy"), at(table, "DualTTA, lr 0.008", "worst group")
    assert accuracy.mean == pytest.approx(100 * np.mean([r.mean() for r in right]))
    assert accuracy.deviation == pytest.approx(100 * np.std([r.mean() for r in right], ddof=1))
    assert group.mean == pytest.approx(100 * np.mean(worst))
    assert (accuracy.seeds, accuracy.samples, accuracy.reported) == (3, 240, None)
    assert said(table, accuracy) == "a subset: at most 240 samples of a domain"


def test_one_seed_has_no_deviation(tmp_path):
    write_plan(tmp_path, plan("benchmarks", datasets=("colored_mnist",), methods=("tent",), seeds=(5,)), LEVELS)
    value = at(tables_of(tmp_path)["benchmarks"], "Tent", "ColoredMNIST, avg")
    assert value.deviation is None
    assert value.seeds == 1


def test_cells_without_a_result_are_named_with_the_reason():
    collected = gather([DEMO, UNWELL])
    assert len(collected.settings) == 8
    assert len(collected.notes) == 3
    text = "\n".join(collected.notes)
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
    "no rows": (lambda c: edit_rows(c, lambda r: {k: v[:0] for k, v in r.items()}), "rows.npz is empty"),
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
    "a list for a summary": (lambda c: (c / "summary.json").write_text("[]"), "it lacks all that belongs into summary.json"),
    "not UTF-8": (lambda c: (c / "summary.json").write_bytes(b'{"accuracy": "\xff\xfe"}'), "cannot be read"),
    "an empty file": (lambda c: (c / "cell.json").write_bytes(b""), "cannot be read"),
    "no settings": (lambda c: edit(c / "cell.json", cell=None), "it lacks the settings"),
    "no seed": (
        lambda c: edit(c / "cell.json", cell={**json.loads((c / "cell.json").read_text())["cell"], "seed": None}),
        "cell.seed",
    ),
    "other settings than the key's": (
        lambda c: edit(c / "cell.json", cell={**json.loads((c / "cell.json").read_text())["cell"], "seed": 2030}),
        "the settings that its key is made of",
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


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_left_out_and_named_and_all_others_stay(damage, tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    collected = gather([DEMO])
    victim = (
        next(s for s in collected.settings if (s.dataset, s.method) == ("colored_digits", "dualtta")).records[0].folder.name
    )
    harm, says = DAMAGE[damage]
    harm(tmp_path / "demo" / "cells" / victim)
    report = make_report([tmp_path / "demo"], formats=())
    assert len(report.collected.records) == len(collected.records) - 1
    assert [note for note in report.collected.notes if victim in note and says in note], report.collected.notes
    assert len(report.collected.notes) == 1
    assert victim in (report.out / "report.md").read_text()
    table = next(table for table in report.tables if table.name == "colored-digits-resnet-tiny-mild")
    assert at(table, "DualTTA, lr 0.008", "accuracy").seeds == 2
    assert at(table, "DeYO, lr 0.008", "accuracy").seeds == 3
    assert not any(value.best for row in table.rows for value in row.values)  # two seeds against three


def test_a_folder_of_failures_gives_a_report_that_says_so():
    report_notes = notes(gather([UNWELL]))
    assert len(report_notes) == 4
    assert report_notes[-1] == "no record holds a result: there is nothing to show"
    assert build_tables(gather([UNWELL])) == []


def test_no_folder_and_no_records_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere: name one that `dualtta run` wrote"):
        gather([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="holds no records: name a folder with cells in it"):
        gather([tmp_path])


def test_a_folder_of_result_folders_is_read_whole(tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    assert len(gather([tmp_path]).settings) == 8


def test_a_record_in_two_folders_is_counted_once_and_named(tmp_path):
    shutil.copytree(DEMO, tmp_path / "copy")
    collected = gather([DEMO, tmp_path / "copy"])
    assert len(collected.records) == 24
    assert collected.notes == (f"26 records of {tmp_path / 'copy'} are also in {DEMO}: they are counted once",)


def one_cell(**changes) -> Cell:
    return replace(plan("benchmarks", datasets=("colored_mnist",), methods=("tent",), seeds=(1,))[0], **changes)


def test_other_results_of_the_same_cell_stay_apart_by_their_folder(tmp_path):
    for name, accuracy in (("old", 0.5), ("new", 0.6)):
        write_plan(tmp_path / name, [one_cell()], lambda cell, accuracy=accuracy: accuracy)
    labels = [row.label for row in tables_of(tmp_path / "old", tmp_path / "new")["benchmarks"].rows]
    assert "Tent, in old" in labels
    assert "Tent, in new" in labels


def test_seeds_on_other_sample_counts_are_never_averaged(tmp_path):
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
def test_what_seeds_differ_in_though_nobody_chose_it_is_marked(about, says, tmp_path):
    write_plan(tmp_path, [one_cell()], LEVELS)
    write_plan(tmp_path, [one_cell(seed=2)], LEVELS, **about)
    table = tables_of(tmp_path)["benchmarks"]
    value = at(table, "Tent", "ColoredMNIST, avg")
    assert value.seeds == 2
    assert says in said(table, value)


def test_other_weights_are_another_row(tmp_path):
    cells = [replace(c, weights="a.pt") for c in plan("imagenet-c", methods=("tent",), seeds=(1,), backbone="resnet50")]
    write_plan(tmp_path, [replace(cell, weights_hash="aaaa") for cell in cells], LEVELS)
    write_plan(tmp_path, [replace(cell, weights_hash="bbbb", seed=2) for cell in cells], LEVELS)
    tables = tables_of(tmp_path)
    both = [at(tables[name], "Tent", "avg") for name in ("imagenet-c-resnet50", "imagenet-c-resnet50-2")]
    assert [value.seeds for value in both] == [1, 1]
    assert "other weights than the published ones (a file, sha256 aaaa)" in said(tables["imagenet-c-resnet50"], both[0])


# the paper's layouts


@pytest.fixture(scope="module")
def pacs(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("pacs")
    write_plan(out, plan("benchmarks", datasets=("pacs",), methods=("source", "tent", "dualtta")), LEVELS)
    return out


def test_table_1_has_the_papers_rows_and_columns_with_its_numbers_beside(pacs):
    table = tables_of(pacs)["benchmarks"]
    assert [row.label for row in table.rows] == ["No adapt", "Tent", "SAR", "EATA", "DeYO", "DualTTA"]
    assert table.header == (
        *("method", "ColoredMNIST, avg", "ColoredMNIST, worst", "Waterbirds, avg", "Waterbirds, worst", "Office-Home", "PACS"),
    )
    dual, deyo = at(table, "DualTTA", "PACS"), at(table, "DeYO", "PACS")
    assert (dual.mean, dual.deviation, dual.seeds, dual.samples) == (pytest.approx(63), pytest.approx(0), 2, 1200)
    assert (dual.reported, dual.difference) == (76.02, pytest.approx(-13.02))
    assert dual.best
    assert not at(table, "Tent", "PACS").best
    assert (deyo.mean, deyo.reported, deyo.difference) == (None, 75.16, None)
    assert table.notes["–"] == "not measured: there is no record"  # noqa: RUF001
    assert table.command == "dualtta run benchmarks --root DATA --seeds 2024,2025"


def test_table_1_as_text(pacs):
    lines = to_markdown(tables_of(pacs)["benchmarks"]).splitlines()
    assert lines[0] == "## Table 1: accuracy under domain shift, %"
    assert lines[2].split(" | ")[-2:] == ["Office-Home", "PACS |"]
    tent, dual = (next(line for line in lines if line.startswith(f"| {name} |")).split(" | ") for name in ("Tent", "DualTTA"))
    assert tent[-1] == "52.00 ± 0.00<br><sub>paper 74.96, -22.96</sub> |"
    assert tent[-2] == "– <sup>a</sup><br><sub>paper 61.08</sub>"  # noqa: RUF001
    assert dual[-1] == "**63.00 ± 0.00**<br><sub>paper 76.02, -13.02</sub> |"
    assert "- a: Office-Home: the second best is Tent, 0.43 behind, not DeYO" in lines


def test_all_pairs_stand_beside_each_other(pacs):
    table = tables_of(pacs)["pairs-pacs"]
    assert len(table.header) == 14
    assert at(table, "Tent", "photo → sketch").mean == pytest.approx(52)
    assert at(table, "Tent", "avg").reported == 74.96
    assert len(SHIFTS["pacs"].units) + len(SHIFTS["office_home"].units) == 24


def test_an_average_that_lacks_cells_is_marked_and_compared_with_nothing(pacs, tmp_path):
    shutil.copytree(pacs, tmp_path / "pacs")
    collected = gather([tmp_path / "pacs"])
    gone = next(s for s in collected.settings if s.method == "dualtta" and s.target_domains == ("sketch",))
    for record in gone.records:
        shutil.rmtree(record.folder)
    table = tables_of(tmp_path / "pacs")["benchmarks"]
    value = at(table, "DualTTA", "PACS")
    assert said(table, value) == "the mean of 11 of 12 pairs; the others have no record"
    assert value.mean == pytest.approx(63)
    assert value.difference is None
    assert not value.best
    assert at(table, "Tent", "PACS").best  # of those that are whole


def test_seeds_that_not_all_pairs_have_are_left_out_and_named(pacs, tmp_path):
    shutil.copytree(pacs, tmp_path / "pacs")
    tent = next(s for s in gather([tmp_path / "pacs"]).settings if s.method == "tent")
    shutil.rmtree(tent.records[1].folder)
    table = tables_of(tmp_path / "pacs")["benchmarks"]
    value = at(table, "Tent", "PACS")
    assert value.seeds == 1
    assert said(table, value) == "seeds 2024 alone: the others lack some of the pairs"


def test_pairs_without_a_common_seed_have_no_average_and_it_is_said_why(tmp_path):
    cells = plan("benchmarks", datasets=("pacs",), methods=("tent",), seeds=(1,))
    write_plan(tmp_path, [replace(cell, seed=number) for number, cell in enumerate(cells)], LEVELS)
    table = tables_of(tmp_path)["benchmarks"]
    value = at(table, "Tent", "PACS")
    assert value.mean is None
    assert said(table, value) == "the pairs have no seed in common"


def test_an_empty_quadrant_is_told_from_a_missing_record(tmp_path):
    rows = make_rows(0.5, 100)
    write_record(tmp_path, Cell("digits", "resnet_tiny", "dualtta"), {**rows, "drop_alter": np.zeros(100)})
    table = tables_of(tmp_path)["quadrants"]
    value = at(table, "digits, resnet_tiny, mild: DualTTA", "D+ (falls, holds), correct")
    assert value.mean is None
    assert said(table, value) == "there are records, but no sample to count"
    assert "–" not in table.notes  # noqa: RUF001


def test_subsets_other_models_and_other_starts_are_marked(tmp_path):
    cells = plan("benchmarks", datasets=("waterbirds",), methods=("tent",), limit=50, batch_size=16, backbone="resnet18")
    cells = [replace(cell, source=replace(cell.source, weights=None)) for cell in cells]
    write_plan(tmp_path, cells, LEVELS)
    table = tables_of(tmp_path)["benchmarks"]
    text = said(table, at(table, "Tent", "Waterbirds, worst"))
    assert "a subset: at most 50 samples of a domain" in text
    assert "resnet18 instead of the paper's resnet50" in text
    assert "batches of 16 instead of the paper's 64" in text
    assert "the source model starts from random weights" in text
    assert table.command == (
        "dualtta run benchmarks --root DATA --seeds 2024,2025 --limit 50 --batch-size 16 --backbone resnet18"
    )


@pytest.mark.parametrize(("images", "marked"), [(2000, True), (50_000, False)])
def test_a_copy_that_lacks_published_images_is_marked(images, marked, tmp_path):
    cells = plan("imagenet-c", methods=("tent",), seeds=(1,), backbone="resnet50")
    write_plan(tmp_path, cells, LEVELS, data={"dataset": "imagenet_c", "images": images})
    table = tables_of(tmp_path)["imagenet-c-resnet50"]
    says = "a copy of the dataset with 2,000 images; 50,000 were published"
    assert (said(table, at(table, "Tent", "Fog")) == says) is marked
    assert ("2,000" in str(table.notes)) is marked


def test_a_subset_and_the_whole_are_two_tables(tmp_path):
    for limit in (None, 50):
        write_plan(tmp_path, plan("benchmarks", datasets=("colored_mnist",), methods=("tent",), limit=limit), LEVELS)
    tables = tables_of(tmp_path)
    assert tables["benchmarks"].title.endswith("(as in the paper)")
    assert tables["benchmarks-2"].title.endswith("(a subset: at most 50 samples of a domain)")


def test_the_two_protocols_are_told_apart(tmp_path):
    for protocol in ("paper", "own"):
        write_plan(
            tmp_path, plan("benchmarks", datasets=("colored_mnist",), methods=("deyo", "dualtta"), protocol=protocol), LEVELS
        )
    table = tables_of(tmp_path)["benchmarks"]
    labels = [row.label for row in table.rows]
    assert labels.count("DeYO") == labels.count("DeYO, own rate") == labels.count("DualTTA") == 1
    assert at(table, "DeYO, own rate", "ColoredMNIST, avg").reported is None  # the paper has one rate for all
    assert at(table, "DeYO", "ColoredMNIST, avg").reported == 77.98
    assert any(note.startswith("own rate: the learning rate of the authors' code") for note in table.notes.values())


def test_imagenet_c_has_a_table_a_backbone_with_the_papers_contradictions(tmp_path):
    write_plan(tmp_path, plan("imagenet-c", methods=("source", "dualtta"), seeds=(1,)), LEVELS)
    tables = tables_of(tmp_path)
    group = tables["imagenet-c-resnet50_gn"]
    assert group.header[:4] == ("method", "Gauss.", "Shot", "Impul.")
    assert group.header[-1] == "avg"
    value = at(group, "DualTTA", "avg")
    assert value.reported == 41.83
    assert "the printed average 41.83 is not the mean of its 15 cells, 37.92" in said(group, value)
    assert said(group, at(group, "DualTTA", "Fog")) == ""
    plain = tables["imagenet-c-resnet50"]
    assert "0.81 on ImageNet-C mild, 32.11 in the imbalanced table" in said(plain, at(plain, "No adapt", "avg"))
    assert at(tables["imagenet-c-vit_base_patch16_224"], "DualTTA", "avg").reported == 63.0


def test_the_wild_table_averages_corruptions_and_pools_mixed_ones(tmp_path):
    cells = plan("wild", methods=("sar",), seeds=(1,), backbone="resnet50")
    write_plan(tmp_path, cells, lambda cell: 0.4 if cell.scenario == "mixed" else 0.6)
    table = tables_of(tmp_path)["wild"]
    assert at(table, "SAR", "imbalanced, ResNet50-BN").mean == pytest.approx(60)
    assert at(table, "SAR", "imbalanced, ResNet50-BN").samples == 1500
    assert at(table, "SAR", "mixed, ResNet50-BN").mean == pytest.approx(40)
    assert at(table, "SAR", "mixed, ResNet50-BN").reported == 26.1
    assert at(table, "SAR", "mixed, ViTBase-LN").mean is None


def test_images_corrupted_here_are_told_from_the_published_files(tmp_path):
    cells = plan("imagenet-c", methods=("tent",), seeds=(1,), backbone="resnet50")
    write_plan(tmp_path, cells, LEVELS, data={"dataset": "imagenet_c", "drawn": "on the fly"})
    table = tables_of(tmp_path)["imagenet-c-resnet50"]
    assert "corrupted on the fly" in said(table, at(table, "Tent", "Frost"))


def test_the_filter_ablation_in_the_papers_layout(tmp_path):
    level = {(): 0.8, ("filter_sa",): 0.7, ("filter_sp",): 0.75}
    cells = plan("ablation-filters", datasets=("colored_mnist",))
    write_plan(tmp_path, cells, lambda cell: level[tuple(key for key in cell.settings if key.startswith("filter"))], 1000)
    tables = tables_of(tmp_path)
    rows = tables["ablation-filters"].rows
    assert [row.values[:2] for row in rows] == [("✓", "✓"), ("✗", "✓"), ("✓", "✗")]
    values = [row.values[2] for row in rows]
    assert [value.mean for value in values] == pytest.approx([80, 70, 75], abs=0.5)
    assert [value.reported for value in values] == [82.12, 74.63, 79.17]
    assert [value.best for value in values] == [True, False, False]
    assert "are those of the improved DeYO" in said(tables["ablation-filters"], values[2])
    assert [row.label for row in tables["benchmarks"].rows].count("DualTTA") == 1
    assert not any("filter" in row.label for row in tables["benchmarks"].rows)
    assert "settings" not in tables


def test_the_ablation_of_likely_incorrect_samples_in_the_papers_layout(tmp_path):
    cells = plan("ablation-incorrect", datasets=("colored_mnist",))
    write_plan(tmp_path, cells, lambda cell: 0.5 if "lam" in cell.settings else LEVELS[cell.method], 1000)
    table = tables_of(tmp_path)["ablation-incorrect"]
    assert [(row.label, row.values[0]) for row in table.rows] == [
        *(("DualTTA", "✓"), ("DualTTA", "✗"), ("DeYO", "✗"), ("DeYO", "✓"), ("EATA", "✗"), ("EATA", "✓")),
    ]
    values = [row.values[1] for row in table.rows]
    assert [value.reported for value in values] == [82.12, 80.65, 77.98, 79.17, 60.65, 62.31]
    assert [value.mean for value in values] == pytest.approx([63, 50, 60, 61, 55, 57], abs=0.6)


def test_data_efficiency_is_in_shares_of_all_samples(tmp_path):
    cells = plan("efficiency", datasets=("colored_mnist",), seeds=(1,), methods=("deyo",))
    write_plan(tmp_path, cells, LEVELS)
    table = tables_of(tmp_path)["efficiency"]
    rows = gather([tmp_path]).records[0].rows()
    right = rows["prediction"] == rows["label"]
    used = at(table, "DeYO", "ColoredMNIST, %adapt")
    rightly = at(table, "DeYO", "ColoredMNIST, %corr-adapt")
    assert used.mean == pytest.approx(100 * (rows["plus"] | rows["minus"]).mean())
    assert rightly.mean == pytest.approx(100 * ((rows["plus"] & right) | (rows["minus"] & ~right)).mean())
    assert (used.reported, rightly.reported) == (18.8, 14.4)


def test_thresholds_are_a_grid_against_deyo_on_the_same_seed(tmp_path):
    cells = plan("sensitivity", datasets=("colored_mnist",), seeds=(1,))
    cells = [c for c in cells if c.settings.get("tau_sa", 0.1) in (0.1, 0.4) and c.settings.get("tau_sp", 0.7) in (0.7, 0.9)]
    cells.append(replace(next(c for c in cells if c.method == "deyo"), seed=2))
    write_plan(tmp_path, cells, lambda cell: 0.9 if cell.seed == 2 else cell.settings.get("tau_sa", 0.2) / 2 + 0.4, 1000)
    table = tables_of(tmp_path)["sensitivity-colored_mnist"]
    assert table.header == ("tau_sa \\ tau_sp", "0.7", "0.9")
    assert [row.label for row in table.rows] == ["0.1", "0.4"]
    assert at(table, "0.4", "0.9").mean == pytest.approx(60, abs=1)
    assert [v.best for row in table.rows for v in row.values].count(True) in (1, 2)
    assert "DualTTA is above it at 2 of 4 pairs of thresholds (the paper: at all)" in table.notes["(1)"]


def test_quadrants_of_impulse_noise_stand_beside_the_papers(tmp_path):
    cells = plan("quadrants", seeds=(1,))
    write_plan(tmp_path, cells, LEVELS, 500)
    table = tables_of(tmp_path)["quadrants"]
    label = "ImageNet-C, ResNet50-BN, impulse noise: DualTTA, drop relative"
    row = next(row for row in table.rows if row.label == label)
    assert row.values[0] == "relative"
    corner = gather([tmp_path]).records[0].summary["quadrants"]["stays_breaks"]
    assert at(table, label, "D- (stays, breaks), samples").mean == pytest.approx(100 * corner["count"] / 500)
    assert at(table, label, "D- (stays, breaks), correct").reported == 18
    assert at(table, label, "D+ (falls, holds), correct").reported == 71
    assert len(table.rows) == 2  # absolute and relative; no mean over 15 corruptions of one


def test_sweeps_stand_beside_the_method_as_it_is_in_order(tmp_path):
    cells = plan("sweep-lambda", datasets=("colored_mnist",), seeds=(1,))
    cells += plan("benchmarks", datasets=("colored_mnist",), methods=("dualtta",), seeds=(1,))
    write_plan(tmp_path, cells, LEVELS)
    labels = [row.label for row in tables_of(tmp_path)["settings"].rows]
    assert labels == ["DualTTA", "DualTTA, lam 0.25", "DualTTA, lam 0.5", "DualTTA, lam 1", "DualTTA, lam 2"]


def test_claims_stand_beside_their_measurement_and_the_papers_own_tables(tmp_path):
    write_plan(tmp_path, plan("benchmarks", datasets=("pacs",), methods=("deyo", "dualtta")), LEVELS)
    table = tables_of(tmp_path)["claims"]
    assert set(CLAIMS) == set(claims())
    assert len(table.rows) == len(claims())
    row = next(row for row in table.rows if row.label == "DualTTA over DeYO on PACS")
    assert row.values[:2] == ("0.96", "0.86")
    gain = at(table, row.label, "measured")
    assert gain.mean == pytest.approx(3)
    assert gain.difference == pytest.approx(3 - 0.96)
    assert "PACS 0.96 (0.86)" in said(table, gain)
    assert at(table, "DualTTA over DeYO on PACS, photo → sketch", "measured").mean == pytest.approx(3)
    assert at(table, "DualTTA over DeYO on Waterbirds", "measured").mean is None
    share = at(table, "samples that DeYO uses on PACS", "measured")
    assert share.reported == 28
    assert share.mean is not None


def test_what_the_paper_claims_is_what_its_tables_say_but_for_the_contradictions():
    """Every claim that its own tables do not bear out has a contradiction that says so."""
    from dualtta.report.claims import Printed

    checked = 0
    for key, (_, claim) in CLAIMS.items():
        printed, text = claim(Printed()), claims()[key]
        if printed and isinstance(text, int | float) and abs(printed[0] - text) > 0.5:
            assert contradictions("claims", key), key
        checked += printed is not None
    assert checked >= 15


def test_the_papers_numbers_are_those_of_the_shared_file():
    shared = Path(__file__).resolve().parents[2] / "shared" / "paper" / "tables.json"
    if not shared.is_file():
        pytest.skip("the paper's tables are not beside this source tree")
    told, ours = json.loads(shared.read_text()), dict(paper())
    assert [entry["text"] for entry in ours.pop("inconsistencies")] == told.pop("inconsistencies")
    for name, table in told.items():
        assert ours[name] == table


def test_the_paper_is_looked_up_by_our_names():
    assert reported("ablation-filters", "dualtta", "office_home", column="altering_only").value == 59.7
    assert reported("ablation-incorrect", "dualtta without D-", "pacs").value == 75.52
    assert reported("quadrants", column="likely_incorrect.correct").value == 18
    assert reported("benchmarks", "norm", "pacs") is None
    assert reported("demo", "tent") is None


# everything else


def test_the_demo_as_text():
    assert to_markdown(tables_of(DEMO)["results"]) == (RECORDS / "results.md").read_text()


def test_every_setting_is_in_a_table(tmp_path):
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


def test_a_collapse_is_said(tmp_path):
    folder = write_record(tmp_path, one_cell(), make_rows(0.5, 100, 4), ("a", "b", "c", "d"))
    edit(folder / "summary.json", collapsing=2)
    table = tables_of(tmp_path)["benchmarks"]
    assert "collapsed onto few classes in 1 of 1 seeds" in said(table, at(table, "Tent", "ColoredMNIST, avg"))


def test_cost_counts_forwards_and_names_the_device():
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


def test_csv_has_a_line_a_value_in_full_precision():
    rows = list(csv.DictReader(io.StringIO(to_csv(NASTY))))
    assert len(rows) == 2
    assert {k: rows[0][k] for k in ("mean", "deviation", "seeds", "samples", "reported", "difference", "best")} == {
        **{"mean": "1.5", "deviation": "0.25", "seeds": "3", "samples": "10"},
        **{"reported": "1.0", "difference": "0.5", "best": "1"},
    }
    assert rows[1]["label"] == "'=cmd()"  # no formula in a spreadsheet
    assert rows[1]["mean"] == ""


def test_csv_of_the_demo_carries_the_same_numbers_as_the_table():
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


def test_the_terminal_shows_the_best_in_bold_and_the_papers_below():
    from rich.console import Console

    console = Console(width=200, force_terminal=True, color_system="standard", file=io.StringIO())
    console.print(to_terminal(NASTY))
    text = console.file.getvalue()
    assert re.search(r"\x1b\[1m *1\.50 ± 0\.25\x1b\[0m", text)  # bold
    assert re.search(r"\x1b\[2mpaper 1\.00, \+0\.50", text)  # dim
    assert "\x1b[2J" not in text  # the hostile name does not clear the screen


def test_a_wide_table_is_cut_for_a_narrow_terminal_and_no_value_is_broken():
    from rich.console import Console

    table = tables_of(DEMO)["quadrants"]
    parts = pieces(table, 160)
    assert len(parts) > 1
    assert sum(len(part.header) - 1 for part in parts) == len(table.header) - 1
    console = Console(width=160, file=io.StringIO())
    for part in parts:
        console.print(to_terminal(part, common(table)))
    shown = console.file.getvalue()
    values = [v for row in table.rows for v in row.values if isinstance(v, Value)]
    assert all(f"{v.mean:.2f} ± {v.deviation:.2f}" in shown for v in values)
    assert max(map(len, shown.splitlines())) <= 160


# the command


def dualtta(*args: str, capsys) -> tuple[int, str, str]:
    from dualtta.cli import main

    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


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


def test_a_later_report_leaves_no_stale_table_and_nothing_else_is_touched(tmp_path, capsys):
    shutil.copytree(DEMO, tmp_path / "demo")
    dualtta("report", str(tmp_path / "demo"), capsys=capsys)
    tables = tmp_path / "demo" / "report" / "tables"
    (tables / "mine.md").write_text("my own")
    for record in gather([tmp_path / "demo"]).records:
        if record.cell["cell"]["dataset"]["name"] == "digits_c":
            shutil.rmtree(record.folder)
    dualtta("report", str(tmp_path / "demo"), "--formats", "md", capsys=capsys)
    names = sorted(path.name for path in tables.iterdir())
    assert names == ["colored-digits-resnet-tiny-mild.md", "cost.md", "mine.md", "quadrants.md"]


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
        ([str(RECORDS / "README.md")], "there is no folder"),
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
