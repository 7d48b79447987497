"""ColoredMNIST as in DeYO (https://arxiv.org/abs/2403.07366), not DomainBed's variant.

y = digit >= 5, flipped with probability 0.25. A digit is red where that y is 0 and green where it is 1; the colour is then
flipped with probability 0.2, 0.1 or 0.9 by environment. The first two environments are the source, with the flipped labels; the
third is the test, with the original labels: the colour, which predicts the label in the source, misleads there.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualtta.data.datasets.arrays import read_idx
from dualtta.data.datasets.base import Dataset, Ints, Pixels
from dualtta.data.images import existing_folder
from dualtta.data.published import COLORED_MNIST

FLIPS = {"flip20": 0.2, "flip10": 0.1, "flip90": 0.9}  # environment: probability of a flipped colour
SPLITS = {"train": ("flip20", "flip10"), "test": ("flip90",), "all": tuple(FLIPS)}
GROUPS = ("0-4 in green", "0-4 in red", "5-9 in green", "5-9 in red")  # 2 * label + red
LABEL_FLIP = 0.25


class Colored(Dataset):
    """Digits in red and green. The first, second and last third of the given digits are the three environments."""

    def __init__(self, digits: Pixels, numbers: NDArray[Any], split: str = "test", seed: int = 0) -> None:
        if split not in SPLITS:
            raise ValueError(f"there is no split {split!r}; there are: {', '.join(SPLITS)}")
        size = len(numbers)
        environment = np.arange(size) * len(FLIPS) // size
        rng = np.random.RandomState(seed)  # drawn for all digits, so that a digit's colour is the same in every split
        clean = (np.asarray(numbers) >= 5).astype(np.int64)
        noisy = clean ^ (rng.random_sample(size) < LABEL_FLIP)
        red = (noisy == 0) ^ (rng.random_sample(size) < np.array(list(FLIPS.values()))[environment])
        labels = np.where(environment == 2, clean, noisy)
        chosen = [list(FLIPS).index(name) for name in SPLITS[split]]
        self.rows: Ints = np.flatnonzero(np.isin(environment, chosen))
        self.digits, self.red, self.split, self.seed = digits, red[self.rows], split, seed
        super().__init__(
            labels[self.rows],
            COLORED_MNIST.classes,
            domain=environment[self.rows] - chosen[0],
            domains=SPLITS[split],
            group=(2 * labels + red)[self.rows],
            groups=GROUPS,
        )

    def image(self, index: int) -> Pixels:
        digit = self.digits[self.rows[index]]
        colored = np.zeros((*digit.shape, 3), np.uint8)
        colored[:, :, 0 if self.red[index] else 1] = digit
        return colored

    def about(self) -> dict[str, Any]:
        return {**super().about(), "split": self.split, "seed": self.seed}


class ColoredMnist(Colored):
    """ColoredMNIST: the colour of a digit predicts its class in the source and misleads in the test."""

    name = "colored_mnist"

    def __init__(self, root: str | Path, *, split: str = "test", seed: int = 0) -> None:
        digits, numbers = read_mnist(existing_folder(root))
        super().__init__(digits, numbers, split, seed)


def read_mnist(root: Path, part: str = "train") -> tuple[Pixels, Pixels]:
    """The images and numbers of MNIST's training or test part (`train` or `t10k`)."""
    images, numbers = (read_idx(idx_file(root, f"{part}-{what}")) for what in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    if images.ndim != 3 or numbers.ndim != 1 or len(images) != len(numbers) or not len(images):
        raise ValueError(f"{root}: {len(images)} images and {len(numbers)} labels do not match; download both again")
    return images, numbers


def idx_file(root: Path, name: str) -> Path:
    """The path of one of MNIST's files, gzipped or not, in torchvision's layout or in the folder itself."""
    paths = [home / f"{stem}{suffix}" for home in mnist_homes(root) for stem in idx_names(name) for suffix in ("", ".gz")]
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        raise ValueError(f"{root} lacks MNIST/raw/{name} (or {name}.gz)")
    return found


def mnist_homes(root: Path) -> list[Path]:
    return [root / "MNIST" / "raw", root / "raw", root]


def idx_names(name: str) -> tuple[str, str]:
    """The two spellings of a file name; some copies have a dot, `train-images.idx3-ubyte`."""
    return name, name.replace("-idx", ".idx")
