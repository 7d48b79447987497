"""What other packages add to a report, by entry points.

dualtta.tables      a function of the frame (results.py): a list of `Table`
dualtta.remarks     a function of a row of the frame: what has to be said of its numbers, in words
dualtta.references  a function of a row of the frame, the number of units that are averaged and a metric: `Reported` or None
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from dualtta.plugins import plug_in
from dualtta.report.table import Reported, Table

TABLES: dict[str, Callable[[Any], list[Table]]] = {}
REMARKS: dict[str, Callable[[Any], list[str]]] = {}
REFERENCES: dict[str, Callable[[Any, int, str], Reported | None]] = {}


@cache
def load() -> None:
    """Load the entry points, once: they import this package, so it does not wait for them."""
    plug_in(TABLES, "table", callable)
    plug_in(REMARKS, "remark", callable)
    plug_in(REFERENCES, "reference", callable)


def reference(cell: Any, units: int, metric: str) -> Reported | None:
    """The number that a publication reports for the mean of so many units of a row's benchmark."""
    load()
    found = (refer(cell, units, metric) for refer in REFERENCES.values())
    return next((one for one in found if one is not None), None)
