"""Golden vectors of the corruptions: `corruptions.npz`, and the textures in `frost/` beside it.

The file holds `seed`, `input_<size>` (N, H, W, 3) and `<corruption>_<size>_<severity>`; image k was drawn from seed + k.
"""

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from dualtta.conformance.verdict import Arrays, Verdict, read_arrays
from dualtta.data.corruptions import CORRUPTIONS, corrupt
from dualtta.data.corruptions.textures import from_folder

# tolerances
LEVELS = 2  # grey levels, at every pixel
SNOW = 0.5  # grey levels, on average
IMPULSES = 0.02  # in the share of changed values and each channel's mean: the published draws cannot be reproduced


def check(folder: Path, progress: Callable[[list[Any]], Any] = iter) -> list[Verdict]:
    """A verdict on each array of corruptions.npz; empty where there is no such file."""
    path = folder / "corruptions.npz"
    if not path.exists():
        return []
    if not zipfile.is_zipfile(path):
        return [Verdict("corruptions", False, None, f"{path.name} cannot be read: not a whole .npz file")]
    try:
        arrays = read_arrays(path)
        seed = int(arrays["seed"])
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        return [Verdict("corruptions", False, None, f"{path.name} cannot be read: {type(error).__name__}: {error}")]
    keys = [key for key in arrays if key != "seed" and not key.startswith("input_")]
    return [check_array(key, arrays, seed, folder / "frost") for key in progress(keys)]


def check_array(key: str, arrays: Arrays, seed: int, frost: Path) -> Verdict:
    """Regenerate one array and compare."""
    case = f"corruptions/{key}"
    name, size, severity = (["", "", *key.rsplit("_", 2)])[-3:]
    if name not in CORRUPTIONS:
        return Verdict(case, False, None, f"not implemented: the corruption {name or key!r}")
    try:
        clean, golden = arrays[f"input_{size}"], arrays[key]
        textures = from_folder(frost) if name == "frost" else None
        images = [corrupt(image, name, int(severity), RandomState(seed + k), frost=textures) for k, image in enumerate(clean)]
        return judge(case, name, clean, np.stack(images), golden)
    except (ValueError, KeyError, IndexError) as error:
        return Verdict(case, False, None, f"{type(error).__name__}: {error}".split("\n")[0])


def judge(case: str, name: str, clean: NDArray[Any], ours: NDArray[Any], golden: NDArray[Any]) -> Verdict:
    """Compare by the tolerance of the corruption."""
    if ours.shape != golden.shape:
        return Verdict(case, False, None, f"has shape {golden.shape}, its input {clean.shape}")
    if golden.dtype != np.uint8:
        return Verdict(case, False, None, f"holds {golden.dtype}, not bytes")
    if name == "impulse_noise":
        shares = [float((images != clean).mean()) for images in (ours, golden)]
        means = [images.mean(axis=(0, 1, 2)) for images in (ours, golden)]
        off = {
            "share of changed values": abs(shares[0] - shares[1]),
            "mean of a channel": float(np.abs(means[0] - means[1]).max() / 255),
        }
        wrong = [f"the {what} is off by {size:.3f}" for what, size in off.items() if not size <= IMPULSES]
        return Verdict(case, not wrong, max(off.values()), "; ".join(wrong))
    errors = np.abs(ours.astype(int) - golden)
    if name == "snow":
        mean = float(errors.mean())
        return Verdict(case, mean <= SNOW, mean, "" if mean <= SNOW else f"off by {mean:.2f} grey levels on average")
    worst = float(errors.max())
    far = int((errors > LEVELS).sum())
    return Verdict(case, not far, worst, f"off by up to {worst:.0f} grey levels in {far} values" if far else "")
