"""State on disk: one safetensors file, what it is about as JSON in its header. No pickle, nothing half-written."""

import hashlib
import json
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dualtta.files import write_bytes

VERSION = 1


def write(path: str | Path, kind: str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write all or nothing."""
    header = {"kind": kind, "version": VERSION, **about}
    header["digest"] = digest(json.dumps(header), tensors)
    data = save({name: value.contiguous() for name, value in tensors.items()}, {"dualtta": json.dumps(header)})
    write_bytes(path, data)


def read(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and what they are about; a ValueError that says what the file is where it is something else."""
    Path(path).open("rb").close()  # of a folder or a missing file the system says more than safetensors does
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("dualtta", "{}"))
            with torch.inference_mode(False):
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a readable {kind} file: {error}") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        other = header.get("kind") if isinstance(header, dict) else None
        raise ValueError(f"{path} is not a {kind} file but {other or 'a safetensors file of something else'}")
    if header.get("version") != VERSION:
        raise ValueError(f"{path} has format {header.get('version')}; this version of dualtta reads format {VERSION}")
    written = header.pop("digest", None)  # older files have none
    if written is not None and written != digest(json.dumps(header), tensors):
        raise ValueError(f"{path} is damaged: it does not hold what was written")
    return tensors, header


def digest(about: str, tensors: Mapping[str, Tensor]) -> str:
    """Names what is said and these tensors, to the bit."""
    seen = hashlib.sha256(about.encode())
    for name, value in sorted(tensors.items()):
        seen.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        seen.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return seen.hexdigest()[:16]


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """These values as JSON gives them back; what it does not know as a number or in words.

    >>> plain({"share": (0.5, 1), "folder": Path("data")})
    {'share': [0.5, 1], 'folder': 'data'}
    """
    kept: dict[str, Any] = json.loads(json.dumps(values, default=lambda v: float(v) if isinstance(v, Real) else str(v)))
    return kept
