"""dualtta makes an image classifier adapt itself to the data it meets, without labels.

>>> import dualtta
>>> sorted(dualtta.METHODS)[:4]
['deyo', 'deyo_dual', 'dualtta', 'dualtta_safe']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.adapter import Adapter
    from dualtta.collapse import CollapseWarning
    from dualtta.fisher import Fisher, estimate_fisher
    from dualtta.method import Method, Probe, Selection, Step
    from dualtta.methods import METHODS
    from dualtta.speed import Speed
    from dualtta.views import VIEWS
    from dualtta.wrap import adapt

__version__ = "0.1.0"

# imported on first use, so that `dualtta --help` needs no torch
_HOMES = {
    "adapt": "wrap",
    "Adapter": "adapter",
    "CollapseWarning": "collapse",
    "Fisher": "fisher",
    "estimate_fisher": "fisher",
    "METHODS": "methods",
    "Method": "method",
    "Probe": "probe",
    "Selection": "method",
    "Speed": "speed",
    "Step": "method",
    "VIEWS": "views",
}

__all__ = [
    "METHODS",
    "VIEWS",
    "Adapter",
    "CollapseWarning",
    "Fisher",
    "Method",
    "Probe",
    "Selection",
    "Speed",
    "Step",
    "adapt",
    "estimate_fisher",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dualtta' has no attribute {name!r}")
    return getattr(import_module(f"dualtta.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
