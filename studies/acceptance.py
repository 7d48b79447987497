"""The acceptance test of a variant, by records on held-out cells alone: is it harmless, and better than the baselines.

safe    on every cell: the paired 95 % interval of its difference to no adaptation, and to batch statistics, does not lie wholly
        below -0.5 points
better  on every benchmark: on average over its cells at least 1 point above the best baseline at its own settings

Seeds of the same cell are compared together; a benchmark is a dataset on a model in a scenario. Where there are groups,
accuracy is the mean over groups, as in the paper's tables. Missing records are named, and without them there is no answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dualtta.methods import METHODS
from dualtta.records.reading import Record
from dualtta.report.labels import changes, follows_own
from dualtta.report.matching import Side, pair_up, task_of
from dualtta.report.paired import Pair, difference
from studies.split import part_of

HARM, GAIN = -0.5, 1.0  # points
FLOORS = ("source", "norm")
RIVALS = (*FLOORS, *(name for name, kind in METHODS.items() if kind.published_rates))
Interval = tuple[float, float, float]  # difference, low, high


@dataclass(frozen=True)
class CellVerdict:
    """The candidate against no adaptation, or batch statistics, on one cell."""

    where: str
    floor: str
    difference: Interval
    seeds: tuple[int, ...]

    @property
    def harmless(self) -> bool:
        return self.difference[2] >= HARM


@dataclass(frozen=True)
class BenchVerdict:
    """The candidate against the best baseline of a benchmark, chosen by its average over the same cells."""

    where: str
    best: str
    difference: Interval
    others: dict[str, float]  # candidate minus each baseline, in points
    cells: int

    @property
    def better(self) -> bool:
        return self.difference[0] >= GAIN


@dataclass(frozen=True)
class Acceptance:
    """The result of the acceptance test."""

    cells: tuple[CellVerdict, ...]
    benches: tuple[BenchVerdict, ...]
    missing: tuple[str, ...]  # comparisons for which there is no record
    left_out: int  # records of the candidate on other than held-out cells

    @property
    def safe(self) -> bool | None:
        """No comparison shows harm; None where a record is missing."""
        if any(not cell.harmless for cell in self.cells):
            return False
        return None if self.missing or not self.cells else True

    @property
    def better(self) -> bool | None:
        """Better on every benchmark; None where a record is missing."""
        if any(not bench.better for bench in self.benches):
            return False
        return None if self.missing or not self.benches else True


def accept(frame: Any, candidate: Side) -> Acceptance:
    """Compare the rows of a candidate with those of the baselines, in a report's frame."""
    everything = list(frame.itertuples())
    known = [cell for cell in everything if part_of(cell.record.cell["cell"]) == "held_out"]
    taken = [cell for cell in everything if candidate.takes(cell.record)]
    if not candidate.settings:  # then the method at its defaults, where there are variants of it too
        taken = [cell for cell in taken if not changes(cell)] or taken
    ours = [cell for cell in taken if part_of(cell.record.cell["cell"]) == "held_out"]
    left_out = len(taken) - len(ours)
    if not ours:
        raise ValueError(
            f"there is no record of {candidate.text} on a held-out cell: `python -m studies run held-out` makes them"
        )
    rivals = _rivals(known, candidate)
    places: dict[str, list[Any]] = {}
    for cell in ours:
        at = places.setdefault(task_of(cell.record, seed=False), [])
        if any(other.seed == cell.seed for other in at):
            raise ValueError(
                f"{cell.task_name} has several records of {candidate.text}: say which with --candidate method,key=value"
            )
        at.append(cell)
    missing: list[str] = []
    pairs: dict[tuple[str, str], list[Pair]] = {}  # by place and rival
    for place, some in places.items():
        for rival in RIVALS:
            if rival == candidate.method and not candidate.settings:
                continue
            partners = [rivals.get((rival, task_of(cell.record))) for cell in some]
            lacking = [cell.seed for cell, partner in zip(some, partners, strict=True) if partner is None]
            if lacking:
                seeds = ", ".join(map(str, sorted(lacking)))
                missing.append(f"{some[0].task_name}: no record of {rival} at its own settings, seed {seeds}")
                continue
            pairs[place, rival] = [pair_up(a.record, b) for a, b in zip(some, partners, strict=True) if b is not None]
    cells = [
        CellVerdict(some[0].task_name, floor, difference(pairs[place, floor]), tuple(sorted(cell.seed for cell in some)))
        for place, some in places.items()
        for floor in FLOORS
        if (place, floor) in pairs
    ]
    return Acceptance(tuple(cells), tuple(_benches(places, pairs)), tuple(missing), left_out)


def _rivals(cells: Iterable[Any], candidate: Side) -> dict[tuple[str, str], Record]:
    """Baselines at their own settings, by method and cell."""
    found = {}
    for cell in cells:
        own = (cell.method in FLOORS or follows_own(cell)) and not changes(cell)
        if cell.method in RIVALS and own and not candidate.takes(cell.record):
            found[cell.method, task_of(cell.record)] = cell.record
    return found


def _benches(places: dict[str, list[Any]], pairs: dict[tuple[str, str], list[Pair]]) -> Iterable[BenchVerdict]:
    groups: dict[str, list[str]] = {}
    for place, some in places.items():
        groups.setdefault(f"{some[0].dataset}, {some[0].model}, {some[0].scenario}", []).append(place)
    for where, within in groups.items():
        by_rival = {r: [p for place in within for p in pairs.get((place, r), [])] for r in RIVALS}
        whole = {r: some for r, some in by_rival.items() if all((place, r) in pairs for place in within)}
        if not whole:
            continue
        differences = {rival: difference(some) for rival, some in whole.items()}
        best = min(differences, key=lambda rival: differences[rival][0])
        others = {rival: found[0] for rival, found in differences.items()}
        yield BenchVerdict(where, best, differences[best], others, len(within))
