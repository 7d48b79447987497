"""What a method costs: forwards, speed and memory, as the records say."""

from collections.abc import Sequence
from typing import Any

from dualtta.records.reading import Record
from dualtta.report.gather import Collected, Setting, number
from dualtta.report.labels import name, rank
from dualtta.report.table import Row, Table, Value
from dualtta.report.values import over_seeds

HEADER = ("method", "on", "device", "cells", "forwards/sample", "images/s", "peak memory, MB", "updates/batch")
NOTE = (
    "mean and deviation over cells, all settings of a method together; images/s is of adapting alone, without reading images; "
    "memory on a CPU is that of the whole process"
)

MOST = 1e15  # what is beyond is no measurement


def cost(collected: Collected) -> list[Table]:
    """By dataset, model, batch size and device: cells of one method that differ in their settings stand together."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for setting in collected.settings:
        for record in setting.records:
            groups.setdefault(_key(setting, record), []).append(record)
    rows = []
    for key in sorted(groups):
        dataset, model, size, device, _, method = key
        records = groups[key]
        where = f"{dataset}, {model}, batches of {size}"
        rows.append(Row(name(method), (where, device, str(len(records)), *_values(records))))
    return [Table("cost", "What it costs", HEADER, tuple(rows), {"(1)": NOTE})] if rows else []


def _key(setting: Setting, record: Record) -> tuple[Any, ...]:
    size = setting.stream.get("batch_size", 64)
    return (setting.dataset, setting.model, str(size), device_of(record), rank(setting.method), setting.method)


def device_of(record: Record) -> str:
    """The GPU by its name, else the kind of processor."""
    gpu, used = record.part("provenance", "machine", "gpu"), str(record.cost.get("device"))
    return str(gpu) if used.startswith("cuda") and gpu else used


def _values(records: Sequence[Record]) -> tuple[Value, ...]:
    samples = max(record.summary["samples"] for record in records)
    columns = (
        [record.summary["forwards"] / record.summary["samples"] for record in records],
        [measured(record.cost, "images_per_second") for record in records],
        [measured(record.cost, "peak_memory_mb") for record in records],
        [record.summary["updates"] / max(record.summary["batches"], 1) for record in records],
    )
    return tuple(_value(column, samples) for column in columns)


def measured(cost: dict[str, Any], what: str) -> float | None:
    """A number that a record's `done` holds; None where it is none, or can be none of a measurement.

    >>> measured({"seconds": 2}, "seconds"), measured({"seconds": "2"}, "seconds"), measured({"seconds": -1}, "seconds")
    (2.0, None, None)
    """
    value = number(cost, what)
    return value if value is not None and 0 <= value < MOST else None


def _value(column: Sequence[float | None], samples: int) -> Value:
    found = [value for value in column if value is not None]
    if not found:
        return Value()
    mean, deviation = over_seeds(dict(enumerate(found)))
    return Value(mean, deviation, len(found), samples)
