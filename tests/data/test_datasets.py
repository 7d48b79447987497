"""Every dataset, from a small made folder of the layout it is published in; what is wrong with one is said in a line."""

import pickle
import warnings

import numpy as np
import pytest
from PIL import Image

from dualtta.data import DATASETS, Corrupted, Dataset, open_dataset
from dualtta.data.datasets.base import ArrayDataset, Rows
from dualtta.data.published import CORRUPTIONS, OFFICE_HOME, PACS, class_names, wnids


def check_invariants(data: Dataset) -> None:
    """Properties of every dataset."""
    assert len(data) == len(data.labels) == len(data.domain) == len(data.group) > 0
    assert data.labels.dtype == data.domain.dtype == data.group.dtype == np.int64
    assert data.labels.max() < len(data.classes)
    assert sum(data.counts().values()) == len(data)
    assert data.name in DATASETS
    assert data.where(0)
    for index in (0, len(data) - 1):
        picture = data.image(index)
        pixels = np.asarray(picture)
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 2 or pixels.shape[2] == 3
        assert (pixels == np.asarray(data.image(index))).all()


def test_pacs(layouts, tmp_path):
    data = open_dataset("pacs", layouts.pacs(tmp_path / "PACS"))
    check_invariants(data)
    assert data.domains == ("art_painting", "cartoon", "photo", "sketch")
    assert data.classes == PACS.classes
    assert len(data) == 4 * 7 * 2
    path = data.path(len(data) - 1)
    assert path.parts[-3:] == ("sketch", "person", "pic_001.png")
    assert (data.domains[data.domain[-1]], data.classes[data.labels[-1]]) == ("sketch", "person")


def test_office_home(layouts, tmp_path):
    data = open_dataset("office_home", layouts.office_home(tmp_path / "OfficeHome"))
    check_invariants(data)
    assert data.domains == ("Art", "Clipart", "Product", "Real World")
    assert len(data.classes) == 65
    assert len(data) == 4 * 65
    assert data.classes == OFFICE_HOME.classes == tuple(sorted(OFFICE_HOME.classes))


def test_any_folder_of_domains_or_of_classes(layouts, tmp_path):
    layouts.picture(tmp_path / "a" / "day" / "cat" / "1.png")
    layouts.picture(tmp_path / "a" / "night" / "dog" / "2.webp")
    layouts.picture(tmp_path / "a" / "night" / "dog" / ".hidden.png")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    data = open_dataset("folder", tmp_path / "a")
    check_invariants(data)
    assert (data.domains, data.classes, len(data)) == (("day", "night"), ("cat", "dog"), 2)
    flat = open_dataset("folder", tmp_path / "a" / "night")
    assert (flat.domains, flat.classes, len(flat)) == (("all",), ("dog",), 1)


def test_stray_images_and_folders_do_not_change_the_recognised_layout(layouts, tmp_path):
    layouts.pacs(tmp_path / "domains", each=1)
    layouts.picture(tmp_path / "domains" / "photo" / "cover.jpg")
    whole = open_dataset("folder", tmp_path / "domains")
    assert (len(whole.domains), len(whole.classes), len(whole)) == (4, 7, 28)
    for name in ("cat/1.jpg", "dog/1.jpg", "dog/drafts/1.jpg"):
        layouts.picture(tmp_path / "classes" / name)
    layouts.picture(tmp_path / "classes" / "cat" / "2.jpg")
    flat = open_dataset("folder", tmp_path / "classes")
    assert (flat.domains, flat.classes, len(flat)) == (("all",), ("cat", "dog"), 3)
    for name in ("photo/cover.jpg", "photo/cat/1.jpg", "photo/dog/1.jpg"):
        layouts.picture(tmp_path / "one" / name)
    assert open_dataset("folder", tmp_path / "one").domains == ("photo",)


