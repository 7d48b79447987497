"""The paper's experiments: their cells, and that they are registered by entry points alone."""

import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name

import pytest

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import ADAPTER_SETTINGS, distinct
from dualtta.methods import make_method
from dualtta.paper.experiments import ablation_filters, benchmarks, imagenet_c

PROJECT = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
ENTRIES = PROJECT["entry-points"]["dualtta.experiments"]


def experiment(name):
    return resolve_name(ENTRIES[name])


@pytest.mark.parametrize("group", PROJECT["entry-points"])
def test_the_entry_points_of_this_checkout_are_installed(group):
    installed = {entry.name: entry.value for entry in entry_points(group=group)}
    missing = set(PROJECT["entry-points"][group].items()) - set(installed.items())
    assert not missing, "run `make install`, or `pip install --no-deps -e .`"


@pytest.mark.parametrize("name", ENTRIES)
def test_every_experiment_is_a_list_of_different_valid_cells_with_its_command_in_the_docstring(name):
    cells = experiment(name)(Options())
    assert cells
    assert len(distinct(cells)) == len(cells)
    assert f"dualtta run {name}" in experiment(name).__doc__
    for cell in cells:
        make_method(cell.method, **{k: v for k, v in cell.settings.items() if k not in ADAPTER_SETTINGS})


def test_table_1_is_four_benchmarks_by_six_methods_by_three_seeds():
    cells = benchmarks(Options())
    count = {
        name: sum(cell.dataset == name for cell in cells) for name in ("colored_mnist", "waterbirds", "pacs", "office_home")
    }
    assert count == {"colored_mnist": 18, "waterbirds": 18, "pacs": 216, "office_home": 216}
    assert len({cell.source.key for cell in cells if cell.dataset == "pacs"}) == 4


def test_colored_mnist_starts_from_imagenet_weights_unless_told(tmp_path):
    def start(**options):
        cells = benchmarks(Options(datasets=("colored_mnist",), **options))
        (start,) = {(cell.source.model, cell.source.weights) for cell in cells}
        return start

    (tmp_path / "resnet18.pth").write_bytes(b"weights")
    assert start() == ("resnet18", "pretrained")
    assert start(weights="random") == ("resnet18", None)
    assert start(weights="resnet18.pth", root=tmp_path) == ("resnet18", str(tmp_path / "resnet18.pth"))
    assert start(backbone="resnet50_v1", weights="random") == ("resnet50_v1", None)


def test_imagenet_c_is_15_corruptions_by_3_backbones_by_6_methods():
    assert len(imagenet_c(Options(seeds=(2024,)))) == 15 * 3 * 6
    rates = {(c.model, c.method): c.settings.get("lr") for c in imagenet_c(Options())}
    assert rates["vit_base_patch16_224", "dualtta"] == 1e-4
    own = {(c.model, c.method): c.settings.get("lr") for c in imagenet_c(Options(protocol="own"))}
    assert own["vit_base_patch16_224", "tent"] == 1e-3
    assert own["resnet50", "tent"] == 2.5e-4


def test_options_choose_and_mark():
    cells = benchmarks(Options(datasets=("pacs",), methods=("tent",), limit=10, seeds=(1,)))
    assert {cell.dataset for cell in cells} == {"pacs"}
    assert {cell.stream["limit"] for cell in cells} == {10}
    token_net = imagenet_c(Options(backbone="vit_small_patch16_224", methods=("dualtta",), seeds=(1,)))
    assert {cell.settings["lr"] for cell in token_net} == {1e-4}
    with pytest.raises(ValueError, match="there are no weights"):
        benchmarks(Options(weights="missing.pt"))


@pytest.mark.parametrize("name", ENTRIES)
def test_no_experiment_runs_a_dataset_that_it_was_not_made_for(name):
    wanted = [cell for cell in experiment(name)(Options(datasets=("colored_digits",))) if cell.dataset == "colored_digits"]
    assert not wanted


def test_a_method_changes_no_cell_of_the_filters_ablation():
    keys = [
        {cell.key for cell in ablation_filters(Options(datasets=("pacs",), **some))} for some in ({}, {"methods": ("tent",)})
    ]
    assert keys[0] == keys[1]
