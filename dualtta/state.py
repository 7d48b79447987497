"""State on disk: one safetensors file, what it is about as JSON in its header. No pickle, nothing half-written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dualtta.files import write_bytes

VERSION = 1


def write(path: str | Path, kind: str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write all or nothing."""
    header = {"kind": kind, "version": VERSION, **about}
    data = save({name: value.contiguous() for name, value in tensors.items()}, {"dualtta": json.dumps(header)})
    write_bytes(path, data)


def read(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and what they are about; a ValueError that says what the file is where it is something else."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("dualtta", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a readable {kind} file: {error}") from error
    if header.get("kind") != kind:
        raise ValueError(f"{path} is not a {kind} file but {header.get('kind', 'a safetensors file of something else')}")
    if header.get("version") != VERSION:
        raise ValueError(f"{path} has format {header.get('version')}; this version of dualtta reads format {VERSION}")
    return tensors, header
