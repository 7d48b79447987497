"""Which dataset a folder holds, recognised by its layout; the folder's name does not matter."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dualtta.data.datasets.base import Dataset
from dualtta.data.datasets.cifar import BATCHES, FOLDER, Cifar10, PublishedCifar10C
from dualtta.data.datasets.colored_mnist import ColoredMnist, idx_names, mnist_homes
from dualtta.data.datasets.folders import Folder, is_flat
from dualtta.data.datasets.imagenet import ImageNet, PublishedImageNetC, corruption_home
from dualtta.data.datasets.waterbirds import Waterbirds
from dualtta.data.images import folders_of, images_of
from dualtta.data.published import (
    CIFAR10,
    CIFAR10_C,
    COLORED_MNIST,
    CORRUPTIONS,
    IMAGENET,
    IMAGENET_C,
    OFFICE_HOME,
    PACS,
    SEVERITIES,
    WATERBIRDS,
    Published,
    wnids,
)

DEPTH = 3  # levels of subfolders to search: archives often wrap their content once or twice
Parts = list[Callable[[], Dataset]]  # opened separately, so that the others are checked where one cannot be opened
MOST_FOLDERS = 60  # a folder with more subfolders holds classes, not datasets


@dataclass(frozen=True)
class Layout:
    """A dataset's layout on disk. `parts` opens all of it: all splits, all severities."""

    name: str
    published: Published | None
    fits: Callable[[Path], bool]
    parts: Callable[[Path], "Parts"]
    shares: bool = False  # other datasets may be in the same folder, as beside MNIST/raw and cifar10.npz


@dataclass(frozen=True)
class Found:
    """A dataset that was recognised, and its folder."""

    layout: Layout
    root: Path


def recognise(root: Path) -> list[Found]:
    """The datasets in a folder or its subfolders; a plain image folder only where no known dataset is found."""
    found = _search(root, DEPTH)
    if not found and _is_tree(root):
        found = [Found(OWN, root)]
    return found


def _search(root: Path, depth: int) -> list[Found]:
    here = [Found(layout, root) for layout in LAYOUTS if layout.fits(root)]
    whole = [found for found in here if not found.layout.shares]
    if whole:
        return whole[:1]
    names = folders_of(root)
    below = names if depth and len(names) <= MOST_FOLDERS else []
    claimed = {"MNIST", "raw", FOLDER} if here else set()
    return here + [found for name in below if name not in claimed for found in _search(root / name, depth - 1)]


def _named_tree(published: Published) -> Callable[[Path], bool]:
    """Whether at least three class folders are where they should be: a copy may be incomplete."""

    def fits(root: Path) -> bool:
        present = set(folders_of(root)) & set(published.domains)
        return sum(len(set(folders_of(root / domain)) & set(published.classes)) for domain in present) >= 3

    return fits


def _is_mnist(root: Path) -> bool:
    stems = [stem for what in ("images-idx3-ubyte", "labels-idx1-ubyte") for stem in idx_names(f"train-{what}")]
    return any((home / f"{stem}{end}").is_file() for home in mnist_homes(root) for stem in stems for end in ("", ".gz"))


def _is_cifar10(root: Path) -> bool:
    names = [name for names in BATCHES.values() for name in names]
    return (root / "cifar10.npz").is_file() or any((home / name).is_file() for home in (root / FOLDER, root) for name in names)


def _is_cifar10_c(root: Path) -> bool:
    return any((root / f"{name}.npy").is_file() for name in CORRUPTIONS)


def _severities(root: Path) -> list[int]:
    """The severities for which any corruption has a folder."""
    homes = [corruption_home(root, name) for name in CORRUPTIONS]
    return [severity for severity in SEVERITIES if any((home / str(severity)).is_dir() for home in homes)]


def _is_imagenet(root: Path) -> bool:
    """By WordNet ids, or by numbers above ten: ten folders 0 to 9 may be any dataset of digits."""
    names = folders_of(root)
    known = set(wnids())
    ids = sum(name in known for name in names)
    numbers = [int(name) for name in names if name.isdecimal() and name.isascii() and len(name) < 5]
    return ids > len(names) / 2 or (len(numbers) == len(names) and max(numbers, default=0) >= 10 and max(numbers) < 1000)


def _is_tree(root: Path) -> bool:
    return is_flat(root) or any(images_of(root / a / b) for a in folders_of(root) for b in folders_of(root / a))


def _cifar10_c_parts(root: Path) -> Parts:
    present = [name for name in CORRUPTIONS if (root / f"{name}.npy").is_file()]
    return [partial(PublishedCifar10C, root, [name], SEVERITIES) for name in present]


def _imagenet_c_parts(root: Path) -> Parts:
    pairs = [(name, severity) for name in CORRUPTIONS for severity in SEVERITIES]
    return [
        partial(_one_severity, root, name, severity)
        for name, severity in pairs
        if (corruption_home(root, name) / str(severity)).is_dir()
    ]


def _one_severity(root: Path, name: str, severity: int) -> Dataset:
    data = PublishedImageNetC(root, [name], [severity])
    data.domains = (f"{name}_{severity}",)  # the name it has where there are several severities
    return data


MNIST = Layout("colored_mnist", COLORED_MNIST, _is_mnist, lambda r: [partial(ColoredMnist, r, split="all")], shares=True)
LAYOUTS = (
    Layout("pacs", PACS, _named_tree(PACS), lambda root: [partial(Folder, root)]),
    Layout("office_home", OFFICE_HOME, _named_tree(OFFICE_HOME), lambda root: [partial(Folder, root)]),
    Layout("waterbirds", WATERBIRDS, lambda r: (r / "metadata.csv").is_file(), lambda r: [partial(Waterbirds, r, split="all")]),
    Layout("imagenet_c", IMAGENET_C, lambda root: bool(_severities(root)), _imagenet_c_parts),
    Layout("imagenet", IMAGENET, _is_imagenet, lambda root: [partial(ImageNet, root)]),
    Layout("cifar10_c", CIFAR10_C, _is_cifar10_c, _cifar10_c_parts),
    MNIST,
    Layout("cifar10", CIFAR10, _is_cifar10, lambda r: [partial(Cifar10, r, split=s) for s in BATCHES], shares=True),
)
OWN = Layout("folder", None, _is_tree, lambda root: [partial(Folder, root)])
