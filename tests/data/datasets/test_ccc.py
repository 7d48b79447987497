"""Continually changing corruptions of small arrays."""

import numpy as np
import pytest

from dualtta.data.ccc.calibration import BY_SEVERITY, shipped
from dualtta.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from dualtta.data.corruptions.continuous import corrupt_at, settings_at
from dualtta.data.datasets.base import ArrayDataset
from dualtta.data.datasets.ccc import ContinuallyChanging
from dualtta.data.registry import DATASETS
from dualtta.streams.scenarios import make_scenario

IMAGES = np.random.RandomState(0).randint(0, 256, (20, 32, 32, 3), np.uint8)
SMOOTH = np.full((32, 32, 3), 90, np.uint8)


@pytest.fixture
def base():
    return ArrayDataset(IMAGES, np.arange(20) % 4, "abcd")


def changing(base, **choices):
    return ContinuallyChanging(base, **{"speed": 5, "length": 60, "seed": 1, **choices})


def test_settings_determine_every_image_in_any_order_of_access(base):
    one, again = changing(base), changing(base)
    for index in (59, 0, 31):
        assert (one.image(index) == again.image(index)).all()
    other = changing(base, seed=2)
    assert (one.rows != other.rows).any()
    assert one.path != other.path


def test_every_image_occurs_before_any_occurs_again(base):
    rows = changing(base).rows.reshape(3, 20)
    assert all(sorted(part) == list(range(20)) for part in rows)
    assert (changing(base).labels == base.labels[rows.reshape(-1)]).all()


@pytest.mark.parametrize("speed", [1, 7, 60])
def test_the_speed_is_the_number_of_images_of_a_step(base, speed):
    data = changing(base, speed=speed, frost=None)
    said = [data.where(index).split(" under ")[1] for index in range(60)]
    assert len(data.path) == -(-60 // speed)
    assert all(len(set(said[start : start + speed])) == 1 for start in range(0, 60, speed))
    assert len(set(said)) == len(data.path)


def test_an_image_is_that_of_both_corruptions_one_after_the_other(base):
    data = changing(base, difficulty="medium")
    index = next(i for i in range(60) if data.path[i // 5].severity and data.path[i // 5].other)
    alone = IMAGES[data.rows[index]]
    assert (np.asarray(data.image(index)) != alone).any()
    assert data.image(index).dtype == np.uint8


def test_the_scenario_sequence_keeps_the_order_and_never_resets(base):
    stream = make_scenario("sequence", batch_size=7).stream(changing(base), seed=9)
    (segment,) = stream.segments
    assert segment.indices.tolist() == list(range(60))
    assert not segment.reset


def test_the_record_of_the_data_names_the_calibration(base):
    about = changing(base, speed=2000).about()
    assert (about["difficulty"], about["speed"], about["calibration"]) == ("medium", 2000, "none: by the sum of severities")


def test_a_calibration_may_be_given_by_its_content(base):
    content = shipped(BY_SEVERITY).to_dict()
    assert changing(base, calibration=content).path == changing(base, calibration=BY_SEVERITY).path


@pytest.mark.parametrize(
    ("choices", "says"), [({"speed": 0}, "speed must"), ({"length": 0}, "length must"), ({"difficulty": "x"}, "no difficulty")]
)
def test_wrong_settings_are_named(base, choices, says):
    with pytest.raises(ValueError, match=says):
        changing(base, **choices)


def test_the_datasets_are_registered():
    assert {"imagenet_ccc", "cifar10_ccc", "digits_ccc", "folder_ccc"} <= set(DATASETS)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_whole_severities_are_the_published_corruptions_and_zero_is_the_image(name):
    for severity in SEVERITIES:
        one, other = (f(IMAGES[0], name, severity, np.random.RandomState(3)) for f in (corrupt, corrupt_at))
        assert (one == other).all()
    assert (corrupt_at(IMAGES[0], name, 0, np.random.RandomState(3)) == IMAGES[0]).all()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_severity_between_gives_bytes(name):
    for severity in np.arange(0.25, 5, 0.25):
        found = corrupt_at(IMAGES[1], name, float(severity), np.random.RandomState(3))
        assert found.dtype == np.uint8
        assert found.shape == IMAGES[1].shape


@pytest.mark.parametrize("name", ["gaussian_noise", "shot_noise", "impulse_noise", "fog", "brightness", "frost"])
def test_a_low_severity_changes_little_and_a_higher_one_more(name):
    changes = [
        np.abs(corrupt_at(SMOOTH, name, severity, np.random.RandomState(3)).astype(float) - SMOOTH).mean()
        for severity in (0.25, 0.5, 0.75, 1)
    ]
    assert changes[0] < 0.45 * changes[3]
    assert changes == sorted(changes)


def test_parameters_between_two_severities_lie_between_theirs():
    assert settings_at("gaussian_noise", 1.5)["scale"] == pytest.approx(0.10)
    assert settings_at("jpeg_compression", 4.5)["quality"] == 8
    assert settings_at("elastic_transform", 2.5)["amplitude"] == pytest.approx(244 / 224 * np.sqrt(2 * 0.05))
    with pytest.raises(ValueError, match="a severity is a number from 0 to 5, not 6"):
        corrupt_at(SMOOTH, "fog", 6, np.random.RandomState(0))
