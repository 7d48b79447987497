"""Real datasets, where they are available: image packs beside the repository, and full MNIST and CIFAR-10 in $DUALTTA_DATA."""

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from dualtta.data import Preprocess, load, open_dataset
from dualtta.data.verify.check import check_folder
from dualtta.data.verify.prepare import prepare
from dualtta.streams.scenarios import make_scenario

PACKS = sorted((Path(__file__).parents[3] / "shared" / "data").glob("*.tar"))
DATA = os.environ.get("DUALTTA_DATA")
pytestmark = pytest.mark.slow
needs_packs = pytest.mark.skipif(not PACKS, reason="no image packs in ../shared/data")
needs_data = pytest.mark.skipif(not DATA, reason="DUALTTA_DATA does not point at real data")


@pytest.fixture(scope="session")
def packs(tmp_path_factory):
    home = tmp_path_factory.mktemp("packs")
    for pack in PACKS:
        with tarfile.open(pack) as file:
            file.extractall(home, filter="data")
    return home


@needs_packs
def test_pacs_has_9991_images_that_all_open(packs):
    (report,) = check_folder(packs / "pacs")
    assert report.ok, report.problems[:3]
    assert (report.dataset, report.images, report.classes) == ("pacs", 9991, 7)
    assert report.domains == {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}


@needs_packs
def test_waterbirds_has_11788_images_in_the_published_groups(packs):
    data = {split: open_dataset("waterbirds", packs / "waterbirds", split=split) for split in ("train", "val", "test")}
    assert sum(map(len, data.values())) == 11788
    assert list(data["train"].group_counts().values()) == [3498, 184, 56, 1057]
    assert list(data["test"].group_counts().values()) == [2255, 2255, 642, 642]
    (report,) = check_folder(packs / "waterbirds")
    assert report.ok, report.problems[:3]
    assert report.images == 11788


@needs_packs
def test_imagenet_has_two_images_of_every_class(packs):
    data = open_dataset("imagenet", packs / "imagenet-val")
    assert np.bincount(data.labels).tolist() == [2] * 1000
    assert data.image(0).size == (224, 224)
    (report,) = check_folder(packs / "imagenet-val")
    assert report.ok
    assert "a subset: 2 of every class" in report.notes[0]


@needs_packs
def test_a_damaged_copy_of_a_real_dataset_is_detected(packs):
    path = next((packs / "pacs" / "photo" / "dog").iterdir())
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[: len(whole) // 2])
        data = open_dataset("pacs", packs / "pacs")
        index = next(i for i in range(len(data)) if data.path(i) == path)
        with pytest.raises(ValueError, match="truncated"):
            data.image(index)
    finally:
        path.write_bytes(whole)


@needs_packs
def test_packs_in_two_parts_are_prepared_as_one(tmp_path):
    """Both parts of Waterbirds, as they are downloaded."""
    (tmp_path / "in").mkdir()
    for pack in PACKS:
        if pack.name.startswith("waterbirds"):
            (tmp_path / "in" / pack.name).symlink_to(pack)
    prepare(tmp_path / "in", tmp_path / "out")
    assert len(open_dataset("waterbirds", tmp_path / "out", split="all")) == 11788


@needs_packs
def test_a_stream_over_real_images_is_loaded_in_order(packs):
    data = open_dataset("pacs", packs / "pacs")
    stream = make_scenario("mixed", batch_size=32, limit=128).stream(data)
    batches = list(load(data, stream, Preprocess(size=64), workers=1))
    assert np.concatenate([batch.index for batch in batches]).tolist() == stream.segments[0].indices.tolist()
    assert len({int(d) for batch in batches for d in batch.domain}) == 4
    assert all(-3 < batch.x.mean() < 3 for batch in batches)


@needs_data
def test_mnist_has_60000_digits_and_colored_mnist_its_statistics():
    data = open_dataset("colored_mnist", DATA, split="all")
    assert data.counts() == {"flip20": 20000, "flip10": 20000, "flip90": 20000}
    numbers = np.fromfile(Path(DATA) / "MNIST" / "raw" / "train-labels-idx1-ubyte", np.uint8)[8:]
    source, test = data.domain < 2, data.domain == 2
    flipped = data.labels != (numbers >= 5)
    red = data.group % 2 == 1
    assert flipped[source].mean() == pytest.approx(0.25, abs=0.01)
    assert not flipped[test].any()
    for domain, rate in enumerate((0.2, 0.1)):
        here = data.domain == domain
        assert (red == (data.labels == 1))[here].mean() == pytest.approx(rate, abs=0.01)
    assert (red == (data.labels == 1))[test].mean() == pytest.approx(0.7, abs=0.01)  # 0.9 of 0.75 and 0.1 of 0.25
    assert (data.group // 2 == data.labels).all()
    shares = np.array(list(open_dataset("colored_mnist", DATA).group_counts().values())) / 20000
    assert shares == pytest.approx([0.35, 0.15, 0.15, 0.35], abs=0.02)


@needs_data
def test_cifar10_has_60000_images_and_stays_on_disk():
    train, test = (open_dataset("cifar10", DATA, split=split) for split in ("train", "test"))
    assert np.bincount(train.labels).tolist() == [5000] * 10
    assert np.bincount(test.labels).tolist() == [1000] * 10
    assert isinstance(train.images, np.memmap)
    with np.load(Path(DATA) / "cifar10.npz") as file:
        assert (test.image(9999) == file["x_test"][9999]).all()
