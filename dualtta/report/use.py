"""How samples are used: the paper's data efficiency, and what is right in each quadrant of the two drops."""

from collections.abc import Sequence
from typing import Any

from dualtta.report.benches import SHIFTS, Placed, bench_of, title_of, variants
from dualtta.report.gather import Metric, Setting, number
from dualtta.report.labels import changes, label, rank
from dualtta.report.layouts import AS_IT_IS, Column, method_table, numbered, titled
from dualtta.report.paper import BACKBONES, Reported, reported
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


def quadrants(placed: Sequence[Placed], outside: Sequence[Setting]) -> list[Table]:
    """Share of samples and share correct in each quadrant: benchmarks on average, impulse noise (the paper's figure) apart.

    Only the methods as they are, and by the kind of drop; sweeps of thresholds would be another table each.
    """
    rows: dict[str, tuple[list[Setting], str, int, str]] = {}  # label -> settings, what is averaged, of how many, paper's
    for one in sorted(placed, key=lambda one: (one.bench, rank(one.setting.method), one.label)):
        if not looks(one.setting) or one.kind not in ("", "drop"):
            continue
        variant = f" ({one.variant})" if one.variant else ""
        bench = bench_of(one.bench)
        name = f"{title_of(one.bench)}{variant}: {one.label}"
        rows.setdefault(name, ([], bench.of, len(bench.units), ""))[0].append(one.setting)
        if one.unit == "impulse_noise" and one.bench.startswith("mild/"):
            told = "yes" if one.setting.method == "dualtta" else ""
            rows[f"{title_of(one.bench)}, impulse noise{variant}: {one.label}"] = ([one.setting], "cells", 1, told)
    for setting in sorted(outside, key=lambda one: (place_name(one), rank(one.method), label(one))):
        if looks(setting) and not {"tau_sa", "tau_sp"} & set(changes(setting)):
            name = f"{place_name(setting)}: {label(setting)}"
            rows[name if name not in rows else f"{name}, no. {len(rows)}"] = ([setting], "cells", 1, "")
    notes = Notes()
    lines = [
        Row(name, (str(settings[0].about["method"].get("drop", "absolute")), *_corners(settings, of, cells, told, notes)))
        for name, (settings, of, cells, told) in rows.items()
    ]
    header = ("setting", "drops", *(f"{title}, {what}" for title in QUADRANTS.values() for what in ("samples", "correct")))
    below = notes.below(lines, "samples: of all; correct: of those in the quadrant; whom nobody looked at is in none")
    return [Table("quadrants", "Quadrants of the two drops, %", header, tuple(lines), below)] if lines else []


def looks(setting: Setting) -> bool:
    return bool(setting.each(("quadrants", "falls_holds", "count")))


def _corners(settings: list[Setting], of: str, cells: int, told: str, notes: Notes) -> list[Value]:
    """The four quadrants, each with its share of all samples and its share correct."""
    keys = {"falls_holds": "likely_correct.correct", "stays_breaks": "likely_incorrect.correct"}
    values = []
    for corner in QUADRANTS:
        paper = reported("quadrants", column=keys[corner]) if told and corner in keys else None
        samples = value(settings, share_of(corner), notes, cells=cells, of=of)
        correct = value(settings, ("quadrants", corner, "correct"), notes, cells=cells, of=of, reported=paper)
        values += [samples, correct]
    return values


def share_of(corner: str) -> Metric:
    """Counts are in a summary, shares are not."""

    def measure(summary: dict[str, Any]) -> float | None:
        count = number(summary, ("quadrants", corner, "count"))
        return None if count is None else count / float(summary["samples"])

    return measure
