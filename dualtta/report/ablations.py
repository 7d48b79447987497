"""The paper's ablations: which filters are on, whether likely-incorrect samples are used, and the two thresholds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dualtta.paper.reported import reported
from dualtta.report.benches import SHIFTS, Placed, variants
from dualtta.report.commands import command
from dualtta.report.labels import OWN, OWN_NOTE, WORDS, changes, label, name
from dualtta.report.layouts import Column, column_value, numbered, titled
from dualtta.report.table import Row, Table, Value
from dualtta.report.values import Notes, flag_best, value

YES, NO = "✓", "✗"
FILTER_LABELS = tuple(f"{name('dualtta')}, {WORDS[which, False]}" for which in ("filter_sa", "filter_sp"))


def without_d_minus(one: Placed) -> bool:
    return one.setting.method == "dualtta" and one.kind == "lam" and float(changes(one.setting)["lam"]) == 0.0


def filters(placed: Sequence[Placed]) -> list[Table]:
    """DualTTA with both filters, without the altering one, without the preserving one, on each dataset."""
    found = [one for one in placed if one.setting.method == "dualtta" and one.bench in SHIFTS]
    if not any(one.kind == "filters" for one in found):
        return []
    tables = []
    for i, (variant, some) in enumerate(variants(one for one in found if one.kind in ("", "filters")).items()):
        notes = Notes()
        rows: list[Row] = []
        for key in [key for key in ("colored_mnist", "waterbirds", "pacs", "office_home") if _has(some, key)]:
            lines = [_filter_row(some, key, *on, notes=notes) for on in ((True, True), (False, True), (True, False))]
            rows += flag_best(lines, [2])
        title = titled("Which filters are on: DualTTA's accuracy, %", variant)
        header = ("DualTTA on", "altering", "preserving", "accuracy")
        below = notes.below(rows)
        tables.append(
            Table(numbered("ablation-filters", i), title, header, tuple(rows), below, command("ablation-filters", some))
        )
    return tables


def _filter_row(placed: Sequence[Placed], key: str, altering: bool, preserving: bool, notes: Notes) -> Row:
    off = [WORDS[which, False] for which, on in (("filter_sa", altering), ("filter_sp", preserving)) if not on]
    row = ", ".join([name("dualtta"), *off])
    settings = [one.setting for one in placed if one.bench == key and one.label == row]
    bench = SHIFTS[key]
    which = "both" if altering and preserving else "preserving_only" if preserving else "altering_only"
    told = reported("ablation-filters", "dualtta", key, column=which)
    found = value(settings, bench.average, notes, cells=len(bench.units), of=bench.of, reported=told)
    return Row(bench.title, (YES if altering else NO, YES if preserving else NO, found))


def _has(placed: Sequence[Placed], key: str) -> bool:
    return any(one.bench == key and one.kind == "filters" for one in placed)


def incorrect(placed: Sequence[Placed]) -> list[Table]:
    """DualTTA, DeYO and EATA with and without likely-incorrect samples."""
    keys = ("colored_mnist", "pacs", "office_home")
    found = [
        one for one in placed if one.bench in keys and (without_d_minus(one) or (one.kind == "" and not changes(one.setting)))
    ]
    if not any(without_d_minus(one) or one.setting.method.endswith("_dual") for one in found):
        return []
    columns = [
        Column(SHIFTS[key].title, key, SHIFTS[key].average, paper=partial(reported, "ablation-incorrect", dataset=key))
        for key in keys
    ]
    tables = []
    for i, (variant, some) in enumerate(variants(found).items()):
        notes, rows = Notes(), []
        own = any(one.label == f"{row}, {OWN}" for one in some for row, _, _ in LINES)
        for row, method, used in LINES:
            for rate in ("", f", {OWN}") if own else ("",):
                of_row = [one for one in some if one.label == row + rate]
                if rate and not of_row:
                    continue
                values = tuple(column_value(of_row, column, notes, None if rate else method) for column in columns)
                words = row.replace(" with D-", "").replace(", without D-", "") + rate
                rows.append(Row(words, (YES if used else NO, *values)))
        rows = list(flag_best(rows, [1, 2, 3]))
        title = titled("Likely-incorrect samples (D-) used or not: accuracy, %", variant)
        header = ("method", "D-", *(SHIFTS[key].title for key in keys))
        below = notes.below(rows, *([OWN_NOTE] if own else []))
        tables.append(
            Table(numbered("ablation-incorrect", i), title, header, tuple(rows), below, command("ablation-incorrect", some))
        )
    return tables


LINES = (  # label of the records, method of the paper's table, D- used
    (name("dualtta"), "dualtta", True),
    (f"{name('dualtta')}, without D-", "dualtta without D-", False),
    (name("deyo"), "deyo", False),
    (name("deyo_dual"), "deyo_dual", True),
    (name("eata"), "eata", False),
    (name("eata_dual"), "eata_dual", True),
)


def sensitivity(placed: Sequence[Placed]) -> list[Table]:
    """A table a dataset: rows are tau_sa, columns tau_sp; DeYO is named below for reference."""
    tables = []
    for key, bench in SHIFTS.items():
        here = [one for one in placed if one.bench == key]
        for i, (variant, some) in enumerate(variants(here).items()):
            grid = threshold_grid(some)
            if not grid:
                continue
            notes = Notes()
            altering, preserving = (sorted({taus[axis] for taus in grid}) for axis in (0, 1))
            rows = []
            for sa in altering:
                cells = [[one.setting for one in grid.get((sa, sp), [])] for sp in preserving]
                values = [value(c, bench.average, notes, cells=len(bench.units), of=bench.of) for c in cells]
                rows.append(Row(f"{sa:g}", tuple(values)))
            rows = _best_of_all(rows)
            seeds = {seed for of in grid.values() for one in of for seed in one.setting.seeds}
            deyo = [one.setting.on(seeds) for one in some if one.label == name("deyo") and seeds & set(one.setting.seeds)]
            against = value(deyo, bench.average, notes, cells=len(bench.units), of=bench.of)
            title = titled(f"{bench.title}: accuracy of DualTTA by its thresholds, %", variant)
            header = ("tau_sa \\ tau_sp", *(f"{sp:g}" for sp in preserving))
            below = notes.below(rows, against_deyo(rows, against))
            tables.append(
                Table(numbered(f"sensitivity-{key}", i), title, header, tuple(rows), below, command("sensitivity", some))
            )
    return tables


def threshold_grid(placed: Sequence[Placed]) -> dict[tuple[float, float], list[Placed]]:
    """DualTTA's settings by (tau_sa, tau_sp), where both were set."""
    grid: dict[tuple[float, float], list[Placed]] = {}
    for one in placed:
        taus = changes(one.setting)
        if one.label == label(one.setting) and one.setting.method == "dualtta" and set(taus) == {"tau_sa", "tau_sp"}:
            grid.setdefault((float(taus["tau_sa"]), float(taus["tau_sp"])), []).append(one)
    return grid


def against_deyo(rows: Sequence[Row], deyo: Value) -> str:
    if deyo.mean is None:
        return "DeYO, the paper's reference, has no record here"
    measured = [v for row in rows for v in row.values if isinstance(v, Value) and v.mean is not None and v.whole]
    above = sum(v.mean > deyo.mean for v in measured if v.mean is not None)
    return f"DeYO: {deyo.mean:.2f}; DualTTA is above it at {above} of {len(measured)} pairs of thresholds (the paper: at all)"


def _best_of_all(rows: Sequence[Row]) -> list[Row]:
    """The best of the whole table rather than of each column."""
    flat = flag_best([Row("", (v,)) for row in rows for v in row.values], [0])
    flags = iter(row.values[0] for row in flat)
    return [replace(row, values=tuple(next(flags) for _ in row.values)) for row in rows]
