"""The variants of a method by their worth: first the harmless ones, then by their gain.

harmed  cells whose paired 95 % interval to no adaptation, or to batch statistics, lies wholly below -0.5 points over the stream
        or over its last eighth
gain    points above the method at its defaults: the mean over benchmarks of the mean over cells

Only cells that every variant has count, each seed by itself; held-out cells do not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dualtta.methods import METHODS
from dualtta.plugins import nearest
from dualtta.records.reading import Record
from dualtta.report.gather import Setting
from dualtta.report.labels import changes, label
from dualtta.report.matching import pair_up, place_of
from dualtta.report.paired import Pair, difference
from dualtta.report.places import place_name
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


def ranking(settings: Iterable[Setting], method: str) -> list[Rank]:
    """The variants of a method, best first. The method at its defaults and both of FLOORS need records of the same cells."""
    found: dict[str, dict[str, Record]] = {}  # by variant and cell
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}; {nearest(method, METHODS)}")
    if method in FLOORS:
        raise ValueError(f"{method} is the reference of the ranking: choose a method that learns")
    chosen: dict[str, Setting] = {}
    for setting in settings:
        if setting.method == method or (setting.method in FLOORS and not changes(setting)):
            variant = setting.method if setting.method in FLOORS else label(setting)
            chosen.setdefault(variant, setting)
            may = [record for record in setting.records if part_of(record.cell["cell"]) != "held_out"]
            found.setdefault(variant, {}).update({place_of(record): record for record in may})
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
        harmed = [place for place in shared if any(harms(places[place], found[floor][place]) for floor in FLOORS)]
        pairs: dict[str, list[Pair]] = {}
        for place in shared:
            pairs.setdefault(bench_title(Setting((places[place],)), places[place]), []).append(
                pair_up(places[place], found[str(plain)][place])
            )
        gains = {bench: difference(some)[0] for bench, some in pairs.items()}
        where = tuple(place_name(Setting((places[place],))) for place in harmed)
        ranks.append(Rank(variant, changes(chosen[variant]), where, len(shared), gains))
    return sorted(ranks, key=lambda rank: (len(rank.harmed), -rank.gain))


def harms(record: Record, floor: Record) -> bool:
    """Whether a run is significantly worse than another, over the whole stream or at its end."""
    pair = pair_up(record, floor)
    end = slice(-max(1, len(pair.sample) // EIGHTHS), None)
    columns = {name: getattr(pair, name)[end] for name in ("correct_a", "correct_b", "sample", "group")}
    return any(difference([some])[2] < HARM for some in (pair, replace(pair, **columns)))
