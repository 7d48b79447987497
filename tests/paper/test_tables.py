"""The paper's layouts, its numbers beside ours, and its claims."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dualtta.bench.cell import Cell
from dualtta.paper.claims import CLAIMS
from dualtta.paper.placing import SHIFTS
from dualtta.paper.reported import claims, contradictions, paper, reported
from dualtta.report import read_results
from dualtta.report.render import to_markdown

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


@pytest.fixture(scope="module")
def pacs(tmp_path_factory, plan, write_plan) -> Path:
    out = tmp_path_factory.mktemp("pacs")
    write_plan(out, plan("benchmarks", datasets=("pacs",), methods=("source", "tent", "dualtta")), LEVELS)
    return out


def test_table_1_has_the_papers_rows_and_columns_with_its_numbers_beside(pacs, at, tables_of):
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


def test_table_1_as_text(pacs, tables_of):
    lines = to_markdown(tables_of(pacs)["benchmarks"]).splitlines()
    assert lines[0] == "## Table 1: accuracy under domain shift, %"
    assert lines[2].split(" | ")[-2:] == ["Office-Home", "PACS |"]
    tent, dual = (next(line for line in lines if line.startswith(f"| {name} |")).split(" | ") for name in ("Tent", "DualTTA"))
    assert tent[-1] == "52.00 ± 0.00<br><sub>paper 74.96, -22.96</sub> |"
    assert tent[-2] == "– <sup>a</sup><br><sub>paper 61.08</sub>"  # noqa: RUF001
    assert dual[-1] == "**63.00 ± 0.00**<br><sub>paper 76.02, -13.02</sub> |"
    assert "- a: Office-Home: the second best is Tent, 0.43 behind, not DeYO" in lines


def test_all_pairs_stand_beside_each_other(pacs, at, tables_of):
    table = tables_of(pacs)["pairs-pacs"]
    assert len(table.header) == 14
    assert at(table, "Tent", "photo → sketch").mean == pytest.approx(52)
    assert at(table, "Tent", "avg").reported == 74.96
    assert len(SHIFTS["pacs"].units) + len(SHIFTS["office_home"].units) == 24


def test_an_average_that_lacks_cells_is_marked_and_compared_with_nothing(pacs, tmp_path, at, said, tables_of):
    shutil.copytree(pacs, tmp_path / "pacs")
    frame, _ = read_results([tmp_path / "pacs"])
    gone = frame[(frame.method == "dualtta") & (frame.unit == "photo → sketch")]
    for record in gone.record:
        shutil.rmtree(record.folder)
    table = tables_of(tmp_path / "pacs")["benchmarks"]
    value = at(table, "DualTTA", "PACS")
    assert said(table, value) == "the mean of 11 of 12 pairs; the others have no record"
    assert value.mean == pytest.approx(63)
    assert value.difference is None
    assert not value.best
    assert at(table, "Tent", "PACS").best  # of those that are whole


def test_seeds_that_not_all_pairs_have_are_left_out_and_named(pacs, tmp_path, at, said, tables_of):
    shutil.copytree(pacs, tmp_path / "pacs")
    frame, _ = read_results([tmp_path / "pacs"])
    shutil.rmtree(frame.query("method == 'tent' and seed == 2025").record.iloc[0].folder)
    table = tables_of(tmp_path / "pacs")["benchmarks"]
    value = at(table, "Tent", "PACS")
    assert value.seeds == 1
    assert said(table, value) == "seeds 2024 alone: the others lack some of the pairs"


def test_pairs_without_a_common_seed_have_no_average_and_it_is_said_why(tmp_path, at, plan, said, tables_of, write_plan):
    cells = plan("benchmarks", datasets=("pacs",), methods=("tent",), seeds=(1,))
    write_plan(tmp_path, [replace(cell, seed=number) for number, cell in enumerate(cells)], LEVELS)
    table = tables_of(tmp_path)["benchmarks"]
    value = at(table, "Tent", "PACS")
    assert value.mean is None
    assert said(table, value) == "the pairs have no seed in common"


def test_an_empty_quadrant_is_told_from_a_missing_record(tmp_path, at, make_rows, said, tables_of, write_record):
    rows = make_rows(0.5, 100)
    write_record(tmp_path, Cell("digits", "resnet_tiny", "dualtta"), {**rows, "drop_alter": np.zeros(100)})
    table = tables_of(tmp_path)["quadrants"]
    value = at(table, "digits, resnet_tiny, mild: DualTTA", "D+ (falls, holds), correct")
    assert value.mean is None
    assert said(table, value) == "there are records, but no sample to count"
    assert "–" not in table.notes  # noqa: RUF001


def test_subsets_other_models_and_other_starts_are_marked(tmp_path, at, plan, said, tables_of, write_plan):
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
        "dualtta run benchmarks --root DATA --seeds 2024,2025 --limit 50 --batch-size 16 --backbone resnet18 --weights random"
    )


@pytest.mark.parametrize(("images", "marked"), [(2000, True), (50_000, False)])
def test_a_copy_that_lacks_published_images_is_marked(images, marked, tmp_path, at, plan, said, tables_of, write_plan):
    cells = plan("imagenet-c", methods=("tent",), seeds=(1,), backbone="resnet50")
    write_plan(tmp_path, cells, LEVELS, data={"dataset": "imagenet_c", "images": images})
    table = tables_of(tmp_path)["imagenet-c-resnet50"]
    says = "a copy of the dataset with 2,000 images; 50,000 were published"
    assert (said(table, at(table, "Tent", "Fog")) == says) is marked
    assert ("2,000" in str(table.notes)) is marked


def test_a_subset_and_the_whole_are_two_tables(tmp_path, plan, tables_of, write_plan):
    for limit in (None, 50):
        write_plan(tmp_path, plan("benchmarks", datasets=("colored_mnist",), methods=("tent",), limit=limit), LEVELS)
    tables = tables_of(tmp_path)
    assert tables["benchmarks"].title.endswith("(as in the paper)")
    assert tables["benchmarks-2"].title.endswith("(a subset: at most 50 samples of a domain)")


def test_the_two_protocols_are_told_apart(tmp_path, at, plan, tables_of, write_plan):
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
    again = "dualtta run benchmarks --root DATA --seeds 2024,2025"
    assert table.command == f"{again} && {again} --protocol own"


def test_the_ablation_of_d_minus_has_the_rows_at_the_authors_rates_too(tmp_path, plan, tables_of, write_plan):
    write_plan(tmp_path, plan("ablation-incorrect", datasets=("colored_mnist",), protocol="own"), LEVELS)
    table = tables_of(tmp_path)["ablation-incorrect"]
    rows = {(row.label, row.values[0]): row.values[1] for row in table.rows}
    assert rows["DeYO, own rate", "✓"].mean == pytest.approx(61, abs=1)
    assert rows["DeYO, own rate", "✗"].mean == pytest.approx(60, abs=1)
    assert rows["DeYO, own rate", "✓"].reported is None
    assert rows["DeYO", "✓"].mean is None
    assert "the authors' code" in str(table.notes)


def test_a_command_asks_for_the_weights_that_source_models_started_from(tmp_path, plan, tables_of, write_plan):
    cells = plan("benchmarks", datasets=("waterbirds",), methods=("tent",))
    (tmp_path / "net.pt").write_bytes(b"weights")
    start = str(tmp_path / "net.pt")
    write_plan(tmp_path, [replace(cell, source=replace(cell.source, weights=start)) for cell in cells], LEVELS)
    assert tables_of(tmp_path)["benchmarks"].command.endswith(" --weights FILE")


def test_imagenet_c_has_a_table_a_backbone_with_the_papers_contradictions(tmp_path, at, plan, said, tables_of, write_plan):
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


def test_every_printed_average_that_is_not_the_mean_of_its_cells_is_named():
    for backbone, rows in paper()["imagenet_c_severity5_mild"]["rows"].items():
        for row, (*cells, printed) in rows.items():
            named = contradictions("imagenet_c_severity5_mild", f"{backbone}/{row}", "avg")
            differs = abs(sum(cells) / len(cells) - printed) > 0.005 + 1e-9
            assert any("mean of its 15 cells" in text for text in named) is differs, (backbone, row)


def test_the_wild_table_averages_corruptions_and_pools_mixed_ones(tmp_path, at, plan, tables_of, write_plan):
    cells = plan("wild", methods=("sar",), seeds=(1,), backbone="resnet50")
    write_plan(tmp_path, cells, lambda cell: 0.4 if cell.scenario == "mixed" else 0.6)
    table = tables_of(tmp_path)["wild"]
    assert at(table, "SAR", "imbalanced, ResNet50-BN").mean == pytest.approx(60)
    assert at(table, "SAR", "imbalanced, ResNet50-BN").samples == 1500
    assert at(table, "SAR", "mixed, ResNet50-BN").mean == pytest.approx(40)
    assert at(table, "SAR", "mixed, ResNet50-BN").reported == 26.1
    assert at(table, "SAR", "mixed, ViTBase-LN").mean is None


def test_images_corrupted_here_are_told_from_the_published_files(tmp_path, at, plan, said, tables_of, write_plan):
    cells = plan("imagenet-c", methods=("tent",), seeds=(1,), backbone="resnet50")
    write_plan(tmp_path, cells, LEVELS, data={"dataset": "imagenet_c", "drawn": "on the fly"})
    table = tables_of(tmp_path)["imagenet-c-resnet50"]
    assert "corrupted on the fly" in said(table, at(table, "Tent", "Frost"))


def test_the_filter_ablation_in_the_papers_layout(tmp_path, plan, said, tables_of, write_plan):
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


def test_the_ablation_of_likely_incorrect_samples_in_the_papers_layout(tmp_path, plan, tables_of, write_plan):
    cells = plan("ablation-incorrect", datasets=("colored_mnist",))
    write_plan(tmp_path, cells, lambda cell: 0.5 if "lam" in cell.settings else LEVELS[cell.method], 1000)
    table = tables_of(tmp_path)["ablation-incorrect"]
    assert [(row.label, row.values[0]) for row in table.rows] == [
        *(("DualTTA", "✓"), ("DualTTA", "✗"), ("DeYO", "✗"), ("DeYO", "✓"), ("EATA", "✗"), ("EATA", "✓")),
    ]
    values = [row.values[1] for row in table.rows]
    assert [value.reported for value in values] == [82.12, 80.65, 77.98, 79.17, 60.65, 62.31]
    assert [value.mean for value in values] == pytest.approx([63, 50, 60, 61, 55, 57], abs=0.6)


def test_data_efficiency_is_in_shares_of_all_samples(tmp_path, at, plan, tables_of, write_plan):
    cells = plan("efficiency", datasets=("colored_mnist",), seeds=(1,), methods=("deyo",))
    write_plan(tmp_path, cells, LEVELS)
    table = tables_of(tmp_path)["efficiency"]
    rows = read_results([tmp_path])[0].record.iloc[0].rows()
    right = rows["prediction"] == rows["label"]
    used = at(table, "DeYO", "ColoredMNIST, %adapt")
    rightly = at(table, "DeYO", "ColoredMNIST, %corr-adapt")
    assert used.mean == pytest.approx(100 * (rows["plus"] | rows["minus"]).mean())
    assert rightly.mean == pytest.approx(100 * ((rows["plus"] & right) | (rows["minus"] & ~right)).mean())
    assert (used.reported, rightly.reported) == (18.8, 14.4)


def test_thresholds_are_a_grid_against_deyo_on_the_same_seed(tmp_path, at, plan, tables_of, write_plan):
    cells = plan("sensitivity", datasets=("colored_mnist",), seeds=(1,))
    cells = [c for c in cells if c.settings.get("tau_sa", 0.1) in (0.1, 0.4) and c.settings.get("tau_sp", 0.7) in (0.7, 0.9)]
    cells.append(replace(next(c for c in cells if c.method == "deyo"), seed=2))
    write_plan(tmp_path, cells, lambda cell: 0.9 if cell.seed == 2 else cell.settings.get("tau_sa", 0.2) / 2 + 0.4, 1000)
    table = tables_of(tmp_path)["sensitivity-colored_mnist"]
    assert table.header == ("tau_sa \\ tau_sp", "0.7", "0.9")
    assert [row.label for row in table.rows] == ["0.1", "0.4"]
    assert at(table, "0.4", "0.9").mean == pytest.approx(60, abs=1)
    marked = [v.best or v.level for row in table.rows for v in row.values]
    assert marked == [False, False, True, True]  # the two highest predict the same samples correctly, or nearly
    assert "DualTTA is above it at 2 of 4 pairs of thresholds (the paper: at all)" in table.notes["(1)"]


def test_quadrants_of_impulse_noise_stand_beside_the_papers(tmp_path, at, plan, tables_of, write_plan):
    cells = plan("quadrants", seeds=(1,))
    write_plan(tmp_path, cells, LEVELS, 500)
    table = tables_of(tmp_path)["quadrants"]
    label = "ImageNet-C, ResNet50-BN, impulse noise: DualTTA, drop relative"
    row = next(row for row in table.rows if row.label == label)
    assert row.values[0] == "relative"
    corner = read_results([tmp_path])[0].record.iloc[0].summary["quadrants"]["stays_breaks"]
    assert at(table, label, "D- (stays, breaks), samples").mean == pytest.approx(100 * corner["count"] / 500)
    assert at(table, label, "D- (stays, breaks), correct").reported == 18
    assert at(table, label, "D+ (falls, holds), correct").reported == 71
    assert len(table.rows) == 2  # absolute and relative; no mean over 15 corruptions of one


def test_sweeps_stand_beside_the_method_as_it_is_in_order(tmp_path, plan, tables_of, write_plan):
    cells = plan("sweep-lambda", datasets=("colored_mnist",), seeds=(1,))
    cells += plan("benchmarks", datasets=("colored_mnist",), methods=("dualtta",), seeds=(1,))
    write_plan(tmp_path, cells, LEVELS)
    labels = [row.label for row in tables_of(tmp_path)["settings"].rows]
    assert labels == ["DualTTA", "DualTTA, lam 0.25", "DualTTA, lam 0.5", "DualTTA, lam 1", "DualTTA, lam 2"]


def test_claims_stand_beside_their_measurement_and_the_papers_own_tables(tmp_path, at, plan, said, tables_of, write_plan):
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
    from dualtta.paper.claims import printed

    checked = 0
    for key, (_, claim) in CLAIMS.items():
        found, text = claim(printed), claims()[key]
        if found and isinstance(text, int | float) and abs(found[0] - text) > 0.5:
            assert contradictions("claims", key), key
        checked += found is not None
    assert checked >= 15


def test_the_papers_numbers_are_those_of_the_shared_file():
    shared = Path(__file__).resolve().parents[3] / "shared" / "paper" / "tables.json"
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
