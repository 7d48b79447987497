"""Golden vectors: recorded arrays that this implementation is compared with, case by case.

A folder holds `methods/cases.json` with the arrays of each case, `corruptions.npz` with the textures in `frost/`, recorded
orders `label_shift_*.npy`, or several of these. No code of the folder is executed.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dualtta.conformance import corruptions, label_shift, methods
from dualtta.conformance.verdict import Verdict

__all__ = ["Verdict", "check_folder"]


def check_folder(folder: str | Path, progress: Callable[[list[Any]], Any] = iter) -> list[dict[str, Any]]:
    """A verdict on each case of the folder, as a dict: case, ok, worst, why. `progress` wraps the lists that are iterated."""
    folder = Path(folder)
    verdicts = [verdict for part in (methods, corruptions, label_shift) for verdict in part.check(folder, progress)]
    if not verdicts:
        found = f"no methods/cases.json, corruptions.npz or {label_shift.FILES}"
        raise ValueError(f"{folder} holds no golden vectors: {found}")
    return [asdict(verdict) for verdict in verdicts]
