"""Waterbirds: birds on backgrounds that mostly match their kind (https://arxiv.org/abs/1911.08731)."""

import csv
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dualtta.data.datasets.base import FileDataset
from dualtta.data.images import describe_failure, existing_folder
from dualtta.data.published import WATERBIRDS

SPLITS = ("train", "val", "test")  # 0, 1, 2 in metadata.csv
GROUPS = ("landbird on land", "landbird on water", "waterbird on land", "waterbird on water")  # 2 * y + place
COLUMNS = ("img_filename", "y", "split", "place")


class Waterbirds(FileDataset):
    """Waterbirds: land and water birds in front of land or water. The background misleads in the small groups."""

    name = "waterbirds"

    def __init__(self, root: str | Path, *, split: str = "test") -> None:
        if split not in (*SPLITS, "all"):
            raise ValueError(f"there is no split {split!r}; there are: {', '.join(SPLITS)}, all")
        root = existing_folder(root)
        rows = read_metadata(root / "metadata.csv")
        chosen = SPLITS if split == "all" else (split,)
        rows = [row for row in rows if SPLITS[row[2]] in chosen]
        files = [row[0] for row in rows]
        y, number, place = np.array([row[1:] for row in rows], np.int64).reshape(-1, 3).T
        super().__init__(
            root,
            files,
            y,
            WATERBIRDS.classes,
            domain=number - SPLITS.index(chosen[0]),
            domains=chosen,
            group=2 * y + place,
            groups=GROUPS,
        )
        self.split = split

    def about(self) -> dict[str, Any]:
        return {**super().about(), "split": self.split}


def read_metadata(path: Path) -> list[tuple[str, int, int, int]]:
    """Rows (file, y, split, place); a ValueError names the first invalid line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if not set(COLUMNS) <= set(reader.fieldnames or []):
                raise ValueError(f"it lacks the columns {', '.join(COLUMNS)}")
            return [_row(reader.line_num, row) for row in reader]
    except FileNotFoundError as error:
        raise ValueError(f"{path.parent} lacks metadata.csv, which lists the images") from error
    except (ValueError, csv.Error) as error:
        reason = describe_failure(path, error)
        raise ValueError(f"{path}: {error if reason == 'not an image' else reason}") from error


def _row(line: int, row: dict[str, str]) -> tuple[str, int, int, int]:
    name = row["img_filename"] or ""
    numbers = {key: row[key] for key in ("y", "split", "place")}
    if numbers["y"] not in ("0", "1") or numbers["place"] not in ("0", "1") or numbers["split"] not in ("0", "1", "2"):
        raise ValueError(f"line {line}: y and place must be 0 or 1, split 0, 1 or 2, not {numbers}")
    if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\0" in name:
        raise ValueError(f"line {line}: {name!r} is no path below this folder")
    return name, int(numbers["y"]), int(numbers["split"]), int(numbers["place"])
