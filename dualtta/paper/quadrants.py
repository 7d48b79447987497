"""What is correct in each quadrant of the two drops: benchmarks on average, impulse noise (the paper's figure) apart."""

from dataclasses import dataclass, field
from typing import Any

from dualtta.paper.placing import bench_of, title_of, titled
from dualtta.paper.reported import reported
from dualtta.report.labels import changes
from dualtta.report.statistics import mean_std
from dualtta.report.table import Notes, Row, Table, Value

QUADRANTS = {  # of (Diff_sa, Diff_sp)
    "falls_holds": "D+ (falls, holds)",
    "stays_breaks": "D- (stays, breaks)",
    "falls_breaks": "falls, breaks",
    "stays_holds": "stays, holds",
}
PAPER = {"falls_holds": "likely_correct.correct", "stays_breaks": "likely_incorrect.correct"}
NOTE = "samples: of all; correct: of those in the quadrant; samples of which a drop is not known are in none"


@dataclass
class Line:
    """A row before its values: the settings that it is the mean of, and how many that takes."""

    settings: list[int] = field(default_factory=list)
    units: int = 1
    of: str = "cells"
    paper: bool = False  # the paper has this row


def quadrants(frame: Any, placed: Any) -> list[Table]:
    """Share of samples and share correct in each quadrant, of the methods as they are and by the kind of drop."""
    frame = frame[[isinstance(found, dict) for found in frame["quadrants"]]].copy()
    for corner in QUADRANTS:
        frame[f"{corner} samples"] = [found[corner]["count"] for found in frame["quadrants"]] / frame["samples"]
        frame[f"{corner} correct"] = [found[corner]["correct"] for found in frame["quadrants"]]
        frame[f"{corner} correct"] = frame[f"{corner} correct"].astype(float)
    lines: dict[str, Line] = {}
    firsts = placed[placed["setting"].isin(set(frame["setting"]))].drop_duplicates("setting").itertuples()
    for one in sorted(firsts, key=lambda one: (one.bench, one.order, one.label)):
        if one.kind not in ("", "drop"):
            continue
        where, bench = titled(title_of(one.bench), one.variant), bench_of(one.bench)
        lines.setdefault(f"{where}: {one.label}", Line([], len(bench.units), bench.of)).settings.append(one.setting)
        if one.unit == "impulse_noise" and one.bench.startswith("mild/"):
            lines[f"{where}, impulse noise: {one.label}"] = Line([one.setting], paper=one.method == "dualtta")
    for cell in frame[~frame["setting"].isin(set(placed["setting"]))].drop_duplicates("setting").itertuples():
        if not {"tau_sa", "tau_sp"} & set(changes(cell)):
            name = f"{cell.task_name}: {cell.label}"
            lines[name if name not in lines else f"{name}, no. {len(lines)}"] = Line([cell.setting])
    single = [line.settings[0] for line in lines.values() if line.units == 1]
    notes = Notes()
    rows = []
    for name, line in lines.items():
        if line.units > 1 and len(line.settings) == 1 and line.settings[0] in single:
            continue  # it has a row of its own
        cells = frame[frame["setting"].isin(line.settings)]
        drop = str(cells.iloc[0]["hyperparameters"].get("drop", "absolute"))
        rows.append(Row(name, (drop, *_values(cells, line, notes))))
    header = ("setting", "drops", *(f"{title}, {what}" for title in QUADRANTS.values() for what in ("samples", "correct")))
    below = notes.below(rows, NOTE)
    return [Table("quadrants", "Quadrants of the two drops, %", header, tuple(rows), below, detail=True)] if rows else []


def _values(cells: Any, line: Line, notes: Notes) -> list[Value]:
    values = []
    for corner in QUADRANTS:
        paper = reported("quadrants", column=PAPER[corner]) if line.paper and corner in PAPER else None
        values.append(mean_std(cells, f"{corner} samples", notes, units=line.units, of=line.of))
        values.append(mean_std(cells, f"{corner} correct", notes, units=line.units, of=line.of, reported=paper))
    return values
