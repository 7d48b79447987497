"""Which variant of a method a study favours: first the harmless ones, then the one that gains most.

harmed  cells whose paired 95 % interval to no adaptation, or to batch statistics, lies wholly below -0.5 points over the stream
        or over its last eighth: what begins well may end badly
gain    points above the method as it is, the mean over benchmarks (a dataset on a model in a scenario) of the mean over cells

Only cells that every variant has count, each seed by itself, and none that is held out: nothing is chosen there.
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
from dualtta.studies.acceptance import FLOORS, HARM
from dualtta.studies.held_out import side_of
from dualtta.studies.variants import EIGHTHS, bench_title


@dataclass(frozen=True)
class Rank:
    """One variant, over all cells of a study."""

    label: str
    settings: dict[str, object]
    harmed: tuple[str, ...]  # where
    cells: int
    gains: dict[str, float]  # by benchmark, in points

    @property
    def gain(self) -> float:
        return float(np.mean(list(self.gains.values())))


def ranking(settings: Iterable[Setting], method: str) -> list[Rank]:
    """The variants of a method, best first. The method as it is, and both floors, must have met the same cells."""
    found: dict[str, dict[str, Record]] = {}  # by variant and place
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}; {nearest(method, METHODS)}")
    if method in FLOORS:
        raise ValueError(f"{method} is what variants are measured by: rank those of a method that learns")
    chosen: dict[str, Setting] = {}
    for setting in settings:
        if setting.method == method or (setting.method in FLOORS and not changes(setting)):
            variant = setting.method if setting.method in FLOORS else label(setting)
            chosen.setdefault(variant, setting)
            may = [record for record in setting.records if side_of(record.cell["cell"]) != "held_out"]
            found.setdefault(variant, {}).update({place_of(record): record for record in may})
    variants = {variant: places for variant, places in found.items() if variant not in FLOORS}
    plain = next((variant for variant in variants if not changes(chosen[variant])), None)
    lacking = [floor for floor in FLOORS if floor not in found] + ([] if plain else [f"{method} at its own settings"])
    if lacking:
        raise ValueError(f"nothing to rank variants of {method} by: there is no record of {', '.join(lacking)}")
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
    """Whether a run lies surely below another, over the whole stream or at its end."""
    pair = pair_up(record, floor)
    end = slice(-max(1, len(pair.sample) // EIGHTHS), None)
    columns = {name: getattr(pair, name)[end] for name in ("correct_a", "correct_b", "sample", "group")}
    return any(difference([some])[2] < HARM for some in (pair, replace(pair, **columns)))
