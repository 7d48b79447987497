"""How samples are used: the paper's data efficiency, and what is right in each quadrant of the two drops."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dualtta.paper.reported import BACKBONES, Reported, reported
from dualtta.report.benches import SHIFTS, Placed, bench_of, title_of, variants
from dualtta.report.gather import Metric, Setting, number
from dualtta.report.labels import changes, label, rank
from dualtta.report.layouts import AS_IT_IS, Column, method_table, numbered, titled
from dualtta.report.places import place_name
from dualtta.report.table import Row, Table, Value
from dualtta.report.values import Notes, value

SHARES = {"adapt": "%adapt", "corr_adapt": "%corr-adapt", "low_entropy": "%low entropy"}
UNSAID = "the paper does not say with which backbone"


def efficiency(placed: Sequence[Placed]) -> list[Table]:
    """Shares of all samples: used, used rightly (D+ and correct, or D- and not), of low entropy."""
    wanted = [one for one in placed if one.kind in AS_IT_IS and (one.bench in SHIFTS or one.bench.startswith("mild/"))]
    wanted = [one for one in wanted if one.setting.method not in ("source", "norm")]
    tables = []
    for i, (variant, some) in enumerate(variants(wanted).items()):
        benches = [key for key in SHIFTS if key in ("colored_mnist", "office_home") or any(one.bench == key for one in some)]
        benches += [f"mild/{model}" for model in BACKBONES if any(one.bench == f"mild/{model}" for one in some)]
        benches += sorted({one.bench for one in some if one.bench.startswith("mild/")} - set(benches))
        columns = [_share(bench, share) for bench in benches for share in SHARES]
        title = titled("Data efficiency: shares of all samples, %", variant)
        usual = ("eata", "sar", "deyo", "dualtta")
        tables.append(method_table(numbered("efficiency", i), title, some, columns, usual, "efficiency"))
    return tables


def _share(bench: str, share: str) -> Column:
    model = bench.split("/", 1)[1] if "/" in bench else ""

    def told(method: str) -> Reported | None:
        found = reported("efficiency", method, "imagenet_c" if model else bench, column=share)
        return Reported(found.value, (*found.notes, UNSAID)) if found and model else found

    return Column(f"{title_of(bench)}, {SHARES[share]}", bench, share, compared=share != "low_entropy", paper=told)


QUADRANTS = {  # of (Diff_sa, Diff_sp)
    "falls_holds": "D+ (falls, holds)",
    "stays_breaks": "D- (stays, breaks)",
    "falls_breaks": "falls, breaks",
    "stays_holds": "stays, holds",
}


@dataclass(frozen=True)
class Line:
    """A row before its values: the settings it is the mean of, how many that takes, and whether the paper has it."""

    settings: list[Setting]
    cells: int = 1
    of: str = "cells"
    told: bool = False


def quadrants(placed: Sequence[Placed], outside: Sequence[Setting]) -> list[Table]:
    """Share of samples and share correct in each quadrant: benchmarks on average, impulse noise (the paper's figure) apart.

    Only the methods as they are, and by the kind of drop; sweeps of thresholds would be another table each.
    """
    lines: dict[str, Line] = {}
    for one in sorted(placed, key=lambda one: (one.bench, rank(one.setting.method), one.label)):
        if not looks(one.setting) or one.kind not in ("", "drop"):
            continue
        where, bench = titled(title_of(one.bench), one.variant), bench_of(one.bench)
        lines.setdefault(f"{where}: {one.label}", Line([], len(bench.units), bench.of)).settings.append(one.setting)
        if one.unit == "impulse_noise" and one.bench.startswith("mild/"):
            lines[f"{where}, impulse noise: {one.label}"] = Line([one.setting], told=one.setting.method == "dualtta")
    for setting in sorted(outside, key=lambda one: (place_name(one), rank(one.method), label(one))):
        if looks(setting) and not {"tau_sa", "tau_sp"} & set(changes(setting)):
            name = f"{place_name(setting)}: {label(setting)}"
            lines[name if name not in lines else f"{name}, no. {len(lines)}"] = Line([setting])
    alone = [id(line.settings[0]) for line in lines.values() if line.cells == 1]
    notes = Notes()
    rows = [
        Row(name, (str(line.settings[0].about["method"].get("drop", "absolute")), *_corners(line, notes)))
        for name, line in lines.items()
        if line.cells == 1 or len(line.settings) > 1 or id(line.settings[0]) not in alone  # else it has its row already
    ]
    header = ("setting", "drops", *(f"{title}, {what}" for title in QUADRANTS.values() for what in ("samples", "correct")))
    below = notes.below(rows, "samples: of all; correct: of those in the quadrant; whom nobody looked at is in none")
    return [Table("quadrants", "Quadrants of the two drops, %", header, tuple(rows), below)] if rows else []


def looks(setting: Setting) -> bool:
    """Whether both drops of its samples were looked at."""
    return bool(setting.each(("quadrants", "falls_holds", "count")))


def _corners(line: Line, notes: Notes) -> list[Value]:
    """The four quadrants, each with its share of all samples and its share correct."""
    keys = {"falls_holds": "likely_correct.correct", "stays_breaks": "likely_incorrect.correct"}
    values = []
    for corner in QUADRANTS:
        paper = reported("quadrants", column=keys[corner]) if line.told and corner in keys else None
        samples = value(line.settings, share_of(corner), notes, cells=line.cells, of=line.of)
        correct = value(line.settings, ("quadrants", corner, "correct"), notes, cells=line.cells, of=line.of, reported=paper)
        values += [samples, correct]
    return values


def share_of(corner: str) -> Metric:
    """Counts are in a summary, shares are not."""

    def measure(summary: dict[str, Any]) -> float | None:
        count = number(summary, ("quadrants", corner, "count"))
        return None if count is None else count / float(summary["samples"])

    return measure
