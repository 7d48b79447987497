"""The variants of a method by their worth: first the harmless ones, then by their gain.

harmed  cells whose paired 95 % interval to no adaptation, or to batch statistics, lies wholly below -0.5 points over the stream
        or over its last eighth
gain    points above the method at its defaults: the mean over benchmarks of the mean over cells

Only cells that every variant has count, each seed by itself; held-out cells do not.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualtta.methods import METHODS
from dualtta.plugins import nearest
from dualtta.records.reading import Record
from dualtta.report.labels import changes, label
from dualtta.report.matching import pair_up, task_of
from dualtta.report.paired import Pair, difference
from studies.acceptance import FLOORS, HARM
from studies.split import part_of
from studies.variants import EIGHTHS, bench_title


@dataclass(frozen=True)
class Rank:
    """A variant over all cells of a study."""

    label: str
    settings: dict[str, object]
    harmed: tuple[str, ...]  # the cells
    cells: int
    gains: dict[str, float]  # by benchmark, in points

    @property
    def gain(self) -> float:
        return float(np.mean(list(self.gains.values())))


def ranking(frame: Any, method: str) -> list[Rank]:
    """The variants of a method, best first. The method at its defaults and both of FLOORS need records of the same cells."""
    found: dict[str, dict[str, Any]] = {}  # rows of the frame by variant and cell
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}; {nearest(method, METHODS)}")
    if method in FLOORS:
        raise ValueError(f"{method} is the reference of the ranking: choose a method that learns")
    chosen: dict[str, Any] = {}
    for cell in frame.itertuples():
        if cell.method == method or (cell.method in FLOORS and not changes(cell)):
            variant = cell.method if cell.method in FLOORS else label(cell)
            chosen.setdefault(variant, cell)
            of_variant = found.setdefault(variant, {})
            if part_of(cell.record.cell["cell"]) != "held_out":
                of_variant[task_of(cell.record)] = cell
    variants = {variant: places for variant, places in found.items() if variant not in FLOORS}
    plain = next((variant for variant in variants if not changes(chosen[variant])), None)
    lacking = [floor for floor in FLOORS if floor not in found] + ([] if plain else [f"{method} at its own settings"])
    if lacking:
        raise ValueError(f"variants of {method} cannot be ranked: there is no record of {', '.join(lacking)}")
    shared = sorted(set.intersection(*map(set, found.values())))
    if not shared:
        raise ValueError(f"the variants of {method} have no cell in common, of those that are not held out")
    ranks = []
    for variant, places in variants.items():
        harmed = [place for place in shared if any(harms(places[place].record, found[floor][place].record) for floor in FLOORS)]
        pairs: dict[str, list[Pair]] = {}
        for place in shared:
            cell = places[place]
            pairs.setdefault(bench_title(cell), []).append(pair_up(cell.record, found[str(plain)][place].record))
        gains = {bench: difference(some)[0] for bench, some in pairs.items()}
        where = tuple(places[place].task_name for place in harmed)
        ranks.append(Rank(variant, changes(chosen[variant]), where, len(shared), gains))
    return sorted(ranks, key=lambda rank: (len(rank.harmed), -rank.gain))


def harms(record: Record, floor: Record) -> bool:
    """Whether a run is significantly worse than another, over the whole stream or at its end."""
    pair = pair_up(record, floor)
    end = slice(-max(1, len(pair.sample) // EIGHTHS), None)
    columns = {name: getattr(pair, name)[end] for name in ("correct_a", "correct_b", "sample", "group")}
    return any(difference([some])[2] < HARM for some in (pair, replace(pair, **columns)))
