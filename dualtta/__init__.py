"""Test-time adaptation of image classifiers: a model adapts to the data it predicts, without labels.

`adapt` wraps a model, `load_records` opens results; the other names are for authors of methods and views.

>>> import dualtta
>>> sorted(dualtta.METHODS)[:4]
['deyo', 'deyo_dual', 'dualtta', 'dualtta_safe']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.adapter import Adapter, CollapseWarning
    from dualtta.fisher import Fisher, estimate_fisher
    from dualtta.guard import Guard
    from dualtta.hyperparameters import one_of, within
    from dualtta.method import Appearance, Method, Reduction, Selection, Step, entropy_objective
    from dualtta.methods import METHODS
    from dualtta.optim import Anchored, Descend, Sharpen, Update
    from dualtta.probe import Drop, Memory, Probe, entropy
    from dualtta.protocols import Protocol, Situation
    from dualtta.records.frame import load_records
    from dualtta.speed import Speed
    from dualtta.views import VIEWS, Draws, FeatureView, InputView, PatchShuffle, Style, View
    from dualtta.wrap import adapt

__version__ = "0.1.0"

# Name: its module. Imported on first use, so that `dualtta --help` need not wait for torch.
_HOMES = {
    "Adapter": "adapter",
    "Anchored": "optim",
    "Appearance": "method",
    "CollapseWarning": "adapter",
    "Descend": "optim",
    "Draws": "views",
    "Drop": "probe",
    "FeatureView": "views",
    "Fisher": "fisher",
    "Guard": "guard",
    "InputView": "views",
    "METHODS": "methods",
    "Memory": "probe",
    "Method": "method",
    "PatchShuffle": "views",
    "Probe": "probe",
    "Protocol": "protocols",
    "Reduction": "method",
    "Selection": "method",
    "Sharpen": "optim",
    "Situation": "protocols",
    "Speed": "speed",
    "Step": "method",
    "Style": "views",
    "Update": "optim",
    "VIEWS": "views",
    "View": "views",
    "adapt": "wrap",
    "entropy": "probe",
    "entropy_objective": "method",
    "estimate_fisher": "fisher",
    "load_records": "records.frame",
    "one_of": "hyperparameters",
    "within": "hyperparameters",
}

__all__ = [
    "METHODS",
    "VIEWS",
    "Adapter",
    "Anchored",
    "Appearance",
    "CollapseWarning",
    "Descend",
    "Draws",
    "Drop",
    "FeatureView",
    "Fisher",
    "Guard",
    "InputView",
    "Memory",
    "Method",
    "PatchShuffle",
    "Probe",
    "Protocol",
    "Reduction",
    "Selection",
    "Sharpen",
    "Situation",
    "Speed",
    "Step",
    "Style",
    "Update",
    "View",
    "adapt",
    "entropy",
    "entropy_objective",
    "estimate_fisher",
    "load_records",
    "one_of",
    "within",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dualtta' has no attribute {name!r}")
    return getattr(import_module(f"dualtta.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
