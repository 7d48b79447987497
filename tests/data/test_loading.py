"""Preprocessing as torchvision and timm do it, warnings where it does not fit, and batches in the stream's order."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms

from dualtta.data import Preprocess, load, open_dataset
from dualtta.data.datasets.base import ArrayDataset
from dualtta.data.loading import default_workers
from dualtta.data.preprocess import PREPROCESS, PreprocessWarning
from dualtta.streams.scenarios import make_scenario


def noise(width, height, seed=0):
    return Image.fromarray(np.random.RandomState(seed).randint(0, 256, (height, width, 3)).astype(np.uint8))


@given(width=st.integers(30, 90), height=st.integers(30, 90))
@settings(max_examples=25, deadline=None)
def test_imagenets_preprocessing_is_torchvisions(width, height):
    image = noise(width, height)
    theirs = transforms.Compose(
        [
            transforms.Resize(32),
            transforms.CenterCrop(28),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    torch.testing.assert_close(Preprocess(size=28)(image), theirs(image), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["vit_base_patch16_224", "resnet50", "tf_efficientnet_lite0"])
def test_a_timm_models_preprocessing_is_timms(name):
    cfg = timm.get_pretrained_cfg(name).to_dict()
    data = timm.data.resolve_data_config(pretrained_cfg=cfg, use_test_size=True)
    theirs = timm.data.create_transform(**data)
    image = noise(300, 260)
    torch.testing.assert_close(Preprocess.of(cfg)(image), theirs(image), rtol=0, atol=1e-5)


def test_named_preprocessings_are_those_of_the_weights():
    for name, ready in [("vit_base_patch16_224", "vit"), ("tf_efficientnet_lite0", "efficientnet_lite0")]:
        assert Preprocess.of(timm.get_pretrained_cfg(name).to_dict()) == PREPROCESS[ready]
    assert PREPROCESS["resnet50_v1"].mean == (0.48502, 0.45796, 0.40760)
    assert PREPROCESS["colored_mnist"].mean == (0.1307, 0.1307, 0.0)


def test_an_image_of_the_target_size_is_not_resized_again():
    image = noise(224, 224)
    assert (PREPROCESS["imagenet"].pixels(image).numpy() == np.asarray(image).transpose(2, 0, 1)).all()
    assert PREPROCESS["imagenet"].pixels(noise(256, 256)).shape == (3, 224, 224)


def test_no_size_leaves_small_images_as_they_are():
    x = PREPROCESS["digits"](np.full((28, 28), 255, np.uint8))
    assert x.shape == (3, 28, 28)
    assert x[0, 0, 0] == pytest.approx((1 - 0.1307) / 0.3081)


class Few(ArrayDataset):
    def __init__(self, shape=(6, 32, 32, 3)):
        super().__init__(np.arange(np.prod(shape)).reshape(shape).astype(np.uint8), np.arange(shape[0]) % 2, ["a", "b"])


def test_a_mismatch_is_warned_about_and_a_match_is_not():
    vit = timm.create_model("vit_tiny_patch16_224", pretrained=False)
    with pytest.warns(PreprocessWarning, match="enlarged to 224 x 224"):
        PREPROCESS["vit"].warn(Few())
    with pytest.warns(PreprocessWarning, match=r"trained with mean \(0.5, 0.5, 0.5\), not \(0.485"):
        PREPROCESS["imagenet"].warn(Few((2, 224, 224, 3)), vit)
    with pytest.warns(PreprocessWarning, match="trained with size 224, not None"):
        Preprocess((0.5,) * 3, (0.5,) * 3, None).warn(Few(), vit)
    with pytest.warns(PreprocessWarning, match="grey"):
        PREPROCESS["cifar10"].warn(Few((2, 32, 32)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PREPROCESS["vit"].warn(Few((2, 224, 224, 3)), vit)
        PREPROCESS["cifar10"].warn(Few())
        PREPROCESS["imagenet"].warn(Few((2, 224, 224, 3)), torch.nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"interpolation": "cubic"}, "interpolation must be"),
        ({"std": (0.0, 1.0, 1.0)}, "std above zero"),
        ({"mean": (0.5,)}, "three numbers each"),
        ({"crop": 0.0}, "crop between"),
    ],
)
def test_a_wrong_preprocessing_is_refused(choices, message):
    with pytest.raises(ValueError, match=message):
        Preprocess(**choices)


def test_a_model_without_preprocessing_is_refused_with_alternatives():
    with pytest.raises(ValueError, match="pass a Preprocess"):
        Preprocess.of(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_the_streams_order_with_labels_domains_and_groups(layouts, tmp_path, workers):
    data = open_dataset("waterbirds", layouts.waterbirds(tmp_path, each=3), split="all")
    stream = make_scenario("mild", batch_size=5).stream(data, seed=3)
    preprocess = Preprocess(size=8)
    batches = list(load(data, stream, preprocess, workers=workers))
    assert [(batch.segment, batch.index.tolist()) for batch in batches] == [(s, i.tolist()) for s, i in stream.batches()]
    assert [batch.reset for batch in batches] == [True, False, False] * 3
    for batch in batches:
        index = batch.index.numpy()
        assert (batch.label.numpy() == data.labels[index]).all()
        assert (batch.group.numpy() == data.group[index]).all()
        assert (batch.domain.numpy() == data.domain[index]).all()
        torch.testing.assert_close(batch.x, torch.stack([preprocess(data.image(i)) for i in index]))


def test_loading_does_not_change_the_global_random_state():
    data, stream = Few(), make_scenario("single").stream(Few())
    torch.manual_seed(0)
    before = torch.get_rng_state()
    for workers in (0, 1):
        assert len(list(load(data, stream, PREPROCESS["cifar10"], workers=workers))) == 6
    assert (torch.get_rng_state() == before).all()


OPENCV_ON_BOTH_SIDES = """
import cv2, numpy as np
from dualtta.data import load
from dualtta.data.datasets.base import ArrayDataset
from dualtta.data.preprocess import PREPROCESS
from dualtta.streams.scenarios import make_scenario

