"""Scenarios: which images occur and how often, determinism by seed, and the positions of the resets."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualtta.conformance import check_folder
from dualtta.data.datasets.base import Dataset
from dualtta.streams.label_shift import label_shift
from dualtta.streams.scenarios import SCENARIOS, Stream, make_scenario

SHARED = Path(__file__).parents[3] / "shared" / "conformance"
EVERY_ONCE = ["mild", "mixed", "continual", "correlated", "single", "sorted", "alternating", "sequence"]
EVERY_ONCE += ["correlated+mixed", "correlated+continual", "sorted+mixed"]
DRAWN = ("imbalanced", "camera", "one-class", "repeated")  # an image may occur more than once, or not at all


class Numbers(Dataset):
    """A dataset of labels and domains, whose images are never opened."""

    def __init__(self, sizes=(40, 25, 10), classes=5):
        domain = np.repeat(np.arange(len(sizes)), sizes)
        labels = np.random.RandomState(1).randint(0, classes, len(domain))
        super().__init__(labels, [f"c{i}" for i in range(classes)], domain, [f"d{i}" for i in range(len(sizes))])

    def image(self, index):
        raise AssertionError("a stream must not open images")


def published_recipe(seed, ratio, classes, images, slot):
    """The published algorithm, written literally: global generators, one draw at a time."""
    state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        random.seed(seed)
        for step in [1, 1000, 2000, 3000, 4000, 5000, 500000]:
            order = list(range(classes))
            random.shuffle(order)
            if step == ratio:
                break
        np.random.seed(2022)  # noqa: NPY002
        labels = []
        for dominant in order:
            q = np.ones(classes) / (ratio + classes - 1)
            q[dominant] = ratio / (ratio + classes - 1)
            labels += [np.random.choice(classes, 1, p=q)[0] for _ in range(slot)]  # noqa: NPY002
        labels = np.array(labels)
        values = np.zeros(len(labels))
        for label in range(classes):
            places = np.where(labels == label)[0]
            values[places] = images * label + np.random.randint(0, images, len(places))  # noqa: NPY002
        return values
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(python_state)


@pytest.mark.parametrize(("seed", "ratio"), [(2020, 1), (2021, 1000), (7, 5000), (2022, 500000)])
def test_label_shift_is_the_published_recipe_for_other_seeds_and_ratios(seed, ratio):
    golden = published_recipe(seed, ratio, classes=20, images=7, slot=14)
    assert (label_shift([7] * 20, seed, ratio) == golden).all()


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no golden vectors at {SHARED}")
def test_the_recorded_label_shift_orders_come_out_exactly(tmp_path):
    for path in SHARED.glob("label_shift_*.npy"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    verdicts = check_folder(tmp_path)
    assert verdicts
    assert all(verdict["ok"] and verdict["worst"] == 0 for verdict in verdicts), verdicts


def test_a_label_shift_order_that_differs_is_reported(tmp_path):
    order = label_shift([50] * 1000, 3, 1000).astype(np.float64)
    np.save(tmp_path / "label_shift_seed3_ir1000.npy", order)
    order[5] += 1
    np.save(tmp_path / "label_shift_seed3_ir2000.npy", order)
    np.save(tmp_path / "label_shift_seed4_ir1000.npy", order[:9])
    np.save(tmp_path / "label_shift_last.npy", order)
    (tmp_path / "label_shift_seed5_ir1000.npy").write_bytes(b"<html>")
    with (tmp_path / "label_shift_seed6_ir1000.npy").open("wb") as archive:
        np.savez(archive, order)
    np.save(tmp_path / "label_shift_seed3_ir0.npy", order)
    found = {verdict["case"]: (verdict["ok"], verdict["why"]) for verdict in check_folder(tmp_path)}
    assert found["label_shift_seed3_ir1000"] == (True, "")
    assert found["label_shift_seed3_ir2000"][0] is False
    assert "shape (9,)" in found["label_shift_seed4_ir1000"][1]
    assert "its name is not" in found["label_shift_last"][1]
    assert "not readable" in found["label_shift_seed5_ir1000"][1]
    assert "not readable" in found["label_shift_seed6_ir1000"][1]
    assert "ratio must be at least 1" in found["label_shift_seed3_ir0"][1]


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any),
    seed=st.integers(0, 2**32 - 2),
    ratio=st.sampled_from([1, 1000, 500000, 37.5]),
    slot=st.none() | st.integers(1, 20),
)
@settings(max_examples=60, deadline=None)
def test_label_shift_draws_only_images_that_exist_and_fills_every_slot(counts, seed, ratio, slot):
    order = label_shift(counts, seed, ratio, slot)
    present = sum(count > 0 for count in counts)
    assert len(order) == present * (slot or max(1, round(2 * sum(counts) / present)))
    assert order.min() >= 0
    assert order.max() < sum(counts)


def test_in_a_slot_of_the_label_shift_one_class_dominates():
    data = Numbers(sizes=(500,), classes=5)
    stream = make_scenario("imbalanced").stream(data, seed=2022)
    slots = data.labels[stream.segments[0].indices].reshape(5, -1)
    assert all((slot == np.bincount(slot).argmax()).mean() > 0.99 for slot in slots)
    assert len({int(np.bincount(slot).argmax()) for slot in slots}) == 5
    flat = make_scenario("imbalanced", ratio=1).stream(data)
    assert np.bincount(data.labels[flat.segments[0].indices[:200]]).max() < 100


@pytest.mark.parametrize("name", EVERY_ONCE)
def test_every_image_occurs_exactly_once(name):
    data = Numbers()
    stream = make_scenario(name).stream(data)
    met = np.concatenate([indices for _, indices in stream.batches()])
    assert sorted(met) == list(range(len(data)))
    assert len(stream) == len(data)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "sequence"])
def test_seed_and_settings_determine_a_stream(name):
    data, scenario = Numbers(), make_scenario(name)
    once, again, other = (np.concatenate([s.indices for s in scenario.stream(data, seed).segments]) for seed in (1, 1, 2))
    assert (once == again).all()
    assert (once != other).any()


def test_domains_follow_each_other_with_the_scenarios_resets():
    data = Numbers()
    assert [(s.domain, s.reset) for s in make_scenario("mild").stream(data).segments] == [
        ("d0", True),
        ("d1", True),
        ("d2", True),
    ]
    assert [s.reset for s in make_scenario("continual").stream(data).segments] == [False] * 3
    assert [(s.domain, s.reset) for s in make_scenario("mixed").stream(data).segments] == [("all", True)]
    for segment in make_scenario("mild").stream(data).segments:
        assert {data.domains[d] for d in data.domain[segment.indices]} == {segment.domain}


def test_mixed_mixes_the_domains():
    data = Numbers()
    first = make_scenario("mixed", batch_size=30).stream(data).segments[0].indices[:30]
    assert set(data.domain[first]) == {0, 1, 2}


def test_repeats_are_further_passes_between_two_resets():
    data = Numbers()
    mild = make_scenario("mild", repeats=2).stream(data).segments
    assert [(s.domain, s.reset) for s in mild] == [(d, r) for d in ("d0", "d1", "d2") for r in (True, False)]
    continual = make_scenario("continual", repeats=2).stream(data).segments
    assert [s.domain for s in continual] == ["d0", "d1", "d2"] * 2
    assert not any(s.reset for s in continual)
    assert sorted(mild[0].indices) == sorted(mild[1].indices)
    assert (mild[0].indices != mild[1].indices).any()


def test_the_order_of_a_domain_does_not_depend_on_the_other_domains():
    data = Numbers()
    alone = make_scenario("mild", domains=("d1",)).stream(data).segments[0]
    among = make_scenario("mild").stream(data).segments[1]
    assert (alone.indices == among.indices).all()
    assert [s.domain for s in make_scenario("mild", domains=("d2", "d0")).stream(data).segments] == ["d2", "d0"]


def test_limit_cuts_a_domain_and_batches_end_with_their_segment():
    stream = make_scenario("mild", limit=20, batch_size=8).stream(Numbers())
    assert [(segment, len(indices)) for segment, indices in stream.batches()] == [
        *[(0, 8), (0, 8), (0, 4)],
        *[(1, 8), (1, 8), (1, 4)],
        *[(2, 8), (2, 2)],
    ]


def test_scenarios_compose():
    data = Numbers()
    stream = make_scenario("imbalanced+mixed+single", limit=30).stream(data)
    assert [len(indices) for _, indices in stream.batches()] == [1] * 30
    assert len(stream.segments) == 1
    assert len(set(data.domain[stream.segments[0].indices])) > 1
    assert len(set(data.labels[stream.segments[0].indices])) == 1


def switches(labels):
    return (np.diff(labels) != 0).mean()


def test_labels_are_the_more_correlated_the_smaller_alpha():
    data = Numbers(sizes=(2000,), classes=10)
    rates = [
        switches(data.labels[make_scenario("correlated", alpha=a, slots=s).stream(data).segments[0].indices])
        for a, s in [(0.01, 10), (100.0, 500)]
    ]
    assert rates[0] < 0.02
    assert rates[1] > 0.5


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    name=st.sampled_from([*SCENARIOS, "imbalanced+mixed", "correlated+continual"]),
    batch_size=st.integers(1, 40),
    repeats=st.integers(1, 3),
    limit=st.none() | st.integers(1, 20),
    seed=st.integers(0, 2**32 - 4),
)
@settings(max_examples=80, deadline=None)
def test_invariants_of_any_stream(sizes, name, batch_size, repeats, limit, seed):
    data = Numbers(sizes)
    stream = make_scenario(name, batch_size=batch_size, repeats=repeats, limit=limit).stream(data, seed)
    batches = list(stream.batches())
    assert sum(len(indices) for _, indices in batches) == len(stream)
    assert all(1 <= len(indices) <= batch_size for _, indices in batches)
    assert all(indices.min() >= 0 and indices.max() < len(data) for _, indices in batches)
    assert [number for number, _ in batches] == sorted(number for number, _ in batches)
    if not any(part in name for part in DRAWN) and limit is None:
        met = np.bincount(np.concatenate([indices for _, indices in batches]), minlength=len(data))
        assert (met == repeats).all()
    if limit is not None:
        assert all(len(segment.indices) <= limit for segment in stream.segments)


def test_a_stream_is_saved_and_loaded_unchanged(tmp_path):
    stream = make_scenario("imbalanced", batch_size=7, repeats=2).stream(Numbers(), seed=9)
    stream.save(tmp_path / "indices.npz")
    again = Stream.load(tmp_path / "indices.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["indices.npz"]
    assert again.batch_size == 7
    assert again.about == stream.about
    assert again.about["seed"] == 9
    for ours, theirs in zip(stream.segments, again.segments, strict=True):
        assert (ours.domain, ours.reset) == (theirs.domain, theirs.reset)
        assert (ours.indices == theirs.indices).all()


def test_a_file_that_is_no_stream_is_refused(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"not a zip")
    np.savez(tmp_path / "b.npz", indices=np.zeros(3))
    np.save(tmp_path / "c.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for name in ("a.npz", "b.npz", "c.npy"):
        with pytest.raises(ValueError, match="is not a saved stream"):
            Stream.load(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "choices", "message"),
    [
        ("mildd", {}, "did you mean 'mild'"),
        ("imbalanced+correlated", {}, "both set the order"),
        ("mild", {"batch_size": 0}, "batch_size must be a whole number"),
        ("mild", {"repeats": 0}, "repeats must be"),
        ("mild", {"limit": 0}, "limit must be"),
        ("mild", {"ratio": 10}, "no setting 'ratio'"),
        ("correlated", {"alpha": 0}, "alpha must be above zero"),
        ("mild", {"domains": ("d7",)}, "no domain 'd7'"),
        ("imbalanced", {"ratio": 0.5}, "at least 1"),
        ("imbalanced", {"slot": 0}, "at least one draw"),
    ],
)
def test_a_wrong_setting_is_named_with_valid_ones(name, choices, message):
    with pytest.raises(ValueError, match=message):
        make_scenario(name, **choices).stream(Numbers())


def test_a_seed_or_a_domain_without_images_is_refused():
    with pytest.raises(ValueError, match="a seed is a whole number"):
        make_scenario("mild").stream(Numbers(), seed=-1)
    with pytest.raises(ValueError, match="no images of d1"):
        make_scenario("mild").stream(Numbers(sizes=(3, 0)))
