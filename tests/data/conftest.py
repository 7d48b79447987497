"""Small folders in the layouts that the datasets are published in."""

import csv
import gzip
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dualtta.data.published import CORRUPTIONS, OFFICE_HOME, PACS, wnids

KINDS = {
    "noise": CORRUPTIONS[:3],
    "blur": CORRUPTIONS[3:7],
    "weather": CORRUPTIONS[7:11],
    "digital": CORRUPTIONS[11:],
}


def _picture(path: Path, number: int = 0, size: tuple[int, int] = (12, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.RandomState(number).randint(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def _pacs(root: Path, each: int = 2) -> Path:
    for domain in PACS.domains:
        for name in PACS.classes:
            for i in range(each):
                _picture(root / domain / name / f"pic_{i:03}.{'png' if domain == 'sketch' else 'jpg'}", i)
    return root


def _office_home(root: Path, each: int = 1) -> Path:
    for domain in OFFICE_HOME.domains:
        for name in OFFICE_HOME.classes:
            for i in range(1, each + 1):
                _picture(root / domain / name / f"{i:05}.jpg", i, (6, 6))
    (root / "ImageInfo.csv").write_text("Domain,Category\n")
    return root


def _waterbirds(root: Path, each: int = 1) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    with (root / "metadata.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["img_id", "img_filename", "y", "split", "place", "place_filename"])
        cells = [(split, y, place, i) for split in range(3) for y in range(2) for place in range(2) for i in range(each)]
        for number, (split, y, place, i) in enumerate(cells, 1):
            name = f"{number:03}.Some_Bird/Some_Bird_{i:04}_{number}.jpg"
            table.writerow([number, name, y, split, place, f"/o/ocean/{number:08}.jpg"])
            _picture(root / name, number)
    return root


def _idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def _mnist(root: Path, size: int = 300, packed: bool = False) -> Path:
    rng = np.random.RandomState(0)
    home = root / "MNIST" / "raw"
    home.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", size), ("t10k", size // 6)):
        files = {
            f"{part}-images-idx3-ubyte": _idx(rng.randint(1, 256, (count, 28, 28))),
            f"{part}-labels-idx1-ubyte": _idx(rng.randint(0, 10, count)),
        }
        for name, data in files.items():
            (home / f"{name}.gz").write_bytes(gzip.compress(data)) if packed else (home / name).write_bytes(data)
    return root


def _cifar10_arrays(each: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(0)
    sizes = {"train": 5 * each, "test": each}
    images = {f"x_{split}": rng.randint(0, 256, (size, 32, 32, 3)).astype(np.uint8) for split, size in sizes.items()}
    return images | {f"y_{split}": np.arange(size) % 10 for split, size in sizes.items()}


def _cifar10_npz(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    np.savez(root / "cifar10.npz", **_cifar10_arrays())
    return root


def _cifar10_batches(root: Path) -> Path:
    """As its authors pickled them: bytes for keys, a list of labels, rows of 3,072 bytes."""
    home = root / "cifar-10-batches-py"
    home.mkdir(parents=True, exist_ok=True)
    arrays = _cifar10_arrays()
    parts = {f"data_batch_{i + 1}": ("train", slice(4 * i, 4 * i + 4)) for i in range(5)} | {
        "test_batch": ("test", slice(0, 4))
    }
    for name, (split, rows) in parts.items():
        data = arrays[f"x_{split}"][rows].transpose(0, 3, 1, 2).reshape(-1, 3072)
        content = {b"batch_label": name.encode(), b"labels": arrays[f"y_{split}"][rows].tolist(), b"data": data}
        (home / name).write_bytes(pickle.dumps(content, protocol=2))
    (home / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"airplane"]}, protocol=2))
    return root


def _cifar10_c(root: Path, each: int = 4, names: tuple[str, ...] = CORRUPTIONS) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        np.save(root / f"{name}.npy", np.random.RandomState(number).randint(0, 256, (5 * each, 32, 32, 3)).astype(np.uint8))
    np.save(root / "labels.npy", np.tile(np.arange(each) % 10, 5))
    return root


def _imagenet(root: Path, classes: tuple[int, ...] = (0, 1, 999), each: int = 2, by_number: bool = False) -> Path:
    for label in classes:
        for i in range(each):
            folder = str(label) if by_number else wnids()[label]
            _picture(root / folder / f"ILSVRC2012_val_{label * 10 + i:08}.JPEG", i, (300, 260))
    return root


def _imagenet_c(
    root: Path,
    classes: tuple[int, ...] = (3, 7),
    severities: tuple[int, ...] = (1, 5),
    below_kinds: bool = True,
    kinds: tuple[str, ...] = tuple(KINDS),
) -> Path:
    for kind in kinds:
        for corruption in KINDS[kind]:
            home = root / kind / corruption if below_kinds else root / corruption
            for severity in severities:
                for label in classes:
                    _picture(home / str(severity) / wnids()[label] / f"ILSVRC2012_val_{label:08}.JPEG", label, (224, 224))
    return root


def _zip(root: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(root.rglob("*")):
            file.write(path, f"{root.name}/{path.relative_to(root)}")
        file.writestr("__MACOSX/._x.jpg", b"junk")
    return archive


def _tar(root: Path, archive: Path, mode: str = "w", top: str | None = None) -> Path:
    with tarfile.open(archive, mode) as file:
        file.add(root, root.name if top is None else top)
    return archive


@pytest.fixture(scope="session")
def layouts() -> SimpleNamespace:
    """Functions that make a small dataset in its published layout, such as `layouts.pacs(root)`, and pack folders."""
    functions = (
        *(_picture, _pacs, _office_home, _waterbirds, _mnist, _imagenet, _imagenet_c),
        *(_cifar10_arrays, _cifar10_npz, _cifar10_batches, _cifar10_c),
        *(_zip, _tar),
    )
    return SimpleNamespace(KINDS=KINDS, **{function.__name__.removeprefix("_"): function for function in functions})
