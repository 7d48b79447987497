"""The tables of a report: those of plug-ins, then a table a task for every setting that none of these shows, then the cost."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from dualtta.records.reading import Record
from dualtta.report.labels import OWN, OWN_NOTE
from dualtta.report.plugins import TABLES
from dualtta.report.statistics import Column, over_seeds, pivot
from dualtta.report.table import Notes, Row, Table, Value, numbered

METRICS = {
    "accuracy": "accuracy",
    "mean of groups": "mean_of_groups",
    "worst group": "worst_group",
    "used": "adapt",
    "used rightly": "corr_adapt",
    "calibration error": "calibration_error",
}
COMPARED = ("accuracy", "mean_of_groups", "worst_group")
MANY = 16  # so many domains are not shown one by one
WIDE = 12  # more tasks than that are rows rather than columns
LONGEST = 100  # characters of a file name
COST = ("method", "on", "device", "cells", "forwards/sample", "images/s", "peak memory, MB", "updates/batch")
COST_NOTE = (
    "mean and deviation over cells, all settings of a method together; images/s is of adapting alone, without reading images; "
    "memory on a CPU is that of the whole process"
)


def build_tables(frame: Any) -> list[Table]:
    """All tables; the accuracy of every setting is in at least one of them."""
    tables = [table for make in TABLES.values() for table in make(frame)] if len(frame) else []
    shown = frozenset[int]().union(*(table.settings for table in tables))
    tables += by_task(frame[~frame["setting"].isin(shown)])
    tables = sorted(tables, key=lambda table: table.detail) + cost(frame)
    names: dict[str, int] = {}
    unique = []
    for table in tables:
        number = names[table.name] = names.get(table.name, -1) + 1
        unique.append(replace(table, name=numbered(table.name, number)))
    return unique


def by_task(frame: Any) -> list[Table]:
    """A table for each task, and one over all tasks where there are several."""
    tasks = [cells for _, cells in frame.groupby("task", sort=False)]
    return ([overview(frame, tasks)] if len(tasks) > 1 else []) + [task_table(cells) for cells in tasks]


def task_table(cells: Any) -> Table:
    """One task: methods below each other, all metrics beside each other."""
    notes, first = Notes(), cells.iloc[0]
    columns = [
        Column(header, metric, compare=metric if metric in COMPARED else None)
        for header, metric in METRICS.items()
        if cells[metric].notna().any()
    ]
    met = {name for accuracies in cells["domain_accuracy"] for name in accuracies}
    if 1 < len(met) < MANY:
        cells = cells.assign(**{f"of {name}": [each.get(name) for each in cells["domain_accuracy"]] for name in met})
        columns += [Column(name, f"of {name}", compare=("domain", name)) for name in first["domains"] if name in met]
    rows = pivot(cells, columns, notes)
    more = [f"seeds {', '.join(map(str, sorted(set(cells['seed']))))}"]
    more += [OWN_NOTE] if any(f", {OWN}" in row.label for row in rows) else []
    slug = re.sub(r"[^a-z0-9]+", "-", f"{first['dataset']}-{first['model']}-{first['scenario']}".lower())[:LONGEST].strip("-")
    title = f"{first['task_name']}: %, {sizes(cells)}"
    header = ("method", *(column.header for column in columns))
    return Table(slug or "results", title, header, tuple(rows), notes.below(rows, *more))


def sizes(cells: Any) -> str:
    counts = sorted(set(cells["samples"]))
    return f"{' or '.join(f'{count:,}' for count in counts)} samples"


def overview(frame: Any, tasks: Sequence[Any]) -> Table:
    """Methods by tasks; the mean over groups and the worst group where there are groups."""
    notes = Notes()
    single = all((cells.groupby("method")["setting"].nunique() == 1).all() for cells in tasks)
    words = dict(zip(frame["setting"], frame["label"], strict=True))
    if single:
        frame = frame.assign(label=[about.title for about in frame["about"]])
    labels = list(dict.fromkeys(label for _, label in sorted(zip(frame["order"], frame["label"], strict=True))))
    columns = []
    for cells in tasks:
        where, grouped = _short(tasks, cells), cells["mean_of_groups"].notna().any()
        metrics = {"mean_of_groups": ", mean of groups", "worst_group": ", worst group"} if grouped else {"accuracy": ""}
        of_task = partial(_of_task, task=cells["task"].iloc[0])
        columns += [Column(where + suffix, metric, of_task, compare=metric) for metric, suffix in metrics.items()]
    rows = pivot(frame, columns, notes, labels)
    if single:
        rows = [Row(row.label, tuple(_with_settings(v, words, notes) for v in row.values)) for row in rows]
    table = Table("results", "Results: accuracy, %", ("method", *(column.header for column in columns)), tuple(rows))
    table = transposed(table, "where") if len(columns) > max(WIDE, len(rows)) else table
    return replace(table, notes=notes.below(table.rows))


def _of_task(frame: Any, task: str) -> Any:
    return frame[frame["task"] == task]


def transposed(table: Table, corner: str) -> Table:
    """Columns as rows."""
    columns = zip(*(row.values for row in table.rows), strict=True)
    rows = tuple(Row(title, values) for title, values in zip(table.header[1:], columns, strict=True))
    return replace(table, header=(corner, *(row.label for row in table.rows)), rows=rows)


def _with_settings(value: Any, words: dict[int, str], notes: Notes) -> Value:
    """The settings of a row that is called by its method alone, as a note."""
    found: Value = value
    if found.mean is None:
        return found
    said = [label.split(", ", 1)[1] for label in {words[number] for number in found.cells["setting"]} if ", " in label]
    return replace(found, marks=(*notes.marks(said), *found.marks))


def _short(tasks: Sequence[Any], cells: Any) -> str:
    """The task in as few words as tell it from the others."""
    first, firsts = cells.iloc[0], [one.iloc[0] for one in tasks]
    if sum(one["dataset"] == first["dataset"] for one in firsts) == 1:
        return str(first["dataset"])
    same = [one["task"] for one in firsts if one["task_name"] == first["task_name"]]
    if len(same) == 1:
        return str(first["task_name"])
    return f"{first['task_name']} ({'; '.join(first['remarks']) or 'all data'}; no. {same.index(first['task']) + 1})"


def cost(frame: Any) -> list[Table]:
    """Forwards, speed and memory by dataset, model, batch size, device and method, all settings of a method together."""
    if not len(frame):
        return []
    measured = pd.DataFrame(
        {
            "where": [f"{c.dataset}, {c.model}, batches of {c.stream.get('batch_size', 64)}" for c in frame.itertuples()],
            "device": [device_of(record) for record in frame["record"]],
            "order": [about.order for about in frame["about"]],
            "title": [about.title for about in frame["about"]],
            "forwards": frame["forwards"] / frame["samples"],
            "speed": frame["images_per_second"],
            "memory": frame["peak_memory_mb"],
            "updates": frame["updates"] / frame["batches"].clip(lower=1),
            "samples": frame["samples"],
        }
    )
    rows = []
    for (where, device, _, title), cells in measured.groupby(["where", "device", "order", "title"]):
        numbers = [cells[name].dropna().tolist() for name in ("forwards", "speed", "memory", "updates")]
        samples = int(cells["samples"].max())
        values = (Value(*over_seeds(some), len(some), samples) if some else Value() for some in numbers)
        rows.append(Row(title, (where, device, str(len(cells)), *values)))
    return [Table("cost", "What it costs", COST, tuple(rows), {"(1)": COST_NOTE})]


def device_of(record: Record) -> str:
    """The GPU by its name, else the kind of device."""
    gpu, used = record.part("provenance", "machine", "gpu"), str(record.cost.get("device"))
    return str(gpu) if used.startswith("cuda") and gpu else used
