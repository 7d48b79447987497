"""`dualtta compare`: the paired difference of two runs."""

import json as jsonlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.records.reading import Record
    from dualtta.report.paired import Pair

Interval = tuple[float, float, float]  # difference, low, high
ALL = "mean"
ONE_SEED = "one seed: the interval is over samples, and the variation over seeds is not in it"


@dataclass(frozen=True)
class Compared:
    """One line: accuracies of both, their difference with its interval, and how many samples only one predicts correctly."""

    where: str
    measure: str
    a: float
    b: float
    difference: Interval
    seeds: tuple[int, ...]
    samples: int
    only_a: int
    only_b: int


def compare(a: str, b: str, common: bool = False, json: bool = False) -> int:
    """Compare two runs on the same samples: A's accuracy minus B's, with its 95 % interval.

    Args:
        a: A cell's folder, a folder of results, or FOLDER:method, or FOLDER:method,key=value to choose by settings.
        b: The same for the other side; two folders of results are matched cell by cell.
        common: Compare the cells that both have; without it, a cell with no partner is an error.
        json: Print JSON.
    """
    from dualtta.report.matching import match, pair_up, parse_side

    sides = parse_side(a), parse_side(b)
    matched, alone = match(*sides, common=common)
    pairs = [pair_up(*records) for records in matched]
    lines = compared(matched, pairs)
    notes = [*_differences(matched), *alone]
    if json:
        print(
            jsonlib.dumps(
                {"a": a, "b": b, "lines": [_line(line) for line in lines], **_by_seed(pairs), "notes": notes}, indent=2
            )
        )
        return 0
    show(a, b, lines, pairs)
    for note in notes:
        print(note)
    return 0


def compared(matched: "list[tuple[Record, Record]]", pairs: "list[Pair]") -> list[Compared]:
    """A line for each task and measure, and one over all tasks where there are several."""
    from dualtta.records.frame import frame_of
    from dualtta.report import tasks
    from dualtta.report.labels import label
    from dualtta.report.matching import same_method

    by_task: dict[str, list[int]] = {}
    for number, pair in enumerate(pairs):
        by_task.setdefault(pair.task, []).append(number)
    lines = []
    for numbers in by_task.values():
        some = [pairs[number] for number in numbers]
        one, other = matched[numbers[0]]
        (cell,) = frame_of([one]).itertuples()
        where = f"{tasks.name(cell)}: {label(cell)}" if same_method(one, other) else tasks.name(cell)
        lines += _measures(where, some)
    if len(by_task) > 1:
        lines.append(_accuracy(f"{ALL} of all {len(by_task)}", pairs))
    return lines


def _measures(where: str, pairs: "list[Pair]") -> list[Compared]:
    """Accuracy; with groups also the mean over groups and the worst."""
    from dualtta.report.paired import combined_difference, worst_group_difference

    line = _accuracy(where, pairs)
    if any((pair.group < 0).any() for pair in pairs):
        return [line]
    found = [line, _with(line, "mean of groups", pairs, combined_difference(pairs, by_group=True), "mean")]
    worst = worst_group_difference(pairs)
    return [*found, _with(line, "worst group", pairs, worst, "min")] if worst else found


def _accuracy(where: str, pairs: "list[Pair]") -> Compared:
    from dualtta.report.paired import combined_difference

    tasks = [pair.task for pair in pairs]
    share = [1 / (len(set(tasks)) * tasks.count(task)) for task in tasks]
    a, b = (
        100 * sum(s * float(getattr(pair, side).mean()) for s, pair in zip(share, pairs, strict=True))
        for side in ("correct_a", "correct_b")
    )
    only_a = sum(int((pair.correct_a & ~pair.correct_b).sum()) for pair in pairs)
    only_b = sum(int((~pair.correct_a & pair.correct_b).sum()) for pair in pairs)
    seeds = tuple(sorted({pair.seed for pair in pairs}))
    samples = sum(len(pair.sample) for pair in pairs)
    return Compared(where, "accuracy", a, b, combined_difference(pairs), seeds, samples, only_a, only_b)


