"""State on disk: one safetensors file with a JSON header. No pickle, and no file is left half-written."""

import hashlib
import json
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dualtta.files import write_bytes

if TYPE_CHECKING:
    from dualtta.model.parameters import Weights

VERSION = 1
GROUPS = ("weights", "momentum", "buffers", "memory", "random")  # of an adapter's state
Groups = dict[str, dict[str, Tensor]]


def write(path: str | Path, kind: str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write the tensors with a header; the file is replaced whole or not at all."""
    header = {"kind": kind, "version": VERSION, **about}
    header["digest"] = digest(json.dumps(header), tensors)
    data = save({name: value.contiguous() for name, value in tensors.items()}, {"dualtta": json.dumps(header)})
    write_bytes(path, data)


def read(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the header; a ValueError that says what the file is where it is of another kind."""
    Path(path).open("rb").close()  # the system's error about a folder or a missing file says more
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


def write_groups(path: str | Path, kind: str, groups: Mapping[str, Mapping[str, Tensor]], about: Mapping[str, Any]) -> None:
    """Write an adapter's state: named tensors in groups, moved to the CPU."""
    tensors = {f"{group}/{name}": value.cpu() for group, named in groups.items() for name, value in named.items()}
    write(path, kind, tensors, about)


def read_groups(
    path: str | Path, kind: str, made: Mapping[str, Any], retired: Mapping[str, Any], weights: "Weights"
) -> tuple[Groups, list[Any]]:
    """An adapter's state and its counts; refused where it was made otherwise or does not fit these weights.

    `retired` holds settings of earlier versions, at the values that the method still has.
    """
    tensors, about = read(path, kind)
    mine = about["made"].get("method") == made.get("method")
    for key, value in retired.items() if mine else ():  # first: it explains why the settings of this version are missing
        if about["made"].get(key, value) != value:
            why = f"{key}={about['made'][key]!r}, a setting that {about['made']['method']} no longer has"
            raise ValueError(f"{path} was saved with {why}: adapt from the source model instead")
    for key, here in made.items():
        if about["made"].get(key) != here:
            raise ValueError(f"{path} was saved with {key}={about['made'].get(key)!r}; this adapter has {here!r}")
    groups: Groups = {group: {} for group in GROUPS}
    for full, value in tensors.items():
        group, _, name = full.partition("/")
        groups.setdefault(group, {})[name] = value
    counts: Any = about.get("counts")
    if isinstance(counts, list) and len(counts) == 4:  # written before the last two were added
        counts = [*counts, False, 0.0]
    masters = weights.masters
    fits = set(groups["weights"]) == set(masters) and set(groups["buffers"]) <= set(weights.buffers.source)
    fits = fits and "state" in groups["random"] and isinstance(counts, list) and len(counts) == 6
    moved = [*groups["weights"].items(), *groups["momentum"].items()]
    fits = fits and all(name in masters and value.shape == masters[name].shape for name, value in moved)
    if not (fits and all(value.isfinite().all() for _, value in moved)):
        raise ValueError(f"{path} is damaged: its tensors are not those of this adapter, or not finite")
    return groups, counts


def digest(about: str, tensors: Mapping[str, Tensor]) -> str:
    """A hash of the header and the tensors."""
    seen = hashlib.sha256(about.encode())
    for name, value in sorted(tensors.items()):
        seen.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        seen.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return seen.hexdigest()[:16]


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """These values as JSON gives them back; other types become a number where they are one, or else text.

    >>> plain({"share": (0.5, 1), "folder": Path("data")})
    {'share': [0.5, 1], 'folder': 'data'}
    """
    kept: dict[str, Any] = json.loads(json.dumps(values, default=lambda v: float(v) if isinstance(v, Real) else str(v)))
    return kept
