"""Orders of one domain, domains that take turns, and streams that start with another scenario."""

import json

import numpy as np
import pytest

from dualtta.data.datasets.base import Dataset
from dualtta.streams.orders import FewClasses, Repeated, Runs, Sorted
from dualtta.streams.scenarios import Scenario, Stream, make_scenario, settings

LABELS = np.random.RandomState(3).randint(0, 40, 2000)
KEY = (7, 0)


class Numbers(Dataset):
    """Three domains of labels, whose images are never opened."""

    def __init__(self, each=300, classes=12):
        labels = np.random.RandomState(1).randint(0, classes, 3 * each)
        super().__init__(labels, [f"c{i}" for i in range(classes)], np.repeat(np.arange(3), each), ["clean", "fog", "snow"])

    def image(self, index):
        raise AssertionError("a stream must not open images")


def test_a_sorted_order_has_each_image_once_class_by_class_and_shuffles_within_a_class():
    one, other = (Sorted().draw(LABELS, seed, KEY) for seed in (1, 2))
    assert sorted(one) == list(range(len(LABELS)))
    assert (np.diff(LABELS[one]) >= 0).all()
    assert (one != other).any()


def test_a_run_holds_few_classes_and_a_class_comes_back_only_after_all_others():
    order = Runs(classes=10, length=250).draw(LABELS, 1, KEY)
    assert len(order) == len(LABELS)
    runs = LABELS[order].reshape(8, 250)
    assert [len(np.unique(run)) for run in runs] == [10] * 8
    assert len(np.unique(runs[:4])) == 40  # four runs hold all forty classes


def test_a_run_longer_than_its_images_repeats_them():
    order = Runs(classes=1, length=30).draw(np.array([0] * 10 + [1] * 50), 1, KEY)
    small = order[:30] if order[0] < 10 else order[30:60]
    assert np.bincount(small).tolist() == [3] * 10


def test_few_classes_stay_the_same_in_every_pass_and_fill_the_length():
    passes = [FewClasses(classes=2).draw(LABELS, 5, (7, turn)) for turn in (0, 1)]
    assert {tuple(np.unique(LABELS[order])) for order in passes} == {tuple(np.unique(LABELS[passes[0]]))}
    assert len(np.unique(LABELS[passes[0]])) == 2
    assert len(passes[0]) == len(LABELS)
    assert (passes[0] != passes[1]).any()


def test_a_repeated_order_is_one_batch_in_every_batch():
    stream = make_scenario("repeated", images=16, batch_size=16, domains=("fog",)).stream(Numbers(), 3)
    batches = [indices.tolist() for _, indices in stream.batches()]
    assert len(batches) == -(-300 // 16)
    assert all(batch == batches[0] for batch in batches[:-1])
    assert len(set(batches[0])) == 16


@pytest.mark.parametrize(
    ("order", "name"), [(Runs, "classes"), (Runs, "length"), (FewClasses, "classes"), (Repeated, "images")]
)
def test_a_count_below_one_is_an_error(order, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        order(**{name: 0})


def test_domains_take_turns_and_every_image_occurs_once():
    stream = make_scenario("alternating", switch=100).stream(Numbers(), 1)
    assert [segment.domain for segment in stream.segments] == ["clean", "fog", "snow"] * 3
    assert not any(segment.reset for segment in stream.segments)
    assert sorted(np.concatenate([segment.indices for segment in stream.segments])) == list(range(900))


def test_a_camera_changes_its_domain_every_500_images_without_a_reset():
    stream = make_scenario("camera").stream(Numbers(each=1200, classes=30), 1)
    assert [len(segment.indices) for segment in stream.segments] == [500] * 6 + [200] * 3
    assert {segment.reset for segment in stream.segments} == {False}


def test_domains_that_take_turns_are_not_reset():
    with pytest.raises(ValueError, match="set reset=False"):
        Scenario(switch=10)


def test_another_scenario_comes_first_and_no_reset_follows_it(tmp_path):
    before = {"name": "repeated", "domains": ["fog"], "limit": 128}
    choices = json.loads(json.dumps({"domains": ["clean"], "limit": 50, "before": before}))
    scenario = make_scenario("mild", **choices)
    stream = scenario.stream(Numbers(), 4)
    assert [(s.domain, s.reset, len(s.indices)) for s in stream.segments] == [("fog", True, 128), ("clean", False, 50)]
    alone = make_scenario("mild", domains=["clean"], limit=50).stream(Numbers(), 4)
    assert (stream.segments[1].indices == alone.segments[0].indices).all()
    assert settings(scenario)["before"]["order"] == {"order": "repeated", "images": 64}
    stream.save(tmp_path / "stream.npz")
    assert Stream.load(tmp_path / "stream.npz").about == stream.about


def test_settings_of_plain_scenarios_are_those_that_saved_streams_have():
    assert set(settings(make_scenario("mild"))) == {"pool", "reset", "order", "batch_size", "domains", "repeats", "limit"}
