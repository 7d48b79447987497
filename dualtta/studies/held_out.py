"""Which cells may choose settings and which are kept for the verdict: held_out.json, written before anything was tuned.

A cell is on the tuning side where all of it is (every corruption of a pool, say), on the held-out side likewise; what reaches
over both, or is not named at all, is for neither: it may repeat the paper's numbers, but chooses nothing and proves nothing.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from dualtta.bench.cell import Cell

Side = Literal["tuning", "held_out", "neither"]


@cache
def rules() -> dict[str, dict[str, Any]]:
    """By dataset: what of a cell decides, and what lies on either side."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("held_out.json").read_text())["rules"]
    return found


def members(dataset: str, side: Side) -> list[Any]:
    """What of a dataset lies on a side.

    >>> members("pacs", "held_out")
    ['photo', 'cartoon']
    """
    return list(rules()[dataset][side])


def side_of(cell: Mapping[str, Any]) -> Side:
    """The side of a cell, by its settings as `Cell.describe` and cell.json hold them.

    >>> side_of({"dataset": {"name": "imagenet_c", "corruptions": ["fog"]}, "scenario": {}, "seed": 1})
    'held_out'
    >>> side_of({"dataset": {"name": "imagenet_c", "corruptions": ["fog", "contrast"]}, "scenario": {}, "seed": 1})
    'neither'
    """
    rule = rules().get(cell["dataset"]["name"])
    if rule is None:
        return "neither"
    decides = {
        "corruptions": cell["dataset"].get("corruptions"),
        "targets": cell["scenario"].get("domains"),
        "split": [cell["dataset"].get("split")],
        "seed": [cell["seed"]],
    }[rule["by"]]
    for side in ("tuning", "held_out"):
        if decides and set(decides) <= set(rule[side]):
            return side
    return "neither"


def for_tuning(cells: Iterable["Cell"]) -> list["Cell"]:
    """The cells themselves; a ValueError where one of them is kept for the verdict, or is on no side."""
    from dualtta.bench.cell import title

    wanted = list(cells)
    for cell in wanted:
        if side_of(cell.describe()) != "tuning":
            rule = rules().get(cell.dataset)
            way = f"tune on its {rule['by']} {', '.join(map(str, rule['tuning']))}" if rule else "it has no tuning side"
            raise ValueError(f"{title(cell)} is kept for the verdict, nothing may be chosen on it: {way}")
    return wanted


def held_out(cells: Iterable["Cell"]) -> list["Cell"]:
    """Those of the cells that the verdict is made on."""
    return [cell for cell in cells if side_of(cell.describe()) == "held_out"]
