"""From published archives and downloaded files to the folders that the datasets are read from.

The dataset is made in a hidden folder beside the destination and renamed at the end: an interrupted run leaves no incomplete
dataset, and existing files are not overwritten.
"""

import os
import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dualtta.data.datasets.arrays import read_idx
from dualtta.data.datasets.cifar import FOLDER
from dualtta.data.datasets.colored_mnist import idx_file
from dualtta.data.verify.archives import SUFFIXES, Entry, check_together, survey, unpack
from dualtta.data.verify.recognise import MNIST, Found, recognise
from dualtta.files import replacing_folder

IDX = [f"{part}-{what}" for part in ("train", "t10k") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")]
RESERVE = 2**26  # bytes to leave free on the disk
Progress = Callable[[list[Any]], Iterable[Any]]


def prepare(src: str | Path, dst: str | Path, progress: Progress = iter) -> list[Found]:
    """Make the folder `dst` from an archive, a folder of archives, or MNIST's files; returns the datasets that it now holds."""
    src, dst = Path(src).expanduser(), Path(dst).expanduser()
    archives = _archives(src)
    _check_destination(dst)
    entries = [entry for archive in progress(archives) for entry in survey(archive)]
    check_together(entries)
    _check_space(dst, sum(entry.size for entry in entries))
    with replacing_folder(dst) as made:
        content = src
        if archives:
            content = made.parent / "content"
            content.mkdir()
            unpack(progress(entries), content)
        # other datasets beside MNIST's files in a folder of the user's are read where they are, and must not be moved
        found = [one for one in recognise(content) if archives or one.layout is MNIST]
        if not found:
            raise ValueError(f"{src} holds no dataset that is recognised; {_holds(entries)}")
        if len(found) == 1:
            _arrange(found[0], made)
        for number, one in enumerate(found if len(found) > 1 else []):
            again = sum(other.layout is one.layout for other in found[:number])
            _arrange(one, made / f"{one.layout.name}{f'_{again + 1}' if again else ''}")
    return recognise(dst)


def _archives(src: Path) -> list[Path]:
    """The archives to unpack; none where `src` holds MNIST's files directly."""
    if src.is_file():
        return [src]
    if not src.is_dir():
        raise ValueError(f"there is no file or folder {src}")
    archives = sorted(path for path in src.iterdir() if path.name.lower().endswith(SUFFIXES) and path.is_file())
    if archives:
        return archives
    found = recognise(src)
    if not found:
        raise ValueError(f"{src} holds neither an archive ({', '.join(SUFFIXES[:3])}, ...) nor a dataset that is recognised")
    if all(one.layout is not MNIST or _is_unpacked(one.root) for one in found):
        titles = ", ".join(one.layout.published.title if one.layout.published else one.layout.name for one in found)
        raise ValueError(f"{src} has the right layout already ({titles}): use it as it is, or `dualtta data check {src}`")
    return []


def _is_unpacked(root: Path) -> bool:
    return all((root / "MNIST" / "raw" / name).is_file() for name in IDX[:2])


def _check_destination(dst: Path) -> None:
    if not dst.parent.is_dir():
        raise ValueError(f"there is no folder {dst.parent} to make {dst.name} in")
    if dst.is_symlink() or (dst.exists() and not (dst.is_dir() and not any(dst.iterdir()))):
        raise ValueError(f"{dst} exists already and is not overwritten: name another folder")
    if dst.is_dir() and (dst.samefile(os.curdir) or os.path.ismount(dst)):  # a rename cannot replace it
        raise ValueError(f"{dst} is the current folder or a mount point: name a folder to make in it")


def _check_space(dst: Path, size: int) -> None:
    free = shutil.disk_usage(dst.parent).free
    if size + RESERVE > free:
        needed, there = f"{size / 2**30:.1f} GiB", f"{free / 2**30:.1f} GiB"
        raise ValueError(f"{needed} are needed and {there} are free: make room, or name a folder on another disk")


def _arrange(found: Found, made: Path) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    ARRANGE.get(found.layout.name, _move)(found.root, made)


def _move(root: Path, made: Path) -> None:
    root.rename(made)


def _arrange_mnist(root: Path, made: Path) -> None:
    """The idx files, uncompressed, under the names and in the folder that torchvision expects."""
    home = made / "MNIST" / "raw"
    home.mkdir(parents=True)
    for name in IDX:
        try:
            path = idx_file(root, name)
        except ValueError:
            if name in IDX[:2]:
                raise
            continue  # ColoredMNIST does not need the test part
        array = read_idx(path)
        with (home / name).open("wb") as file:
            file.write(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape))
            file.write(array.tobytes())


def _arrange_cifar10(root: Path, made: Path) -> None:
    """Only CIFAR's files: there may be other datasets in the folder."""
    made.mkdir()
    home = root if root.name == FOLDER else root / FOLDER
    if (root / "cifar10.npz").is_file():
        shutil.copyfile(root / "cifar10.npz", made / "cifar10.npz")
    else:
        shutil.copytree(home if home.is_dir() else root, made / FOLDER)


ARRANGE: dict[str, Callable[[Path, Path], None]] = {"colored_mnist": _arrange_mnist, "cifar10": _arrange_cifar10}


def _holds(entries: list[Entry]) -> str:
    tops = sorted({entry.path.parts[0] for entry in entries})
    flat = bool(entries) and all(len(entry.path.parts) == 1 for entry in entries)
    advice = "there must be one folder per class" if flat else "its folders are not those of a known dataset"
    return f"it holds {', '.join(tops[:5]) or 'nothing'}{', ...' if len(tops) > 5 else ''}: {advice}"
