"""The paper's ablations: which filters are on, whether likely-incorrect samples are used, and the two thresholds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dualtta.paper.placing import SHIFTS, titled, variants
from dualtta.paper.reported import METHODS, reported
from dualtta.paper.run_commands import command
from dualtta.paper.tables import column
from dualtta.report.labels import OWN, OWN_NOTE, WORDS, changes
from dualtta.report.statistics import mark_best, mean_std, pivot
from dualtta.report.table import Notes, Row, Table, Value, numbered

YES, NO = "✓", "✗"
DUAL = METHODS["dualtta"]
WITHOUT = {key: f"{DUAL}, {WORDS[key, off]}" for key, off in (("filter_sa", False), ("filter_sp", False), ("lam", 0.0))}
FILTERS = (  # altering, preserving, label, the paper's column
    (YES, YES, DUAL, "both"),
    (NO, YES, WITHOUT["filter_sa"], "preserving_only"),
    (YES, NO, WITHOUT["filter_sp"], "altering_only"),
)
INCORRECT = (  # label, the paper's row, D- used
    (DUAL, "dualtta", True),
    (WITHOUT["lam"], "dualtta without D-", False),
    (METHODS["deyo"], "deyo", False),
    (METHODS["deyo_dual"], "deyo_dual", True),
    (METHODS["eata"], "eata", False),
    (METHODS["eata_dual"], "eata_dual", True),
)


def shown(placed: Any) -> set[int]:
    """The settings of sweeps and ablations that these tables show."""
    found = set()
    for cell in placed[placed["bench"].isin(SHIFTS) & (placed["method"] == "dualtta")].drop_duplicates("setting").itertuples():
        if cell.label != cell.base:
            continue
        without_d_minus = cell.label == WITHOUT["lam"] and cell.bench != "waterbirds"
        if without_d_minus or cell.label in (WITHOUT["filter_sa"], WITHOUT["filter_sp"]) or thresholds(cell):
            found.add(cell.setting)
    return found


def filters(placed: Any) -> list[Table]:
    """DualTTA with both filters, without the altering one, without the preserving one, on each dataset."""
    found = placed[(placed["method"] == "dualtta") & placed["bench"].isin(SHIFTS) & placed["kind"].isin(["", "filters"])]
    if not (found["kind"] == "filters").any():
        return []
    made = []
    for i, (variant, some) in enumerate(variants(found).items()):
        notes = Notes()
        rows: list[Row] = []
        ablated = set(some["bench"][some["kind"] == "filters"])
        for key in [key for key in ("colored_mnist", "waterbirds", "pacs", "office_home") if key in ablated]:
            bench, lines = SHIFTS[key], []
            for altering, preserving, label, which in FILTERS:
                cells = some[(some["bench"] == key) & (some["label"] == label)]
                paper = reported("ablation-filters", "dualtta", key, column=which)
                found_value = mean_std(cells, bench.average, notes, units=len(bench.units), of=bench.of, reported=paper)
                lines.append(Row(bench.title, (altering, preserving, found_value)))
            rows += mark_best(lines, {2: bench.average})
        title = titled("Which filters are on: DualTTA's accuracy, %", variant)
        header = ("DualTTA on", "altering", "preserving", "accuracy")
        made.append(_table("ablation-filters", i, title, header, rows, notes, some))
    return made


def incorrect(placed: Any) -> list[Table]:
    """DualTTA, DeYO and EATA with and without likely-incorrect samples."""
    keys = ("colored_mnist", "pacs", "office_home")
    here = placed[placed["bench"].isin(keys)]
    cells = list(here.itertuples())
    without = np.array([c.method == "dualtta" and c.kind == "lam" and float(changes(c)["lam"]) == 0 for c in cells], bool)
    plain = np.array([c.kind == "" and not changes(c) for c in cells], bool)
    if not (without.any() or any(c.method.endswith("_dual") for c, one in zip(cells, plain, strict=True) if one)):
        return []
    columns = [
        column(SHIFTS[key].title, key, SHIFTS[key].average, paper=partial(reported, "ablation-incorrect", dataset=key))
        for key in keys
    ]
    made = []
    for i, (variant, some) in enumerate(variants(here[without | plain]).items()):
        notes, lines = Notes(), []
        labels = set(some["label"])
        own = any(f"{label}, {OWN}" in labels for label, *_ in INCORRECT)
        for label, method, used in INCORRECT:
            at_own = f"{label}, {OWN}"
            lines += [(label, method, used), *([(at_own, "", used)] if at_own in labels else [])]
        wanted = [replace(one, reported=_paper(one.header, keys, lines)) for one in columns]
        rows = [
            Row(words.replace(" with D-", "").replace(f", {WORDS['lam', 0.0]}", ""), (YES if used else NO, *row.values))
            for (words, _, used), row in zip(lines, pivot(some, wanted, notes, [words for words, *_ in lines]), strict=True)
        ]
        title = titled("Likely-incorrect samples (D-) used or not: accuracy, %", variant)
        header = ("method", "D-", *(SHIFTS[key].title for key in keys))
        made.append(_table("ablation-incorrect", i, title, header, rows, notes, some, *([OWN_NOTE] if own else [])))
    return made


def _paper(title: str, keys: Sequence[str], lines: Sequence[tuple[str, str, bool]]) -> Any:
    """The paper's numbers of a dataset, by label."""
    key = next(key for key in keys if SHIFTS[key].title == title)
    methods = {words: method for words, method, _ in lines}
    return lambda label: reported("ablation-incorrect", methods[label], dataset=key) if methods[label] else None


