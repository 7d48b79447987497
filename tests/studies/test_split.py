"""The split into tuning and held-out cells."""

import dataclasses

import pytest

from dualtta.bench.cell import Cell
from dualtta.data.published import CORRUPTIONS, KINDS, PACS
from studies.split import only_held_out, part_of, require_tuning, rules

NOISE, BLUR, WEATHER, DIGITAL = CORRUPTIONS[:3], CORRUPTIONS[3:7], CORRUPTIONS[7:11], CORRUPTIONS[11:]


def cell(*corruptions: str) -> Cell:
    return Cell("imagenet_c", "resnet50_v1", "tent", choices={"corruptions": list(corruptions), "severities": [5]})


@pytest.mark.parametrize("dataset", rules())
def test_parts_do_not_overlap_and_at_least_a_third_is_held_out(dataset):
    rule = rules()[dataset]
    assert not set(rule["tuning"]) & set(rule["held_out"])
    assert len(rule["held_out"]) >= (len(rule["tuning"]) + len(rule["held_out"])) / 3


@pytest.mark.parametrize("dataset", ["imagenet_c", "cifar10_c", "digits_c"])
def test_every_corruption_is_in_a_part_and_every_kind_in_both(dataset):
    rule = rules()[dataset]
    assert {*rule["tuning"], *rule["held_out"]} == set(CORRUPTIONS)
    for kind in (NOISE, BLUR, WEATHER, DIGITAL):
        assert set(kind) & set(rule["tuning"])
        assert set(kind) & set(rule["held_out"])
    assert len(KINDS) == 4


def test_pacs_is_split_by_its_targets():
    rule = rules()["pacs"]
    assert {*rule["tuning"], *rule["held_out"]} == set(PACS.domains)
    assert part_of(Cell("pacs", "resnet50", "tent", stream={"domains": ["photo"]}).describe()) == "held_out"
    assert part_of(Cell("pacs", "resnet50", "tent", stream={"domains": ["sketch"]}).describe()) == "tuning"
    assert part_of(Cell("pacs", "resnet50", "tent").describe()) == "neither"  # all targets


def test_a_mixed_stream_of_both_parts_belongs_to_neither():
    assert part_of(cell("fog").describe()) == "held_out"
    assert part_of(cell("contrast", "pixelate").describe()) == "tuning"
    assert part_of(cell("contrast", "fog").describe()) == "neither"
    assert part_of(Cell("office_home", "resnet50", "tent").describe()) == "neither"


def test_nothing_is_chosen_on_what_is_held_out():
    assert require_tuning([cell("contrast")]) == [cell("contrast")]
    for wrong in (cell("fog"), cell("contrast", "fog"), Cell("office_home", "resnet50", "tent")):
        with pytest.raises(ValueError, match="no tuning cell"):
            require_tuning([cell("contrast"), wrong])


def test_seeds_and_splits_decide_where_there_is_nothing_else():
    digits = Cell("colored_mnist", "resnet18", "tent", choices={"split": "test"}, seed=2024)
    assert require_tuning([digits])
    assert only_held_out([digits, dataclasses.replace(digits, seed=2025)]) == [dataclasses.replace(digits, seed=2025)]
    birds = Cell("waterbirds", "resnet50", "tent", choices={"split": "val"}, seed=2025)
    assert require_tuning([birds])
    with pytest.raises(ValueError, match="tune on its split val"):
        require_tuning([dataclasses.replace(birds, choices={"split": "test"})])
