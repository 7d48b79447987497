"""PACS, Office-Home, and image folders `domain/class/image` or `class/image`."""

from collections.abc import Sequence
from pathlib import Path

from dualtta.data.datasets.base import FileDataset
from dualtta.data.images import existing_folder, folders_of, images_of
from dualtta.data.published import OFFICE_HOME, PACS


class Folder(FileDataset):
    """An image folder: `domain/class/image`, or `class/image` for a single domain. Folders give the names."""

    name = "folder"

    def __init__(self, root: str | Path, *, classes: Sequence[str] | None = None, domains: Sequence[str] | None = None) -> None:
        root = existing_folder(root)
        flat = domains is None and is_flat(root)
        domains = ["all"] if flat else domains if domains is not None else folders_of(root)
        homes = {domain: root if flat else root / domain for domain in domains}
        missing = [domain for domain, home in homes.items() if not home.is_dir()]
        if missing:
            raise ValueError(f"{root} lacks the domain {', '.join(missing)}; `dualtta data check {root}` lists what it holds")
        found = {domain: folders_of(home) for domain, home in homes.items()}
        classes = classes if classes is not None else sorted({name for names in found.values() for name in names})
        unknown = sorted({name for names in found.values() for name in names} - set(classes))
        if unknown:
            raise ValueError(f"{root} has folders that are no class: {', '.join(unknown[:5])}; move them elsewhere")
        numbers = {name: number for number, name in enumerate(classes)}
        files, labels, domain_of = [], [], []
        for number, (domain, home) in enumerate(homes.items()):
            for name in found[domain]:
                images = images_of(home / name)
                files += [str((home / name / image).relative_to(root)) for image in images]
                labels += [numbers[name]] * len(images)
                domain_of += [number] * len(images)
        if not files:
            raise ValueError(f"{root} holds no images; there must be folders domain/class/image or class/image")
        super().__init__(root, files, labels, classes, domain=domain_of, domains=domains)


class Pacs(Folder):
    """PACS: 7 classes as art paintings, cartoons, photos and sketches (https://arxiv.org/abs/1710.03077)."""

    name = "pacs"

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, classes=PACS.classes, domains=tuple(PACS.domains))


class OfficeHome(Folder):
    """Office-Home: 65 classes as art, clip art, product shots and real-world photos (https://arxiv.org/abs/1706.07522)."""

    name = "office_home"

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, classes=OFFICE_HOME.classes, domains=tuple(OFFICE_HOME.domains))


def is_flat(root: Path) -> bool:
    """Whether most images are in the subfolders rather than one level below; single stray images do not count."""
    homes = [root / name for name in folders_of(root)]
    below = [home / name for home in homes for name in folders_of(home)]
    count = sum(len(images_of(home)) for home in homes)
    return count > 0 and (not below or count >= sum(len(images_of(home)) for home in below))