def sensitivity(placed: Any) -> list[Table]:
    """A table a dataset: rows are tau_sa, columns tau_sp; DeYO is named below for reference."""
    made = []
    for key, bench in SHIFTS.items():
        here = placed[(placed["bench"] == key)]
        for i, (variant, some) in enumerate(variants(here).items()):
            taus = {cell.setting: thresholds(cell) for cell in some.drop_duplicates("setting").itertuples()}
            grid = {setting: pair for setting, pair in taus.items() if pair}
            if not grid:
                continue
            notes = Notes()
            altering, preserving = (sorted({pair[axis] for pair in grid.values()}) for axis in (0, 1))
            rows = []
            for sa in altering:
                cells = [some[[grid.get(one) == (sa, sp) for one in some["setting"]]] for sp in preserving]
                values = [mean_std(each, bench.average, notes, units=len(bench.units), of=bench.of) for each in cells]
                rows.append(Row(f"{sa:g}", tuple(values)))
            rows = _best_of_all(rows, bench.average)
            seeds = set(some["seed"][some["setting"].isin(grid)])
            deyo = some[(some["label"] == METHODS["deyo"]) & some["seed"].isin(seeds)]
            against = mean_std(deyo, bench.average, notes, units=len(bench.units), of=bench.of)
            title = titled(f"{bench.title}: accuracy of DualTTA by its thresholds, %", variant)
            header = ("tau_sa \\ tau_sp", *(f"{sp:g}" for sp in preserving))
            used = some[some["setting"].isin({*grid, *deyo["setting"]})]
            made.append(
                _table(f"sensitivity-{key}", i, title, header, rows, notes, some, against_deyo(rows, against), used=used)
            )
    return made


def thresholds(cell: Any) -> tuple[float, float] | None:
    """DualTTA's thresholds where both were set, and nothing else was."""
    taus = changes(cell)
    if cell.label != cell.base or cell.method != "dualtta" or set(taus) != {"tau_sa", "tau_sp"}:
        return None
    return float(taus["tau_sa"]), float(taus["tau_sp"])


def against_deyo(rows: Sequence[Row], deyo: Value) -> str:
    if deyo.mean is None:
        return "DeYO, the paper's reference, has no record here"
    measured = [v for row in rows for v in row.values if isinstance(v, Value) and v.mean is not None and v.whole]
    above = sum(v.mean > deyo.mean for v in measured if v.mean is not None)
    return f"DeYO: {deyo.mean:.2f}; DualTTA is above it at {above} of {len(measured)} pairs of thresholds (the paper: at all)"


def _best_of_all(rows: Sequence[Row], metric: str) -> list[Row]:
    """The best of the whole table rather than of each column."""
    flags = iter(row.values[0] for row in mark_best([Row("", (v,)) for row in rows for v in row.values], {0: metric}))
    return [replace(row, values=tuple(next(flags) for _ in row.values)) for row in rows]


def _table(
    name: str,
    number: int,
    title: str,
    header: tuple[str, ...],
    rows: Sequence[Row],
    notes: Notes,
    placed: Any,
    *more: str,
    used: Any = None,
) -> Table:
    experiment = "sensitivity" if name.startswith("sensitivity") else name
    settings = frozenset((placed if used is None else used)["setting"])
    below = notes.below(rows, *more)
    return Table(numbered(name, number), title, header, tuple(rows), below, command(experiment, placed), settings=settings)
