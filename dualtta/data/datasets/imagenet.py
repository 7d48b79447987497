"""ImageNet's validation images, and ImageNet-C (https://arxiv.org/abs/1903.12261) from disk or generated from them."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from dualtta.data.datasets.base import Dataset, FileDataset, Picture, Pixels
from dualtta.data.datasets.corrupted import Corrupted, corruption_domains
from dualtta.data.geometry import fit
from dualtta.data.images import existing_folder, folders_of, images_of
from dualtta.data.published import CORRUPTIONS, KINDS, class_names, wnids


class ImageNet(FileDataset):
    """ImageNet's validation images, one folder per class, named by WordNet id or by class index."""

    name = "imagenet"

    def __init__(self, root: str | Path) -> None:
        root = validation_home(existing_folder(root))
        files, labels = labelled_files(root, root)
        super().__init__(root, files, labels, class_names(), domains=("validation",))


class PublishedImageNetC(FileDataset):
    """The published ImageNet-C: `<corruption>/<severity>/<class>/`, perhaps in folders noise, blur, weather, digital."""

    name = "imagenet_c"

    def __init__(self, root: Path, corruptions: Sequence[str], severities: Sequence[int]) -> None:
        domains = corruption_domains(corruptions, severities)
        files: list[str] = []
        labels: list[int] = []
        sizes = []
        for name in corruptions:
            for severity in severities:
                found, numbers = labelled_files(root, corruption_home(root, name) / str(severity))
                files += found
                labels += numbers
                sizes.append(len(found))
        domain = np.repeat(np.arange(len(domains)), sizes)
        super().__init__(root, files, labels, class_names(), domain=domain, domains=domains)


def imagenet_c(
    root: str | Path,
    *,
    corruptions: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = (5,),
    seed: int = 2024,
    frost: str | Path | None = None,
) -> Dataset:
    """ImageNet-C: 15 corruptions of the validation images, from the published files or generated on access."""
    root = existing_folder(root)
    corruption_domains(corruptions, severities)  # raises on unknown names before any file is read
    if any(corruption_home(root, name).is_dir() for name in CORRUPTIONS):
        return PublishedImageNetC(root, corruptions, severities)
    return Corrupted(ImageNet(root), corruptions, severities, seed=seed, frost=frost, prepare=as_published, name="imagenet_c")


def as_published(image: Picture) -> Pixels:
    """The image that ImageNet-C corrupts: the central 224 x 224 of an image whose shorter side is 256."""
    return np.asarray(fit(image, size=224, crop=0.875, interpolation=Image.Resampling.BILINEAR))


def labelled_files(root: Path, home: Path) -> tuple[list[str], list[int]]:
    """The images of a folder of class folders, as paths below `root`, and their labels."""
    if not home.is_dir():
        raise ValueError(f"{root} lacks {home.relative_to(root)}")
    files, labels = [], []
    for folder, label in class_numbers(home).items():
        images = images_of(home / folder)
        files += [os.path.join(home.relative_to(root), folder, image) for image in images]
        labels += [label] * len(images)
    if not files:
        raise ValueError(f"{home} holds no images; there must be one folder per class, named n01440764, ... or 0 to 999")
    return files, labels


def class_numbers(home: Path) -> dict[str, int]:
    """The class of each folder, by its WordNet id or its number. With a subset of the classes the numbers stay the same."""
    known = {wnid: number for number, wnid in enumerate(wnids())}
    numbers = {name: int(name) if name.isdecimal() else known.get(name, -1) for name in folders_of(home)}
    wrong = [name for name, number in numbers.items() if not 0 <= number < len(known)]
    if wrong:
        named = "n01440764, ... or 0 to 999"
        raise ValueError(f"{home} has folders that are no ImageNet class: {', '.join(wrong[:5])}; classes are named {named}")
    return numbers


def corruption_home(root: Path, name: str) -> Path:
    """The folder of a corruption: in the dataset's folder, or below the folder of its kind."""
    homes = [root / name, *(root / kind / name for kind in KINDS)]
    return next((home for home in homes if home.is_dir()), homes[0])


def validation_home(root: Path) -> Path:
    """The folder itself, or its subfolder `val` where it holds the whole dataset."""
    return root / "val" if (root / "val").is_dir() and not looks_like_classes(root) else root


def looks_like_classes(root: Path) -> bool:
    """Whether all subfolders are named like ImageNet's classes."""
    names = folders_of(root)
    known = set(wnids())
    return bool(names) and all(name in known or (name.isdecimal() and int(name) < len(known)) for name in names)
