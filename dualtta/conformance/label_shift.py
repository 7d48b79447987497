"""Golden vectors of the label shift: `label_shift_seed<S>_ir<R>.npy`, the published orders of ImageNet's images."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.conformance.verdict import Verdict
from dualtta.streams.label_shift import label_shift

FILES = "label_shift_*.npy"
COUNTS = [50] * 1000  # images of each class in ImageNet's validation set


def check(folder: Path, progress: Callable[[list[Any]], Any] = iter) -> list[Verdict]:
    """A verdict on each recorded order of the folder."""
    return [check_order(path) for path in progress(sorted(folder.glob(FILES)))]


def check_order(path: Path) -> Verdict:
    """Regenerate one recorded order; `worst` is the number of positions that differ."""
    found = re.fullmatch(r"label_shift_seed(\d+)_ir(\d+)", path.stem)
    if not found:
        return Verdict(path.stem, False, None, "its name is not label_shift_seed<S>_ir<R>.npy")
    try:
        with path.open("rb") as file:
            golden = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # npy and its header fail with different exceptions
        return Verdict(path.stem, False, None, f"not readable: {error}")
    try:
        ours = label_shift(COUNTS, seed=int(found[1]), ratio=int(found[2]))
    except ValueError as error:
        return Verdict(path.stem, False, None, str(error))
    if golden.shape != ours.shape:
        return Verdict(path.stem, False, None, f"has shape {golden.shape}, not {ours.shape}")
    off = int((golden != ours).sum())
    return Verdict(path.stem, not off, float(off), f"{off} of {len(ours)} positions differ" if off else "")
