"""The split of all cells into tuning and held-out ones: held_out.json, written before anything was tuned.

A cell belongs to a part where all of it does (every corruption of a mixed stream, say). A cell that reaches over both parts, or
that the file does not name, belongs to neither: nothing is chosen on it, and it counts for no acceptance.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from dualtta.bench.cell import Cell

Part = Literal["tuning", "held_out", "neither"]


@cache
def rules() -> dict[str, dict[str, Any]]:
    """By dataset: the property of a cell that decides, and its values in either part."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("held_out.json").read_text())["rules"]
    return found


def members(dataset: str, part: Part) -> list[Any]:
    """The corruptions, target domains, splits or seeds of a dataset that belong to a part.

    >>> members("pacs", "held_out")
    ['photo', 'cartoon']
    """
    return list(rules()[dataset][part])


def part_of(cell: Mapping[str, Any]) -> Part:
    """The part that a cell belongs to, by its settings as `Cell.describe` and cell.json hold them.

    >>> part_of({"dataset": {"name": "imagenet_c", "corruptions": ["fog"]}, "scenario": {}, "seed": 1})
    'held_out'
    >>> part_of({"dataset": {"name": "imagenet_c", "corruptions": ["fog", "contrast"]}, "scenario": {}, "seed": 1})
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
    for part in ("tuning", "held_out"):
        if decides and set(decides) <= set(rule[part]):
            return part
    return "neither"


def require_tuning(cells: Iterable["Cell"]) -> list["Cell"]:
    """The cells; a ValueError where one of them is held out or belongs to neither part."""
    from dualtta.bench.cell import title

    wanted = list(cells)
    for cell in wanted:
        if part_of(cell.describe()) != "tuning":
            rule = rules().get(cell.dataset)
            way = f"tune on its {rule['by']} {', '.join(map(str, rule['tuning']))}" if rule else "it has no tuning cells"
            raise ValueError(f"{title(cell)} is no tuning cell, so nothing may be chosen on it: {way}")
    return wanted


def only_held_out(cells: Iterable["Cell"]) -> list["Cell"]:
    """The held-out ones of these cells."""
    return [cell for cell in cells if part_of(cell.describe()) == "held_out"]