@pytest.mark.parametrize(("split", "size"), [("train", 12), ("val", 12), ("test", 12), ("all", 36)])
def test_waterbirds(layouts, tmp_path, split, size):
    data = open_dataset("waterbirds", layouts.waterbirds(tmp_path, each=3), split=split)
    check_invariants(data)
    assert len(data) == size
    assert data.classes == ("landbird", "waterbird")
    assert set(data.group_counts().values()) == {size // 4}
    assert (data.group // 2 == data.labels).all()


def test_a_split_without_images_is_refused_by_its_name(layouts, tmp_path):
    table = layouts.waterbirds(tmp_path) / "metadata.csv"
    rows = table.read_text().splitlines()
    table.write_text("\n".join(row for row in rows if row.split(",")[3] != "1"))
    assert len(open_dataset("waterbirds", tmp_path)) == 4
    with pytest.raises(ValueError, match="has no images of val"):
        open_dataset("waterbirds", tmp_path, split="val")


@pytest.mark.parametrize("packed", [False, True])
def test_colored_mnist_from_idx_files_gzipped_or_not(layouts, tmp_path, packed):
    data = open_dataset("colored_mnist", layouts.mnist(tmp_path, packed=packed), split="all")
    check_invariants(data)
    assert data.counts() == {"flip20": 100, "flip10": 100, "flip90": 100}
    assert data.image(0).shape == (28, 28, 3)


def colors(data):
    pixels = np.stack([data.image(i) for i in range(len(data))])
    assert not pixels[..., 2].any()
    red, green = pixels[..., 0].any((1, 2)), pixels[..., 1].any((1, 2))
    assert (red ^ green).all()  # red is channel 0, green channel 1, never both
    return red


def test_colored_mnist_has_the_published_statistics(layouts, tmp_path):
    layouts.mnist(tmp_path, size=12000)
    data = open_dataset("colored_mnist", tmp_path, split="all")
    numbers = np.frombuffer((tmp_path / "MNIST/raw/train-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
    clean, red = numbers >= 5, colors(data)
    source, test = data.domain < 2, data.domain == 2
    flipped = data.labels != clean
    assert flipped[source].mean() == pytest.approx(0.25, abs=0.02)
    assert not flipped[test].any()
    for domain, rate in enumerate((0.2, 0.1)):
        here = data.domain == domain
        assert (red == (data.labels == 1))[here].mean() == pytest.approx(rate, abs=0.02)
    # in the test the colour follows the flipped label, which is not told: 0.9 of 0.75 and 0.1 of 0.25 go against the clean one
    assert (red == (data.labels == 1))[test].mean() == pytest.approx(0.9 * 0.75 + 0.1 * 0.25, abs=0.02)
    assert (data.group == 2 * data.labels + red).all()
    shares = np.array(list(open_dataset("colored_mnist", tmp_path).group_counts().values())) / 4000
    assert shares == pytest.approx([0.35, 0.15, 0.15, 0.35], abs=0.03)  # the colour speaks against the label in 0.7 of them


def test_a_digits_color_depends_on_the_seed_and_not_on_the_split(layouts, tmp_path):
    layouts.mnist(tmp_path)
    whole, test = (open_dataset("colored_mnist", tmp_path, split=split) for split in ("all", "test"))
    assert (whole.group[whole.domain == 2] == test.group).all()
    assert (whole.image(200) == test.image(0)).all()
    assert (open_dataset("colored_mnist", tmp_path, seed=1).group != test.group).any()


@pytest.mark.parametrize("make", ["cifar10_npz", "cifar10_batches"])
def test_cifar10_from_npz_or_from_the_folder_torchvision_unpacks(layouts, tmp_path, make):
    arrays = layouts.cifar10_arrays()
    for split in ("train", "test"):
        data = open_dataset("cifar10", getattr(layouts, make)(tmp_path), split=split)
        check_invariants(data)
        assert (np.stack([data.image(i) for i in range(len(data))]) == arrays[f"x_{split}"]).all()
        assert (data.labels == arrays[f"y_{split}"]).all()


def test_an_npz_is_mapped_where_it_can_be_and_read_where_it_is_compressed(layouts, tmp_path):
    layouts.cifar10_npz(tmp_path)
    assert isinstance(open_dataset("cifar10", tmp_path).images, np.memmap)
    np.savez_compressed(tmp_path / "cifar10.npz", **layouts.cifar10_arrays())
    packed = open_dataset("cifar10", tmp_path)
    assert (packed.images == layouts.cifar10_arrays()["x_test"]).all()


def test_a_cifar_batch_that_would_execute_code_is_refused(layouts, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    layouts.cifar10_batches(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(pickle.dumps({b"data": Trap(), b"labels": []}))
    with pytest.raises(ValueError, match="do not trust this file"):
        open_dataset("cifar10", tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_a_cifar_batch_of_other_numbers_is_refused(layouts, tmp_path):
    layouts.cifar10_batches(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "test_batch"
    for data, message in [(np.zeros((2, 3072)), "f8, not bytes"), (np.zeros((3, 3072), np.uint8), r"\(3, 3072\), not")]:
        path.write_bytes(pickle.dumps({b"data": data, b"labels": [0, 1]}))
        with pytest.raises(ValueError, match=message):
            open_dataset("cifar10", tmp_path)


def test_cifar10_c_from_its_files(layouts, tmp_path):
    layouts.cifar10_c(tmp_path)
    data = open_dataset("cifar10_c", tmp_path, severities=(1, 5))
    check_invariants(data)
    assert len(data) == 15 * 2 * 4
    assert data.domains[:3] == ("gaussian_noise_1", "gaussian_noise_5", "shot_noise_1")
    fog = np.load(tmp_path / "fog.npy")
    rows = np.flatnonzero(data.domain == data.domains.index("fog_5"))
    assert (np.stack([data.image(i) for i in rows]) == fog[16:]).all()
    assert open_dataset("cifar10_c", tmp_path, corruptions=("fog",)).domains == ("fog",)


@pytest.mark.parametrize("by_number", [False, True])
def test_imagenet_by_wordnet_id_or_by_class_number(layouts, tmp_path, by_number):
    data = open_dataset("imagenet", layouts.imagenet(tmp_path, by_number=by_number))
    check_invariants(data)
    assert data.labels.tolist() == [0, 0, 1, 1, 999, 999]  # a part of the classes keeps its numbers
    assert (data.classes[0], len(data.classes)) == ("tench", 1000)
    assert data.domains == ("validation",)


def test_imagenet_has_a_thousand_distinct_class_names():
    assert len(wnids()) == len(set(wnids())) == 1000
    assert list(wnids()) == sorted(wnids())
    assert len(set(class_names())) == 1000


@pytest.mark.parametrize("below_kinds", [False, True])
def test_imagenet_c_from_its_folders_below_the_kinds_or_not(layouts, tmp_path, below_kinds):
    data = open_dataset("imagenet_c", layouts.imagenet_c(tmp_path, below_kinds=below_kinds))
    check_invariants(data)
    assert data.domains == CORRUPTIONS
    assert len(data) == 15 * 2
    assert "/5/" in data.where(0)
    two = open_dataset("imagenet_c", tmp_path, corruptions=("fog", "snow"), severities=(1, 5))
    assert two.domains == ("fog_1", "fog_5", "snow_1", "snow_5")


def brighten(image, name, severity, rng):
    assert name in ("fog", "snow")
    return np.clip(image.astype(int) + 10 * severity + rng.randint(0, 5), 0, 255).astype(np.uint8)


class Grey(ArrayDataset):
    def __init__(self):
        super().__init__(np.full((4, 6, 6, 3), 100, np.uint8), [0, 1, 0, 1], ["a", "b"], group=[0, 1, 1, 0], groups=["g", "h"])


def test_any_dataset_can_be_corrupted_in_any_order_of_access():
    data = Corrupted(Grey(), ("fog", "snow"), (1, 5), corrupt=brighten)
    assert data.domains == ("fog_1", "fog_5", "snow_1", "snow_5")
    assert data.labels.tolist() == [0, 1, 0, 1] * 4
    assert data.group.tolist() == [0, 1, 1, 0] * 4
    forward = [data.image(i) for i in range(len(data))]
    backward = [data.image(i) for i in reversed(range(len(data)))][::-1]
    assert all((a == b).all() for a, b in zip(forward, backward, strict=True))
    assert len({int(image[0, 0, 0]) for image in forward[:4]}) > 1
    assert forward[4].mean() > forward[0].mean()
    other = Corrupted(Grey(), ("fog", "snow"), (1, 5), corrupt=brighten, seed=1)
    assert any((a != other.image(i)).any() for i, a in enumerate(forward))


def test_the_published_corruptions_on_the_fly(layouts, tmp_path):
    data = open_dataset("imagenet_c", layouts.imagenet(tmp_path / "val"), corruptions=("gaussian_noise", "contrast"))
    check_invariants(data)
    assert len(data) == 12
    assert data.image(0).shape == (224, 224, 3)
    cifar = open_dataset("cifar10_c", layouts.cifar10_npz(tmp_path / "cifar"), corruptions=("contrast",), severities=(3,))
    check_invariants(cifar)
    assert cifar.image(0).std() < layouts.cifar10_arrays()["x_test"][0].std()


def test_rows_of_a_dataset_are_a_dataset():
    rows = Rows(Grey(), [3, 0])
    assert rows.labels.tolist() == [1, 0]
    assert rows.group.tolist() == [0, 0]
    assert rows.image(0).shape == (6, 6, 3)


def spoil(path, data=b""):
    path.write_bytes(data)


def cut(path, count):
    path.write_bytes(path.read_bytes()[:-count])


@pytest.mark.parametrize(
    ("name", "make", "damage", "message"),
    [
        ("pacs", "pacs", lambda r: (r / "photo").rename(r / "fotos"), "lacks the domain photo"),
        ("pacs", "pacs", lambda r: (r / "photo" / "zebra").mkdir(), "no class: zebra"),
        ("waterbirds", "waterbirds", lambda r: (r / "metadata.csv").unlink(), "lacks metadata.csv"),
        ("waterbirds", "waterbirds", lambda r: spoil(r / "metadata.csv", b"<!DOCTYPE html>"), "an HTML page"),
        ("waterbirds", "waterbirds", lambda r: spoil(r / "metadata.csv", b"a,b\n1,2\n"), "lacks the columns"),
        (
            "waterbirds",
            "waterbirds",
            lambda r: spoil(r / "metadata.csv", b"img_filename,y,split,place\n../../x.jpg,0,0,0\n"),
            "line 2: .* is no path below",
        ),
        (
            "waterbirds",
            "waterbirds",
            lambda r: spoil(r / "metadata.csv", b"img_filename,y,split,place\nx.jpg,2,0,0\n"),
            "line 2: y and place",
        ),
        (
            "colored_mnist",
            "mnist",
            lambda r: (r / "MNIST/raw/train-labels-idx1-ubyte").unlink(),
            "lacks MNIST/raw/train-l",
        ),
        (
            "colored_mnist",
            "mnist",
            lambda r: spoil(r / "MNIST/raw/train-images-idx3-ubyte", b"version https://git-lfs.github.com/spec/v1"),
            "Git LFS pointer",
        ),
        (
            "colored_mnist",
            "mnist",
            lambda r: cut(r / "MNIST/raw/train-images-idx3-ubyte", 5),
            "its header declares 235216 bytes, it has 235211",
        ),
        (
            "colored_mnist",
            "mnist",
            lambda r: spoil(r / "MNIST/raw/train-labels-idx1-ubyte", b"\0\0\x08\1\0\0\0\7" + bytes(7)),
            "do not match",
        ),
        ("cifar10", "cifar10_npz", lambda r: spoil(r / "cifar10.npz", b"<html>404"), "an HTML page"),
        ("cifar10", "cifar10_npz", lambda r: np.savez(r / "cifar10.npz", x_train=0), "has no array"),
        (
            "cifar10",
            "cifar10_batches",
            lambda r: spoil(r / "cifar-10-batches-py/test_batch", b"\x80\x02]q"),
            "no CIFAR-10",
        ),
        ("cifar10", "cifar10_batches", lambda r: (r / "cifar-10-batches-py/test_batch").unlink(), "holds neither"),
        ("cifar10_c", "cifar10_c", lambda r: (r / "fog.npy").unlink(), "lacks fog.npy"),
        ("cifar10_c", "cifar10_c", lambda r: np.save(r / "fog.npy", np.zeros(3)), "float64 of"),
        ("cifar10_c", "cifar10_c", lambda r: spoil(r / "fog.npy", b""), "an empty file"),
        ("cifar10_c", "cifar10_c", lambda r: np.save(r / "labels.npy", np.arange(10_000) // 1_000), "one severity"),
        ("cifar10_c", "cifar10_c", lambda r: np.save(r / "labels.npy", np.float64(3)), "a list of labels"),
        ("imagenet", "imagenet", lambda r: (r / "n99999999").mkdir(), "no ImageNet class: n99999999"),
        ("imagenet_c", "imagenet_c", lambda r: (r / "noise/shot_noise").rename(r / "noise/shot"), "lacks shot_noise"),
    ],
)
def test_a_damaged_dataset_is_refused_with_the_reason(layouts, tmp_path, name, make, damage, message):
    root = getattr(layouts, make)(tmp_path / "data")
    damage(root)
    with pytest.raises(ValueError, match=message) as caught:
        open_dataset(name, root)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "choices", "message"),
    [
        ("paccs", {}, "did you mean 'pacs'"),
        ("waterbirds", {"split": "tset"}, "no split 'tset'"),
        ("imagenet_c", {"corruptions": ("fogg",)}, "did you mean 'fog'"),
        ("imagenet_c", {"severities": (6,)}, "a severity is"),
        ("cifar10_c", {"severities": ()}, "at least one"),
        ("cifar10", {"splitt": 1}, "did you mean 'split'"),
    ],
)
def test_a_wrong_setting_is_named_with_a_valid_one(tmp_path, name, choices, message):
    with pytest.raises(ValueError, match=message):
        open_dataset(name, tmp_path, **choices)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        open_dataset("pacs", tmp_path / "none")
    with pytest.raises(ValueError, match="pass it as the second argument"):
        open_dataset("pacs")


def test_numbers_and_names_must_fit():
    with pytest.raises(ValueError, match="labels must be"):
        ArrayDataset(np.zeros((1, 2, 2), np.uint8), [3], ["a"])
    with pytest.raises(ValueError, match="labels must be"):
        ArrayDataset(np.zeros((1, 2, 2), np.uint8), [0.7], ["a"])
    with pytest.raises(ValueError, match="one of each per image"):
        ArrayDataset(np.zeros((1, 2, 2), np.uint8), [0], ["a"], domain=[0, 0])
    with pytest.raises(ValueError, match="as many images"):
        ArrayDataset(np.zeros((2, 2, 2), np.uint8), [0], ["a"])
    with pytest.raises(ValueError, match=r"\(N, H, W, 3\)"):
        ArrayDataset(np.zeros((1, 3, 32, 32), np.uint8), [0], ["a"])


def test_an_unreadable_image_is_named(layouts, tmp_path):
    data = open_dataset("pacs", layouts.pacs(tmp_path))
    data.path(3).write_bytes(b"<html>not found</html>")
    with pytest.raises(ValueError, match="HTML page") as caught:
        data.image(3)
    assert str(data.path(3)) in str(caught.value)


def test_grey_palette_and_transparent_images_come_as_rgb(layouts, tmp_path):
    for mode in ("L", "P", "RGBA", "1", "LA"):
        Image.new(mode, (4, 4)).save(layouts.picture(tmp_path / mode / "x.png"))
    data = open_dataset("folder", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {data.image(i).mode for i in range(len(data))} == {"RGB"}


def test_grey_images_of_16_bits_keep_their_shades(layouts, tmp_path):
    shades = np.arange(0, 65536, 4096, dtype=np.uint16).reshape(4, 4)
    Image.fromarray(shades).save(layouts.picture(tmp_path / "deep" / "x.png"))
    assert (np.asarray(open_dataset("folder", tmp_path).image(0)) == (shades >> 8)[..., None]).all()
