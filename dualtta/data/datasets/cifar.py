"""CIFAR-10 and CIFAR-10-C (https://arxiv.org/abs/1903.12261)."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualtta.data.datasets.arrays import read_npy, read_npz
from dualtta.data.datasets.base import ArrayDataset, Dataset, Picture
from dualtta.data.datasets.corrupted import Corrupted, corruption_domains
from dualtta.data.images import describe_failure, existing_folder
from dualtta.data.published import CIFAR10, CORRUPTIONS, SEVERITIES

BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
FOLDER = "cifar-10-batches-py"


class Cifar10(ArrayDataset):
    """CIFAR-10: 60,000 images of 32 x 32 in ten classes. `split`: train or test."""

    name = "cifar10"

    def __init__(self, root: str | Path, *, split: str = "test") -> None:
        if split not in BATCHES:
            raise ValueError(f"there is no split {split!r}; there are: {', '.join(BATCHES)}")
        images, labels = read_cifar10(existing_folder(root), split)
        super().__init__(images, labels, CIFAR10.classes, domains=(split,))
        self.split = split

    def about(self) -> dict[str, Any]:
        return {**super().about(), "split": self.split}


SEVERITY_SIZE = 10_000  # images of one severity, as published


class PublishedCifar10C(Dataset):
    """CIFAR-10-C from its authors' files: `<corruption>.npy`, the severities one after the other, and `labels.npy`."""

    name = "cifar10_c"

    def __init__(self, root: Path, corruptions: Sequence[str], severities: Sequence[int]) -> None:
        labels = read_npy(root / "labels.npy")
        self.size = labels.size // len(SEVERITIES)
        if labels.ndim != 1:
            raise ValueError(f"{root / 'labels.npy'} must be a list of labels, not of shape {labels.shape}")
        if labels.size == SEVERITY_SIZE and not np.array_equal(labels, np.tile(labels[: self.size], len(SEVERITIES))):
            # a copy of one severity only, whose rows would be attributed to all five
            raise ValueError(f"{root} holds {SEVERITY_SIZE:,} labels, those of one severity: the published files hold all five")
        self.arrays = [self._read(root / f"{name}.npy", len(labels)) for name in corruptions]
        self.starts = [(severity - 1) * self.size for severity in severities]
        pairs = [(array, start) for array in range(len(self.arrays)) for start in self.starts]
        super().__init__(
            np.concatenate([labels[start : start + self.size] for _, start in pairs]),
            CIFAR10.classes,
            domain=np.repeat(np.arange(len(pairs)), self.size),
            domains=corruption_domains(corruptions, severities),
        )

    @staticmethod
    def _read(path: Path, size: int) -> NDArray[Any]:
        if not path.is_file():
            raise ValueError(f"{path.parent} lacks {path.name}; name the corruptions it has with corruptions=")
        array = read_npy(path)
        if array.dtype != np.uint8 or array.shape != (size, 32, 32, 3):
            raise ValueError(f"{path}: {array.dtype} of {array.shape}, not bytes of {(size, 32, 32, 3)} as labels.npy has it")
        return array

    def image(self, index: int) -> Picture:
        pair, row = divmod(index, self.size)
        array, start = divmod(pair, len(self.starts))
        return np.array(self.arrays[array][self.starts[start] + row])


def cifar10_c(
    root: str | Path,
    *,
    corruptions: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = (5,),
    seed: int = 2024,
    frost: str | Path | None = None,
) -> Dataset:
    """CIFAR-10-C: 15 corruptions of CIFAR-10's test images, from the published files or generated on access."""
    root = existing_folder(root)
    corruption_domains(corruptions, severities)  # raises on unknown names before any file is read
    if (root / "labels.npy").is_file():
        return PublishedCifar10C(root, corruptions, severities)
    return Corrupted(Cifar10(root), corruptions, severities, seed=seed, frost=frost, name="cifar10_c")


def read_cifar10(root: Path, split: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images (N, 32, 32, 3) and labels from `cifar10.npz`, or from the folder that torchvision unpacks."""
    if (root / "cifar10.npz").is_file():
        images, labels = read_npz(root / "cifar10.npz", f"x_{split}", f"y_{split}")
        return images, labels.reshape(-1)
    home = next((home for home in (root / FOLDER, root) if (home / BATCHES[split][0]).is_file()), None)
    if home is None:
        raise ValueError(f"{root} holds neither cifar10.npz nor {FOLDER}/{BATCHES[split][0]}")
    batches = [read_batch(home / name) for name in BATCHES[split]]
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])


class _Array:
    """Placeholder for a numpy array in a pickle: stores the pickled state without interpreting it."""

    state: tuple[Any, ...] = ()

    def __init__(self, *about: Any) -> None:
        self.about = about

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def pixels(self) -> NDArray[np.uint8]:
        """The array; a ValueError where it does not hold bytes."""
        _, shape, kind, fortran, raw = self.state
        if kind.about[0] not in ("u1", b"u1") or not isinstance(raw, bytes):
            raise ValueError(f"its images are {kind.about[0]}, not bytes")
        return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


class PlainUnpickler(pickle.Unpickler):
    """Reads CIFAR's batches without executing anything from them; numpy's own builders crash on damaged state."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # how Python 3 pickles bytes for Python 2
            return lambda text, _: text.encode("latin1")
        if module.split(".")[0] != "numpy" or name not in ("_reconstruct", "ndarray", "dtype"):
            raise ValueError(f"it calls {module}.{name}, which no CIFAR batch does: do not trust this file")
        return _Array


def read_batch(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images and labels of one published batch file."""
    if not path.is_file():
        raise ValueError(f"{path.parent} lacks {path.name}")
    try:
        with path.open("rb") as file:
            content = PlainUnpickler(file, encoding="bytes").load()
        data, labels = content[b"data"].pixels(), np.array(content[b"labels"], np.int64)
        if data.shape != (len(labels), 3072):
            raise ValueError(f"its images are {data.shape}, not {(len(labels), 3072)}")
        return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels
    except Exception as error:  # a damaged pickle may raise anything
        reason = describe_failure(path, error)
        raise ValueError(f"{path}: {f'no CIFAR-10 batch ({error})' if reason == 'not an image' else reason}") from error
