"""One Markdown table over all benchmarks, for a README: benchmarks below each other, methods beside each other.

A value is the mean over a benchmark's tasks and their seeds; with groups, their mean and the worst. Only tasks and seeds that
every method of the benchmark has are taken; the table says how many, on how many samples, and what a publication reports.
Marks say which values are of runs that hardly learned, or of a method's earlier defaults.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.files import write_bytes
from dualtta.records.caveats import HARDLY_LEARNED
from dualtta.report.labels import changes, earlier_words, follows_own, has_own
from dualtta.report.plugins import reference
from dualtta.report.statistics import mark_best, mean_std
from dualtta.report.table import Notes, Row
from dualtta.report.tasks import in_order

BEGIN, END = "<!-- results -->", "<!-- end of results -->"


@dataclass(frozen=True)
class Benchmark:
    """The cells of a benchmark on the tasks and seeds that all its methods have."""

    key: tuple[str, str, str, int]
    cells: Any

    @property
    def title(self) -> str:
        dataset, model, scenario, repeats = self.key
        return f"{dataset}, {model}, {scenario}" + (f", {repeats} passes" if repeats > 1 else "")

    @property
    def metrics(self) -> tuple[str, ...]:
        grouped = self.cells["mean_of_groups"].notna().all()
        return ("mean_of_groups", "worst_group") if grouped else ("accuracy",)

    def values(self) -> dict[str, str]:
        """The text of each method."""
        by_method = dict(iter(self.cells.groupby("method", sort=False)))
        units = self.cells["task"].nunique()
        rows = [
            Row(method, tuple(mean_std(cells, metric, Notes(), units=units) for metric in self.metrics))
            for method, cells in by_method.items()
        ]
        return {
            row.label: " / ".join(map(_marked, row.values)) + self._reported(next(by_method[row.label].itertuples()), units)
            for row in mark_best(rows, dict(enumerate(self.metrics)))
        }

    def remarks(self) -> dict[str, tuple[str, ...]]:
        """What has to be said of each method's cells, and whether it is said of some alone."""
        found = {}
        for method, cells in self.cells.groupby("method", sort=False):
            each = [
                (*earlier_words(cell), *(text for text in HARDLY_LEARNED if text in cell.caveats))
                for cell in cells.itertuples()
            ]
            texts = dict.fromkeys(text for texts in each for text in texts)
            found[method] = tuple(text if all(text in of for of in each) else f"{text} (some of the cells)" for text in texts)
        return found

    def _reported(self, cell: Any, units: int) -> str:
        found = [reference(cell, units, metric) for metric in self.metrics]
        numbers = " / ".join(f"{one.value:.1f}" for one in found if one)
        return f" ({numbers})" if numbers else ""

    def samples(self) -> str:
        """How many tasks, samples and seeds a value is the mean of."""
        tasks = self.cells.drop_duplicates(["task", "seed"])
        seeds = sorted(set(tasks.groupby("task").size()))
        sizes = sorted(set(self.cells["samples"]))
        size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        subset = " (a subset)" if self.cells["subset"].any() else ""
        count = tasks["task"].nunique()
        many = "" if count == 1 else f"{count} x "
        return f"{many}{size}{subset}, {'/'.join(map(str, seeds))} seed{'s' if seeds[-1] > 1 else ''}"


def _marked(value: Any) -> str:
    text = f"{value.mean:.1f}"
    return f"**{text}**" if value.best else f"<u>{text}</u>" if value.level else text


def benchmarks(
    frame: Any, protocol: str = "own", methods: Sequence[str] = (), scenarios: Sequence[str] = ()
) -> Iterator[Benchmark]:
    """Benchmarks with every method at its protocol's settings; rows with other settings are left out.

    `methods` and `scenarios` are the names to take; empty: all.
    """
    for column, names in (("method", methods), ("scenario", scenarios)):
        frame = frame[frame[column].isin(names)] if names else frame
    own = protocol == "own"
    right = [not changes(cell) and (not has_own(cell) or follows_own(cell) == own) for cell in frame.itertuples()]
    frame = frame[np.array(right, bool)]
    earlier = np.array([bool(earlier_words(cell)) for cell in frame.itertuples()], bool)
    frame = frame.iloc[np.argsort(~earlier, kind="stable")]  # where there are both, the last is taken
    for key in sorted(set(frame["benchmark"]), key=in_order):
        cells = frame[[one == key for one in frame["benchmark"]]].drop_duplicates(["method", "task", "seed"], keep="last")
        count = cells.groupby(["task", "seed"])["method"].transform("nunique")
        shared = cells[count == cells["method"].nunique()]
        if len(shared):
            yield Benchmark(key, shared.assign(setting=shared["task"]))


def to_markdown(found: Sequence[Benchmark], protocol: str = "own") -> str:
    """The table, and the line below it."""
    if not found:
        raise ValueError(f"no records at the settings of the protocol {protocol!r}: `dualtta run` them, or choose the other")
    about = {method: one for bench in found for method, one in zip(bench.cells["method"], bench.cells["about"], strict=True)}
    shown = sorted(about, key=lambda method: about[method].order)
    notes, said = Notes(), {bench.key: bench.remarks() for bench in found}
    always = {  # what is said of all values of a method is marked in the header
        method: [
            text
            for text in dict.fromkeys(t for of in said.values() for t in of.get(method, ()))
            if all(text in of[method] for of in said.values() if method in of)
        ]
        for method in shown
    }
    titles = [about[method].title + _sup(notes, always[method]) for method in shown]
    lines = ["| | " + " | ".join([*titles, "samples"]) + " |"]
    lines.append("| --- |" + " ---: |" * len(shown) + " --- |")
    for bench in found:
        values = {
            method: text + _sup(notes, [one for one in said[bench.key][method] if one not in always[method]])
            for method, text in bench.values().items()
        }
        lines.append(f"| {' | '.join([bench.title, *(values.get(method, '') for method in shown), bench.samples()])} |")
    rates = "its authors' learning rate" if protocol == "own" else "the paper's one learning rate"
    below = (
        "Accuracy in %, mean over cells and seeds (with groups: their mean / the worst); in brackets what the paper reports; "
        "bold: above all others by the paired 95 % interval; underlined: the highest and those that the interval does not "
        "separate from it. "
    )
    marks = "".join(f" <sup>{mark}</sup> {text}." for text, mark in notes.texts.items())
    return "\n".join([*lines, "", below + f"Every baseline has {rates}.{marks}"])


def _sup(notes: Notes, texts: Sequence[str]) -> str:
    marks = ",".join(notes.marks(texts))
    return f" <sup>{marks}</sup>" if marks else ""


def put_into(path: Path, table: str) -> None:
    """Replace the text between the two marks of a Markdown file; its line ends stay what they are."""
    lines = path.read_bytes().decode().splitlines(keepends=True)
    begun, ended = ([i for i, line in enumerate(lines) if line.strip() == mark] for mark in (BEGIN, END))
    if not begun or not ended:
        raise ValueError(f"{path} has no place for the table: put the lines {BEGIN} and {END} where it belongs")
    if len(begun) > 1 or len(ended) > 1 or begun > ended:
        raise ValueError(f"{path} has several places for the table, or none: it takes the line {BEGIN} once, then {END} once")
    end = "\r\n" if lines[begun[0]].endswith("\r\n") else "\n"
    made = [f"{line}{end}" for line in table.split("\n")]
    write_bytes(path, "".join([*lines[: begun[0] + 1], *made, *lines[ended[0] :]]).encode())
