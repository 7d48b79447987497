"""One table over all benchmarks, for a README: benchmarks below each other, methods beside each other, from records alone.

A number is the mean over a benchmark's cells of the mean over seeds; with groups, their mean and the worst. Only cells and
seeds that every method of the row has are taken, and the table says how many, on how many samples, and what the paper reports.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dualtta.files import write_bytes
from dualtta.methods import METHODS
from dualtta.paper.reported import reported
from dualtta.protocols import Protocol
from dualtta.report.gather import Setting
from dualtta.report.labels import changes, follows_own, name, rank
from dualtta.report.places import place_key

BEGIN, END = "<!-- results -->", "<!-- end of results -->"


@dataclass
class Bench:
    """A benchmark: a dataset on a model in a scenario, over its cells."""

    dataset: str
    model: str
    scenario: str
    repeats: int
    cells: dict[str, dict[str, Setting]] = field(default_factory=dict)  # method -> place -> setting

    @property
    def title(self) -> str:
        passes = f", {self.repeats} passes" if self.repeats > 1 else ""
        return f"{self.dataset}, {self.model}, {self.scenario}{passes}"

    @property
    def shared(self) -> list[str]:
        """Places that all methods have, on some seed at least."""
        each = [set(places) for places in self.cells.values()]
        return [place for place in sorted(set.intersection(*each)) if self.seeds(place)] if each else []

    def seeds(self, place: str) -> list[int]:
        """Those that all methods have there."""
        return sorted(set.intersection(*(set(places[place].seeds) for places in self.cells.values())))

    @property
    def grouped(self) -> bool:
        return all(places[place].has_groups for places in self.cells.values() for place in self.shared)

    @property
    def measures(self) -> tuple[str, ...]:
        return ("mean_of_groups", "worst_group") if self.grouped else ("accuracy",)

    def mean(self, method: str, measure: str) -> str:
        """Over cells of the mean over seeds, as it is printed."""
        each = {place: self.cells[method][place].each(measure) for place in self.shared}
        return f"{100 * np.mean([np.mean([by[seed] for seed in self.seeds(place)]) for place, by in each.items()]):.1f}"

    def value(self, method: str) -> str:
        """What stands in the table: the highest printed ones in bold, however small their lead."""
        if method not in self.cells or not self.shared:
            return ""
        texts = []
        for measure in self.measures:
            own, best = self.mean(method, measure), max((self.mean(m, measure) for m in self.cells), key=float)
            texts.append(f"**{own}**" if own == best else own)
        paper = self.reported(method, self.grouped)
        return " / ".join(texts) + (f" ({paper})" if paper else "")

    def reported(self, method: str, grouped: bool) -> str:
        """The paper's, where it has this benchmark; averages over 15 corruptions or 12 pairs stand beside no part of them."""
        whole = len(self.shared) == {"pacs": 12, "office_home": 12, "imagenet_c": 15}.get(self.dataset, 1)
        if self.scenario != "mild" or self.repeats > 1 or not whole:
            return ""
        table = "imagenet-c" if self.dataset == "imagenet_c" else "benchmarks"
        found = [
            reported(table, method, self.dataset, self.model, column=column)
            for column in (("avg", "worst") if grouped else ("avg",))
        ]
        return " / ".join(f"{one.value:.1f}" for one in found if one)

    def samples(self) -> str:
        """How many cells, samples and seeds a number is the mean of."""
        settings = [self.cells[method][place] for method in self.cells for place in self.shared]
        seeds = sorted({len(self.seeds(place)) for place in self.shared})
        sizes = sorted({setting.samples for setting in settings})
        size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        subset = " (a subset)" if any(setting.about["subset"] for setting in settings) else ""
        many = "" if len(self.shared) == 1 else f"{len(self.shared)} x "
        return f"{many}{size}{subset}, {'/'.join(map(str, seeds))} seed{'s' if seeds[-1] > 1 else ''}"


def benches(settings: Iterable[Setting], protocol: Protocol = "own", methods: Sequence[str] = ()) -> list[Bench]:
    """Benchmarks with every method at its protocol's settings; whatever was set otherwise is another table's."""
    found: dict[tuple[str, str, str, int], Bench] = {}
    for setting in settings:
        own = follows_own(setting) == (protocol == "own") or not _two_rates(setting)
        if changes(setting) or not own or (methods and setting.method not in methods):
            continue
        repeats = int(setting.stream.get("repeats", 1))
        key = (setting.dataset, setting.model, setting.scenario, repeats)
        at = found.setdefault(key, Bench(*key)).cells.setdefault(setting.method, {})
        at[place_key(setting)] = setting
    return [bench for key, bench in sorted(found.items(), key=lambda item: _place(item[0])) if bench.shared]


def _place(key: tuple[str, str, str, int]) -> tuple[object, ...]:
    """By dataset and model, scenarios from easy to hard."""
    dataset, model, scenario, repeats = key
    known = ("mild", "imbalanced", "mixed", "continual")
    return dataset, model, known.index(scenario) if scenario in known else len(known), scenario, repeats


def _two_rates(setting: Setting) -> bool:
    """Whether the protocols differ for this method."""
    return setting.method in METHODS and bool(METHODS[setting.method].published_rates)


def to_markdown(settings: Iterable[Setting], protocol: Protocol = "own", methods: Sequence[str] = ()) -> str:
    """The table and what has to be said below it."""
    found = benches(settings, protocol, methods)
    if not found:
        raise ValueError(f"no records at the settings of the protocol {protocol!r}: `dualtta run` them, or choose the other")
    shown = sorted({method for bench in found for method in bench.cells}, key=rank)
    lines = ["| | " + " | ".join([*map(name, shown), "samples"]) + " |", "| --- |" + " ---: |" * len(shown) + " --- |"]
    lines += [f"| {bench.title} | " + " | ".join([*map(bench.value, shown), bench.samples()]) + " |" for bench in found]
    rates = "its authors' learning rate" if protocol == "own" else "the paper's one learning rate"
    head = (
        "Accuracy in %, mean over cells and seeds (with groups: their mean / the worst); in brackets what the paper "
        "reports; bold: the highest. "
    )
    return "\n".join([*lines, "", head + f"Every baseline has {rates}."])


def put_into(path: Path, table: str) -> None:
    """Replace what stands between the two marks of a Markdown file, and nothing else: its line ends stay what they are."""
    lines = path.read_bytes().decode().splitlines(keepends=True)
    begun, ended = ([i for i, line in enumerate(lines) if line.strip() == mark] for mark in (BEGIN, END))
    if not begun or not ended:
        raise ValueError(f"{path} has no place for the table: put the lines {BEGIN} and {END} where it belongs")
    if len(begun) > 1 or len(ended) > 1 or begun > ended:
        raise ValueError(f"{path} has several places for the table, or none: it takes the line {BEGIN} once, then {END} once")
    end = "\r\n" if lines[begun[0]].endswith("\r\n") else "\n"
    made = [f"{line}{end}" for line in table.split("\n")]
    write_bytes(path, "".join([*lines[: begun[0] + 1], *made, *lines[ended[0] :]]).encode())
