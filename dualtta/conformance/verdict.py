"""The result of comparing one case, and the reading of recorded arrays."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Verdict:
    """Whether a case agrees. `worst` is the largest error of its float arrays, None where nothing could be compared."""

    case: str
    ok: bool
    worst: float | None
    why: str = ""


def read_arrays(path: Path) -> Arrays:
    """The arrays of an npz file; a ValueError where the file is damaged or of another kind."""
    if not path.is_file():
        raise ValueError(f"there is no file {path.name}")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as error:  # zip, npy and their headers fail with different exceptions
        raise ValueError(f"{path.name} is no npz file of plain arrays, or it is damaged") from error
    if not all(isinstance(value, np.ndarray) for value in arrays.values()):
        raise ValueError(f"{path.name} holds more than arrays")
    return arrays
