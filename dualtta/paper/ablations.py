"""The paper's ablations: which filters are on, whether likely-incorrect samples are used, and the two thresholds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dualtta.paper.placing import SHIFTS, variants
from dualtta.paper.reported import METHODS, reported
from dualtta.paper.tables import column, paper_table
from dualtta.report.labels import OWN, WORDS
from dualtta.report.statistics import mark_best, mean_std, pivot
from dualtta.report.table import Notes, Row, Table, Value

YES, NO = "✓", "✗"
DUAL = METHODS["dualtta"]
WITHOUT = {key: f"{DUAL}, {WORDS[key, off]}" for key, off in (("filter_sa", False), ("filter_sp", False), ("lam", 0.0))}
FILTERS = (  # altering, preserving, label, the paper's column
    (YES, YES, DUAL, "both"),
    (NO, YES, WITHOUT["filter_sa"], "preserving_only"),
    (YES, NO, WITHOUT["filter_sp"], "altering_only"),
)
INCORRECT = {  # label: D- used
    DUAL: True,
    WITHOUT["lam"]: False,
    **{METHODS[method]: method.endswith("_dual") for method in ("deyo", "deyo_dual", "eata", "eata_dual")},
}


def shown(placed: Any) -> set[int]:
    """The settings of sweeps and ablations that these tables show."""
    of = placed["bench"].isin(SHIFTS) & (placed["method"] == "dualtta") & (placed["label"] == placed["base"])
    filters = (WITHOUT["filter_sa"], WITHOUT["filter_sp"])
    return {
        cell.setting
        for cell in placed[of].drop_duplicates("setting").itertuples()
        if cell.label in filters or thresholds(cell) or (cell.label == WITHOUT["lam"] and cell.bench != "waterbirds")
    }


def filters(placed: Any) -> list[Table]:
    """DualTTA with both filters, without the altering one, without the preserving one, on each dataset."""
    found = placed[(placed["method"] == "dualtta") & placed["bench"].isin(SHIFTS) & placed["kind"].isin(["", "filters"])]
    if not (found["kind"] == "filters").any():
        return []
    made = []
    for title, some in variants(found, "Which filters are on: DualTTA's accuracy, %"):
        notes = Notes()
        rows: list[Row] = []
        ablated = set(some["bench"][some["kind"] == "filters"])
        for key in [key for key in ("colored_mnist", "waterbirds", "pacs", "office_home") if key in ablated]:
            bench, lines = SHIFTS[key], []
            for altering, preserving, label, which in FILTERS:
                cells = some[(some["bench"] == key) & (some["label"] == label)]
                paper = reported("ablation-filters", "dualtta", key, column=which)
                value = mean_std(cells, bench.average, notes, units=len(bench.units), of=bench.of, reported=paper)
                lines.append(Row(bench.title, (altering, preserving, value)))
            rows += mark_best(lines, {2: bench.average})
        header = ("DualTTA on", "altering", "preserving", "accuracy")
        made.append(paper_table("ablation-filters", title, header, rows, notes, some))
    return made


def incorrect(placed: Any) -> list[Table]:
    """DualTTA, DeYO and EATA with and without likely-incorrect samples."""
    keys = ("colored_mnist", "pacs", "office_home")
    here = placed[placed["bench"].isin(keys)]
    without = np.array(
        [c.method == "dualtta" and c.kind == "lam" and float(c.changes["lam"]) == 0 for c in here.itertuples()], bool
    )
    plain = np.array([not changed for changed in here["changes"]], bool)
    if not (without.any() or here["method"][plain].str.endswith("_dual").any()):
        return []
    columns = [
        column(SHIFTS[key].title, key, SHIFTS[key].average, paper=partial(reported, "ablation-incorrect", dataset=key))
        for key in keys
    ]
    made = []
    for title, some in variants(here[without | plain], "Likely-incorrect samples (D-) used or not: accuracy, %"):
        notes, labels = Notes(), set(some["label"])
        lines = {f"{label}{own}": used for label, used in INCORRECT.items() for own in ("", f", {OWN}")}
        lines = {label: used for label, used in lines.items() if label in INCORRECT or label in labels}
        rows = [
            Row(row.label.replace(" with D-", "").replace(f", {WORDS['lam', 0.0]}", ""), (YES if used else NO, *row.values))
            for row, used in zip(pivot(some, columns, notes, list(lines)), lines.values(), strict=True)
        ]
        header = ("method", "D-", *(column.header for column in columns))
        made.append(paper_table("ablation-incorrect", title, header, rows, notes, some))
    return made


def sensitivity(placed: Any) -> list[Table]:
    """A table a dataset: rows are tau_sa, columns tau_sp; DeYO is named below for reference."""
    made = []
    for key, bench in SHIFTS.items():
        value = partial(mean_std, metric=bench.average, units=len(bench.units), of=bench.of)
        for title, some in variants(placed[placed["bench"] == key], f"{bench.title}: accuracy of DualTTA by its thresholds, %"):
            pairs = pd.Series([thresholds(cell) for cell in some.itertuples()], some.index, dtype=object)
            grid = some[pairs.notna()]
            if not len(grid):
                continue
            notes = Notes()
            altering, preserving = (sorted({pair[axis] for pair in pairs.dropna()}) for axis in (0, 1))
            rows = [
                Row(f"{sa:g}", tuple(value(some[[pair == (sa, sp) for pair in pairs]], notes=notes) for sp in preserving))
                for sa in altering
            ]
            rows = _best_of_all(rows, bench.average)
            deyo = some[(some["label"] == METHODS["deyo"]) & some["seed"].isin(set(grid["seed"]))]
            below = against_deyo(rows, value(deyo, notes=notes))
            header = ("tau_sa \\ tau_sp", *(f"{sp:g}" for sp in preserving))
            used = {*grid["setting"], *deyo["setting"]}
            made.append(paper_table(f"sensitivity-{key}", title, header, rows, notes, some, "sensitivity", [below], used))
    return made


def thresholds(cell: Any) -> tuple[float, float] | None:
    """DualTTA's thresholds where both were set, and nothing else was."""
    if cell.label != cell.base or cell.method != "dualtta" or set(cell.changes) != {"tau_sa", "tau_sp"}:
        return None
    return float(cell.changes["tau_sa"]), float(cell.changes["tau_sp"])


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
