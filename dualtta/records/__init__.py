"""Records of runs on disk. Nothing here imports torch.

`load_records` opens them as a pandas DataFrame; pandas is imported on its first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.records.frame import Records, load_records

__all__ = ["Records", "load_records"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dualtta.records' has no attribute {name!r}")
    from dualtta.records import frame

    return getattr(frame, name)
