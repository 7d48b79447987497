"""The folder of a cell's record: its files, how they are written, and the key that names it. `reading.py` reads them.

cell.json      settings, versions, provenance
indices.npz    the stream, as indices into the dataset
rows.npz       per-sample columns, one row a sample
summary.json   the metrics that tables need; the same bytes for the same settings
done           when the cell was finished and what it cost

`done` is written last: a folder that has it is complete.
"""

import hashlib
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.files import exclusive, write_bytes
from dualtta.records.metrics import Column

VERSION = 1
ORDER = ("cell.json", "indices.npz", "rows.npz", "summary.json", "done")

# per-sample columns
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
ROUNDED = tuple(name for name, kind in COLUMNS.items() if kind is np.float32)  # in compacted and packed records

Files = Mapping[str, bytes]


def key_of(settings: Mapping[str, Any], weights_hash: str) -> str:
    """Return the name of a record: a hash of the cell's settings and of the content of its weights file."""
    whole = {**settings, "weights_hash": weights_hash}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def store(folder: Path, files: Files) -> None:
    """Write a record's files in order, `done` last. Replaces the files of an earlier attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):  # another run of the same grid may store the same cell: its temporary files must stay
        for part in folder.glob(".*"):  # temporary files of a killed process
            part.unlink(missing_ok=True)
        for name in ORDER:
            write_bytes(folder / name, files[name])
        (folder / "failed").unlink(missing_ok=True)


def is_done(folder: Path) -> bool:
    """Whether the record in this folder is complete."""
    return (folder / "done").is_file()


def fail(folder: Path, reason: str) -> None:
    """Write the reason why a cell failed; the next run tries the cell again."""
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        write_bytes(folder / "failed", reason.encode())


def to_json(value: Any, *, indent: int | None = 1) -> bytes:
    """Readable JSON, the same bytes for the same value. JSON has no NaN: non-finite numbers become null."""
    return (json.dumps(_finite(value), indent=indent, sort_keys=True, allow_nan=False) + "\n").encode()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_npz(arrays: Mapping[str, Column]) -> bytes:
    """Compressed arrays, the same bytes for the same values."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