def _with(line: Compared, measure: str, pairs: "list[Pair]", found: Interval, how: str) -> Compared:
    """The same line for a measure over groups."""
    import numpy as np

    def of(side: str) -> float:
        runs = []
        for pair in pairs:
            groups = [getattr(pair, side)[pair.group == g].mean() for g in np.unique(pair.group)]
            runs.append(np.mean(groups) if how == "mean" else np.min(groups))
        return 100 * float(np.mean(runs))

    return Compared(
        line.where, measure, of("correct_a"), of("correct_b"), found, line.seeds, line.samples, line.only_a, line.only_b
    )


def _differences(matched: "list[tuple[Record, Record]]") -> list[str]:
    """What else two matched runs differ in."""
    from dualtta.report.tables import device_of

    notes = []
    parts: dict[str, Any] = {
        "the model": lambda record: record.cell["cell"]["model"],
        "the scenario": lambda record: record.cell["cell"]["scenario"],
        "the seed": lambda record: record.cell["cell"]["seed"],
        "the weights": lambda record: record.part("model", "weights_hash"),
        "the source model's weights": lambda record: record.part("model", "card", "weights"),
        "the device": device_of,
        "the versions of packages": lambda record: record.part("provenance", "versions"),
        "the commit of dualtta": lambda record: record.part("provenance", "commit"),
    }
    for words, part in parts.items():
        count = sum(part(a) != part(b) for a, b in matched)
        notes += [
            f"A and B also differ in {words}" + (f", in {count} of {len(matched)} cells" if count < len(matched) else "")
        ] * (count > 0)
    return notes


def _line(line: Compared) -> dict[str, Any]:
    difference, low, high = line.difference
    return {**vars(line), "difference": difference, "low": low, "high": high, "p_value": _p(line)}


def _p(line: Compared) -> float | None:
    """McNemar's exact test, of one run against one other."""
    from scipy.stats import binomtest

    if line.measure != "accuracy" or len(line.seeds) > 1 or line.where.startswith(ALL):
        return None
    disagree = line.only_a + line.only_b
    return float(binomtest(line.only_a, disagree).pvalue) if disagree else 1.0


def _by_seed(pairs: "list[Pair]") -> dict[str, Any]:
    from dualtta.report.paired import difference_by_seed

    return {"by_seed": {str(seed): value for seed, value in difference_by_seed(pairs).items()}}


def show(a: str, b: str, lines: list[Compared], pairs: "list[Pair]") -> None:
    from dualtta.printing import table
    from dualtta.report.render import visible

    header = [
        "where",
        "measure",
        "A, %",
        "B, %",
        "A - B, points",
        "95 % interval",
        "only A right",
        "only B right",
        "seeds",
        "rows",
    ]
    rows = []
    for line in lines:
        difference, low, high = line.difference
        counts = [f"{line.only_a:,}", f"{line.only_b:,}"] if line.measure == "accuracy" else ["", ""]
        numbers = [f"{line.a:.2f}", f"{line.b:.2f}", f"{difference:+.2f}", f"{low:+.2f} to {high:+.2f}"]
        rows.append([visible(line.where), line.measure, *numbers, *counts, str(len(line.seeds)), f"{line.samples:,}"])
    table(header, rows, f"A: {visible(a)}   B: {visible(b)}")
    each = _by_seed(pairs)["by_seed"]
    if len(each) > 1:
        print(f"accuracy seed by seed: {', '.join(f'{seed}: {value:+.2f}' for seed, value in each.items())}")
    elif len({pair.seed for pair in pairs}) == 1:
        print(ONE_SEED)
    if any(line.measure == "mean of groups" for line in lines) and not any(line.measure == "worst group" for line in lines):
        print("the worst groups are not compared: the samples differ between seeds")
    p = _p(lines[0]) if len(lines) in (1, 2, 3) else None
    if p is not None:
        print(f"McNemar's exact test: p = {p:.3g}")
