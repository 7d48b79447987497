"""A cell's record: a folder of its own, written whole. `done` comes last, so what has it is complete.

cell.json      settings, versions, provenance
indices.npz    the stream, as indices into the dataset
rows.npz       a row a sample
summary.json   what the tables need; the same for the same settings, bit for bit
done           when it was finished and what it cost
"""

import hashlib
import io
import json
import math
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from dualtta import __version__
from dualtta.files import alone, write_bytes
from dualtta.records.metrics import Column

VERSION = 1
ORDER = ("cell.json", "indices.npz", "rows.npz", "summary.json", "done")
PACKAGES = ("torch", "torchvision", "timm", "numpy", "scipy", "opencv-python-headless", "pillow")

# of rows.npz
COLUMNS: dict[str, type[np.generic]] = {
    "index": np.int64,
    "label": np.int32,
    "prediction": np.int32,
    "domain": np.int32,
    "group": np.int32,
    "segment": np.int32,
    "batch": np.int32,
    "confidence": np.float32,
    "entropy": np.float32,
    "drop_alter": np.float32,
    "drop_preserve": np.float32,
    "weight": np.float32,
    "plus": np.bool_,
    "minus": np.bool_,
}

Files = Mapping[str, bytes]


class OtherVersion(ValueError):
    """A record that is not for this version of dualtta to read, or to replace."""


def key_of(settings: Mapping[str, Any], weights_hash: str) -> str:
    """Names a record by the settings of its cell and the content of its weights file."""
    whole = {**settings, "weights_hash": weights_hash}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def store(folder: Path, files: Files) -> None:
    """Write a record's files in order, `done` last; what an earlier try left is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):  # another run of the same grid may end with the same cell: its parts are no litter
        for part in folder.glob(".*"):  # what a kill left half-written
            part.unlink(missing_ok=True)
        for name in ORDER:
            write_bytes(folder / name, files[name])
        (folder / "failed").unlink(missing_ok=True)


def is_done(folder: Path) -> bool:
    return (folder / "done").is_file()


def fail(folder: Path, reason: str) -> None:
    """Leave word of why a cell has no result; the next run tries it again."""
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        write_bytes(folder / "failed", reason.encode())


@dataclass(frozen=True)
class Record:
    """A finished cell, read back."""

    folder: Path
    cell: dict[str, Any]
    summary: dict[str, Any]
    cost: dict[str, Any]

    @property
    def key(self) -> str:
        return self.folder.name

    def part(self, *names: str) -> Any:
        """What names lead to in cell.json; None where they lead nowhere."""
        value: Any = self.cell
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def rows(self) -> dict[str, Column]:
        with (self.folder / "rows.npz").open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: _wide(name, column) for name, column in file.items()}


def _wide(name: str, column: Column) -> Column:
    """A column of a compact record, as wide as it was; anything else as it is."""
    kind = COLUMNS.get(name)
    return column.astype(kind) if kind is not None and np.can_cast(column.dtype, kind, "safe") else column


def read(folder: Path) -> Record:
    """A ValueError that says what is wrong where a record is incomplete, damaged or of another version."""
    if not is_done(folder):
        raise ValueError(f"{folder.name} has no result: {_why(folder)}")
    try:
        cell, summary, cost = (
            json.loads((folder / name).read_text(), parse_int=_whole) for name in ("cell.json", "summary.json", "done")
        )
        if cell["version"] != VERSION:
            raise OtherVersion(f"it has format {cell['version']}; this version of dualtta reads format {VERSION}")
        return Record(folder, cell, summary, cost)
    except OtherVersion as error:
        raise OtherVersion(f"{folder.name} cannot be read: {error}") from error
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{folder.name} cannot be read: {error}") from error


def _whole(digits: str) -> int | float:
    """A whole number; one that no float can hold is infinite, so that whoever asks for a finite one gets none."""
    return int(digits) if len(digits) < 300 else float(digits)


def _why(folder: Path) -> str:
    """What a failed cell left word of."""
    try:
        return (folder / "failed").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "it was not finished"
    except OSError as error:
        return str(error)


def read_all(out: Path) -> tuple[list[Record], list[str]]:
    """All finished records below a folder of results, and what is to be said of the others."""
    records, notes = [], []
    for folder in sorted(path for path in (out / "cells").glob("*") if path.is_dir()):
        try:
            records.append(read(folder))
        except ValueError as error:
            notes.append(str(error))
    return records, notes


def to_json(value: Any, *, indent: int | None = 1) -> bytes:
    """Readable JSON, the same bytes for the same value; JSON knows no NaN, so it is null."""
    return (json.dumps(_plain(value), indent=indent, sort_keys=True, allow_nan=False) + "\n").encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_npz(arrays: Mapping[str, Column]) -> bytes:
    """Compressed arrays, the same bytes for the same values."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def provenance() -> dict[str, Any]:
    """Versions, commit and machine, for whoever asks why numbers differ."""
    return {"versions": {"dualtta": __version__, **_versions()}, "commit": commit(), "machine": machine()}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of the source tree this package runs from, with a "+" where files of it differ; None where there is none."""
    home = Path(__file__).resolve().parents[1]
    top, _, head = _git(home, "rev-parse", "--show-toplevel", "HEAD").partition("\n")
    if not head or Path(top, "dualtta").resolve() != home:  # somebody else's repository
        return None
    return head + ("+" if _git(home, "status", "--porcelain", "--", str(home)) else "")


def _git(home: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(home), *words], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"system": platform.platform(), "processor": platform.machine(), "gpu": gpu}
