"""What experiments and other packages add to a report; packages do by entry points.

dualtta.tables      a function of the frame (results.py): a list of `Table`
dualtta.remarks     a function of a row of the frame: what has to be said of its numbers, in words
dualtta.references  a function of a row of the frame, the number of units that are averaged and a metric: `Reported` or None
"""

from collections.abc import Callable
from typing import Any

from dualtta.plugins import Registry
from dualtta.report import safety
from dualtta.report.table import Reported, Table

TABLES: Registry[Callable[[Any], list[Table]]] = Registry(
    "table", callable, {"safety": safety.tables, "ccc": safety.ccc_tables}
)
REMARKS: Registry[Callable[[Any], list[str]]] = Registry("remark", callable)
REFERENCES: Registry[Callable[[Any, int, str], Reported | None]] = Registry("reference", callable)


def reference(cell: Any, units: int, metric: str) -> Reported | None:
    """The number that a publication reports for the mean of so many units of a row's benchmark."""
    found = (refer(cell, units, metric) for refer in REFERENCES.values())
    return next((one for one in found if one is not None), None)
