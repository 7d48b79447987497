"""Reading weights from files: safetensors, or pickles of tensors with `weights_only=True`. Other files raise a ValueError."""

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

from dualtta.data.images import describe_failure

NESTED_KEYS = ("state_dict", "model", "model_state_dict")  # keys under which checkpoints store the state dict
PREFIXES = ("module.", "_orig_mod.")  # added by DataParallel and torch.compile
SAVE_HINT = "save the model's weights instead, torch.save(model.state_dict(), path)"


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read the state dict in a file; a ValueError names what the file is instead, if it holds none."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no weights file {path}")
    with path.open("rb") as file:
        start = file.read(16)
    if start[8:9] == b"{":  # safetensors: 8 bytes with the length of the header, then the JSON header
        return _state_dict(_read_safetensors(path), path)
    if start.startswith(b"PK"):
        _reject_programs(path)
    return _state_dict(_read_torch(path), path)


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's content."""
    file = Path(path).expanduser()
    stat = file.stat()
    return _file_hash(file, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@cache
def _file_hash(path: Path, *version: int) -> str:
    """Cached until the file changes, since a grid needs the hash for every cell."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is a damaged or truncated safetensors file ({error}): download or save it again") from error


def _reject_programs(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] or name for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is a damaged or truncated file ({error}): download or save it again") from error
    frozen = "its norm layers cannot be adapted. Give the weights of the nn.Module it was made from: " + SAVE_HINT
    if "constants.pkl" in names or any(name.startswith("code/") for name in names):
        raise ValueError(f"{path} is a TorchScript program; {frozen}")
    if "archive_format" in names or "serialized_exported_program.json" in names:
        raise ValueError(f"{path} is an exported program (.pt2); {frozen}")
    if "data.pkl" not in names:
        raise ValueError(f"{path} is a zip archive of something else, not weights")


def _read_torch(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about plain pickles before it rejects them
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise anything
        wanted = re.search(r"GLOBAL (\S+)", str(error))
        if wanted:
            raise ValueError(f"{path} contains code ({wanted[1]}), not only tensors, and is not loaded: {SAVE_HINT}") from error
        what = describe_failure(path, error)
        if what in ("not an image", "a zip archive"):
            what = "neither a safetensors file nor one of torch's, or it is damaged"
        raise ValueError(f"{path}: {what}") from error


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """The state dict in a file's content, without the prefixes of wrappers."""
    for _ in NESTED_KEYS:  # a fixed number of levels, since a file may contain itself
        key = next((key for key in NESTED_KEYS if isinstance(content, Mapping) and isinstance(content.get(key), Mapping)), None)
        content = content if key is None else content[key]
    if not isinstance(content, Mapping) or not content or not all(isinstance(v, Tensor) for v in content.values()):
        held = ", ".join(map(str, list(content)[:5])) if isinstance(content, Mapping) else type(content).__name__
        raise ValueError(f"{path} holds no state dict but {held or 'nothing'}: {SAVE_HINT}")
    state = {str(name): value for name, value in content.items()}
    unusable = next((name for name, value in state.items() if not _is_dense(value)), None)
    if unusable is not None:
        raise ValueError(f"{path}: {unusable} is sparse, quantised, complex or without values, not a plain tensor")
    while prefix := next((prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in state)), ""):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _is_dense(value: Tensor) -> bool:
    return value.layout == torch.strided and not (value.is_meta or value.is_quantized or value.is_complex())


def classes_in(state: Mapping[str, Tensor], head: str, *, of: str) -> int:
    """Number of classes of the weights: the rows of the classifier `head`."""
    weight = state.get(f"{head}.weight")
    if weight is None or weight.ndim == 0:
        raise ValueError(f"{of} holds the weights of another model: it lacks {head}.weight")
    if len(weight) > weight.untyped_storage().nbytes():  # rows without columns, or one row expanded
        raise ValueError(f"{of} is damaged: it declares {len(weight)} classes but does not hold their weights")
    return len(weight)


def match_by_order(model: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the tensors of a file that has the model's order of layers but other names."""
    own = model.state_dict()
    if set(own) == set(state) or len(own) != len(state):
        return state
    return dict(zip(own, state.values(), strict=True))


def load_weights(model: nn.Module, state: dict[str, Tensor], head: str, *, of: str, new_head: bool = False) -> None:
    """Load a complete state dict into a model; with `new_head`, the model keeps its own classifier `head`.

    Args:
        model: the model, changed in place.
        state: its weights; every name and shape must match.
        head: name of the classifier layer.
        of: what the weights are, for error messages.
        new_head: do not load the classifier.
    """
    own = model.state_dict()
    heads = {f"{head}.weight", f"{head}.bias"} & set(own)
    if new_head:
        state = {name: value for name, value in state.items() if name not in heads}
    counts = {name for name in own if name.endswith("num_batches_tracked")}  # missing in old files, and not needed
    missing = [name for name in own if name not in state and name not in counts and not (new_head and name in heads)]
    extra = [name for name in state if name not in own]
    if missing or extra:
        parts = [f"{what} {_abbreviated(names)}" for what, names in (("lacks", missing), ("has", extra)) if names]
        raise ValueError(f"{of} holds the weights of another model: it {', and it '.join(parts)}")
    for name, value in state.items():
        if value.shape != own[name].shape:
            if name in heads and value.shape[1:] == own[name].shape[1:]:
                raise ValueError(
                    f"{of} is for {len(value)} classes, not {len(own[name])}: open the model with {len(value)} classes, "
                    "or train a new classifier (new_head=True)"
                )
            shapes = f"{tuple(value.shape)}, not {tuple(own[name].shape)}"
            raise ValueError(f"{of} holds the weights of another model: {name} is {shapes}")
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError(f"{of}: {name} holds NaN or Inf")
    model.load_state_dict(state, strict=False)


def _abbreviated(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
