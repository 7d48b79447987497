"""Weights from a file: safetensors, or what torch can read without running code. Anything else is refused with the reason."""

import hashlib
import re
import warnings
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dualtta.data.images import what_is

NESTS = ("state_dict", "model", "model_state_dict")  # where training programs put the state dict among other things
PREFIXES = ("module.", "_orig_mod.")  # left by DataParallel and torch.compile
WAY_OUT = "save the model's weights instead, torch.save(model.state_dict(), path)"


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The state dict in a file; a ValueError that says what the file is where it holds none."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no weights file {path}")
    with path.open("rb") as file:
        start = file.read(16)
    if start[8:9] == b"{":  # the length of its header, then the header
        return _plain(_read_safetensors(path), path)
    if start.startswith(b"PK"):
        _refuse_programs(path)
    return _plain(_read_torch(path), path)


def file_hash(path: str | Path) -> str:
    """Names a file by what is in it."""
    there = Path(path).expanduser()
    about = there.stat()
    return _file_hash(there, about.st_mtime_ns, about.st_size, about.st_ino)


@cache
def _file_hash(path: Path, *version: int) -> str:
    """Read once for as long as the file is the same: a grid asks for every cell."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is a damaged or truncated safetensors file ({error}): get it again") from error


def _refuse_programs(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] or name for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is a damaged or truncated file ({error}): get it again") from error
    frozen = "its norm layers cannot be adapted. Give the weights of the nn.Module it was made from: " + WAY_OUT
    if "constants.pkl" in names or any(name.startswith("code/") for name in names):
        raise ValueError(f"{path} is a TorchScript program; {frozen}")
    if "archive_format" in names or "serialized_exported_program.json" in names:
        raise ValueError(f"{path} is an exported program (.pt2); {frozen}")
    if "data.pkl" not in names:
        raise ValueError(f"{path} is a zip archive of something else, not weights")


def _read_torch(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a plain pickle torch warns before it refuses it, and we say so ourselves
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise anything
        wanted = re.search(r"GLOBAL (\S+)", str(error))
        if wanted:
            raise ValueError(f"{path} holds code ({wanted[1]}), not only tensors, and is not run: {WAY_OUT}") from error
        what = what_is(path, error)
        if what in ("not an image", "a zip archive"):
            what = "neither a safetensors file nor one of torch's, or it is damaged"
        raise ValueError(f"{path}: {what}") from error


def _plain(content: Any, path: Path) -> dict[str, Tensor]:
    """The state dict itself, out of what it is nested in, without prefixes."""
    for _ in NESTS:  # not for as long as there is one: a file may hold what holds itself
        if isinstance(content, Mapping) and (inner := next((k for k in NESTS if isinstance(content.get(k), Mapping)), None)):
            content = content[inner]
    if not isinstance(content, Mapping) or not content or not all(isinstance(v, Tensor) for v in content.values()):
        held = ", ".join(map(str, list(content)[:5])) if isinstance(content, Mapping) else type(content).__name__
        raise ValueError(f"{path} holds no state dict but {held or 'nothing'}: {WAY_OUT}")
    state = {str(name): value for name, value in content.items()}
    odd = next((name for name, value in state.items() if not _is_dense(value)), None)
    if odd is not None:
        raise ValueError(f"{path}: {odd} is sparse, quantised, complex or without values, not a plain tensor of real numbers")
    while prefix := next((prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in state)), ""):
        state = {name.removeprefix(prefix): value for name, value in state.items()}  # in whatever order they were wrapped
    return state


def _is_dense(value: Tensor) -> bool:
    return value.layout == torch.strided and not (value.is_meta or value.is_quantized or value.is_complex())


def classes_in(state: Mapping[str, Tensor], head: str, *, of: str) -> int:
    """How many classes the weights are for: the rows of their classifier `head`."""
    weight = state.get(f"{head}.weight")
    if weight is None or weight.ndim == 0:
        raise ValueError(f"{of} holds the weights of another net: it lacks {head}.weight")
    if len(weight) > weight.untyped_storage().nbytes():  # a row of no columns, or one row repeated, takes no room in a file
        raise ValueError(f"{of} is damaged: it claims {len(weight)} classes and does not hold their weights")
    return len(weight)


def in_order(model: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under the model's own names, where they come in the same order under others."""
    own = model.state_dict()
    if set(own) == set(state) or len(own) != len(state):
        return state
    return dict(zip(own, state.values(), strict=True))


def put_weights(model: nn.Module, state: dict[str, Tensor], head: str, *, of: str, new_head: bool = False) -> None:
    """Put a state dict into a model, all of it; with `new_head`, the classifier `head` stays as the model has it."""
    own = model.state_dict()
    heads = {f"{head}.weight", f"{head}.bias"} & set(own)
    if new_head:
        state = {name: value for name, value in state.items() if name not in heads}
    counts = {name for name in own if name.endswith("num_batches_tracked")}  # not in old files, and not needed
    missing = [name for name in own if name not in state and name not in counts and not (new_head and name in heads)]
    extra = [name for name in state if name not in own]
    if missing or extra:
        parts = [f"{what} {_some(names)}" for what, names in (("lacks", missing), ("has", extra)) if names]
        raise ValueError(f"{of} holds the weights of another net: it {', and it '.join(parts)}")
    for name, value in state.items():
        if value.shape != own[name].shape:
            if name in heads and value.shape[1:] == own[name].shape[1:]:
                told = f"{of} is for {len(value)} classes, not {len(own[name])}"
                raise ValueError(f"{told}: ask for {len(value)}, or for a new head where it is to be trained (new_head=True)")
            shapes = f"{tuple(value.shape)}, not {tuple(own[name].shape)}"
            raise ValueError(f"{of} holds the weights of another net: {name} is {shapes}")
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError(f"{of}: {name} holds NaN or Inf")
    model.load_state_dict(state, strict=False)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