class Blurred(ArrayDataset):
    def image(self, index):
        return cv2.GaussianBlur(cv2.resize(super().image(index), (512, 512)), (31, 31), 9)

data = Blurred(np.zeros((8, 64, 64, 3), np.uint8), [0] * 8, ["a"])
cv2.setNumThreads(4)
data.image(0)
for _ in range(2):
    assert len(list(load(data, make_scenario("single").stream(data), PREPROCESS["cifar10"], workers=2))) == 8
assert cv2.getNumThreads() == 4
"""


@pytest.mark.slow
def test_forked_workers_can_use_opencv():
    done = subprocess.run([sys.executable, "-c", OPENCV_ON_BOTH_SIDES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


class Counting(Few):
    seen = 0

    def image(self, index):
        self.seen += 1
        return super().image(index)


def test_only_the_streams_images_are_decoded():
    data = Counting((64, 8, 8, 3))
    batches = load(data, make_scenario("mild", batch_size=4).stream(data), PREPROCESS["cifar10"], workers=0)
    next(batches)
    assert data.seen == 4


def test_images_of_different_size_need_a_size(layouts, tmp_path):
    layouts.picture(tmp_path / "a" / "1.png", size=(8, 8))
    layouts.picture(tmp_path / "a" / "2.png", size=(9, 8))
    data = open_dataset("folder", tmp_path)
    with pytest.raises(ValueError, match="give the preprocessing a size"):
        list(load(data, make_scenario("mild").stream(data), PREPROCESS["cifar10"], workers=0))


def test_an_unreadable_image_is_named_also_from_a_worker(layouts, tmp_path):
    data = open_dataset("pacs", layouts.pacs(tmp_path))
    data.path(0).write_bytes(b"<html>")
    for workers in (0, 1):
        with pytest.raises(ValueError, match="HTML page") as caught:
            list(load(data, make_scenario("mild").stream(data), Preprocess(size=8), workers=workers))
        assert str(caught.value).startswith(str(data.path(0)))
        assert "\n" not in str(caught.value)


def test_an_image_too_narrow_to_scale_is_named_instead_of_filling_the_memory(layouts, tmp_path):
    Image.new("RGB", (1, 8000)).save(layouts.picture(tmp_path / "lines" / "x.png"))
    data = open_dataset("folder", tmp_path)
    with pytest.raises(ValueError, match=r"x\.png: 1 x 8000 pixels are too narrow to scale to 224"):
        list(load(data, make_scenario("mild").stream(data), PREPROCESS["imagenet"], workers=0))


def test_jpeg_png_and_webp_are_read(layouts, tmp_path):
    for kind in ("jpg", "png", "webp"):
        layouts.picture(tmp_path / "a" / f"{kind}.{kind}", size=(8, 8))
    data = open_dataset("folder", tmp_path)
    batch = next(load(data, make_scenario("mild").stream(data), PREPROCESS["cifar10"], workers=0))
    assert batch.x.shape == (3, 3, 8, 8)


def test_the_number_of_workers_is_limited():
    assert 0 <= default_workers() <= 8


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_batches_arrive_on_the_gpu():
    batch = next(load(Few(), make_scenario("mild").stream(Few()), PREPROCESS["cifar10"], device="cuda", workers=1))
    assert batch.x.is_cuda
