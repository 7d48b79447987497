"""The split into cells that may choose settings and cells that are kept for the verdict."""

import dataclasses

import pytest

from dualtta.bench.cell import Cell
from dualtta.data.published import CORRUPTIONS, KINDS, PACS
from dualtta.studies.held_out import for_tuning, held_out, rules, side_of

NOISE, BLUR, WEATHER, DIGITAL = CORRUPTIONS[:3], CORRUPTIONS[3:7], CORRUPTIONS[7:11], CORRUPTIONS[11:]


def cell(*corruptions: str) -> Cell:
    return Cell("imagenet_c", "resnet50_v1", "tent", choices={"corruptions": list(corruptions), "severities": [5]})


@pytest.mark.parametrize("dataset", rules())
def test_sides_do_not_overlap_and_at_least_a_third_is_held_out(dataset):
    rule = rules()[dataset]
    assert not set(rule["tuning"]) & set(rule["held_out"])
    assert len(rule["held_out"]) >= (len(rule["tuning"]) + len(rule["held_out"])) / 3


@pytest.mark.parametrize("dataset", ["imagenet_c", "cifar10_c", "digits_c"])
def test_every_corruption_is_on_a_side_and_every_kind_on_both(dataset):
    rule = rules()[dataset]
    assert {*rule["tuning"], *rule["held_out"]} == set(CORRUPTIONS)
    for kind in (NOISE, BLUR, WEATHER, DIGITAL):
        assert set(kind) & set(rule["tuning"])
        assert set(kind) & set(rule["held_out"])
    assert len(KINDS) == 4


def test_pacs_is_split_by_its_targets():
    rule = rules()["pacs"]
    assert {*rule["tuning"], *rule["held_out"]} == set(PACS.domains)
    assert side_of(Cell("pacs", "resnet50", "tent", stream={"domains": ["photo"]}).describe()) == "held_out"
    assert side_of(Cell("pacs", "resnet50", "tent", stream={"domains": ["sketch"]}).describe()) == "tuning"
    assert side_of(Cell("pacs", "resnet50", "tent").describe()) == "neither"  # all targets


def test_a_pool_of_both_sides_is_on_neither():
    assert side_of(cell("fog").describe()) == "held_out"
    assert side_of(cell("contrast", "pixelate").describe()) == "tuning"
    assert side_of(cell("contrast", "fog").describe()) == "neither"
    assert side_of(Cell("office_home", "resnet50", "tent").describe()) == "neither"


def test_nothing_is_chosen_on_what_is_held_out():
    assert for_tuning([cell("contrast")]) == [cell("contrast")]
    for wrong in (cell("fog"), cell("contrast", "fog"), Cell("office_home", "resnet50", "tent")):
        with pytest.raises(ValueError, match="kept for the verdict"):
            for_tuning([cell("contrast"), wrong])


def test_seeds_and_splits_decide_where_there_is_nothing_else():
    digits = Cell("colored_mnist", "resnet18", "tent", choices={"split": "test"}, seed=2024)
    assert for_tuning([digits])
    assert held_out([digits, dataclasses.replace(digits, seed=2025)]) == [dataclasses.replace(digits, seed=2025)]
    birds = Cell("waterbirds", "resnet50", "tent", choices={"split": "val"}, seed=2025)
    assert for_tuning([birds])
    with pytest.raises(ValueError, match="tune on its split val"):
        for_tuning([dataclasses.replace(birds, choices={"split": "test"})])
