"""Where a grid finds its data and stores its records, and the device it runs on."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dualtta.bench.cell import Cell, distinct
from dualtta.data.registry import DATASETS, needs_root
from dualtta.records.verification import verified

if TYPE_CHECKING:
    from dualtta.train import Source

# common names of a dataset's folder, beside the dataset's own name
DATASET_FOLDERS = {
    "imagenet_c": ("ImageNet-C", "imagenet-val", "imagenet"),
    "imagenet": ("imagenet-val", "ImageNet", "ILSVRC2012"),
    "office_home": ("OfficeHome", "OfficeHomeDataset_10072016"),
    "pacs": ("PACS",),
    "waterbirds": ("waterbird_complete95_forest2water2",),
    "cifar10_c": ("CIFAR-10-C",),
    "imagenet_stress": ("imagenet-val", "ImageNet", "ILSVRC2012", "imagenet"),
    "cifar10_stress": ("cifar10",),
    "folder_stress": ("folder",),
    "imagenet_ccc": ("imagenet-val", "ImageNet", "ILSVRC2012", "imagenet"),
    "cifar10_ccc": ("cifar10",),
    "folder_ccc": ("folder",),
}


@dataclass(frozen=True)
class Workspace:
    """Folders and device of a run. Results do not depend on them, up to the arithmetic of the device."""

    out: Path  # of the records
    root: Path | None = None  # of the data
    device: str = "cpu"
    threads: int = 1  # of one cell on the CPU; another number changes the order of sums
    workers: int = 0  # processes that decode images for one cell
    sources: Path | None = None  # of source models; None: `out / "models"`

    def dataset_folder(self, dataset: str) -> Path | None:
        """The folder of a dataset: one of its names below the data folder, or the data folder; None if it needs no folder."""
        if dataset not in DATASETS or not needs_root(dataset):
            return None  # `open_dataset` raises the error for an unknown name
        if self.root is None:
            raise ValueError(f"{dataset} lies in a folder: say where your data is with --root, or set DUALTTA_DATA")
        spellings = [dataset, dataset.replace("_", "-"), dataset.replace("_", "")]
        folders = [self.root / name for name in [*spellings, *DATASET_FOLDERS.get(dataset, ())]]
        return next((folder for folder in folders if folder.is_dir()), self.root)

    def weights_file(self, name: str | None) -> str | Path | None:
        """A weights file below the data folder; None and "pretrained" as they are."""
        return name if name in (None, "pretrained") or self.root is None else self.root / name

    def folder(self, cell: Cell) -> Path:
        """The folder of a cell's record."""
        return self.out / "cells" / cell.key

    @property
    def models(self) -> Path:
        """The folder of source models."""
        return self.sources or self.out / "models"


def pending(cells: Iterable[Cell], workspace: Workspace) -> list[Cell]:
    """The cells without a record that passes verification."""
    return [cell for cell in distinct(cells) if verified(workspace.folder(cell)) is None]


def untrained(cells: Iterable[Cell], workspace: Workspace) -> list["Source"]:
    """The source models of these cells that are not trained yet."""
    from dualtta.train.card import CARD

    wanted = {cell.source.key: cell.source for cell in cells if cell.source is not None}
    return [source for source in wanted.values() if not (workspace.models / source.key / CARD).is_file()]
