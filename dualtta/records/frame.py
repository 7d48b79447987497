"""Records as a pandas DataFrame: a row a cell of a grid. Needs pandas, and no torch."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dualtta.records.caveats import caveats
from dualtta.records.format import COLUMNS as SAMPLE_COLUMNS
from dualtta.records.metrics import Column
from dualtta.records.reading import Record, read_all
from dualtta.records.verification import verify

STAGES = ("result", "tuning")
COLUMNS = (  # of a frame without rows
    *("key", "path", "stage", "dataset", "model", "method", "scenario", "seed", "title", "protocol", "choices", "settings"),
    *("stream", "source", "hyperparameters", "lr", "statistics", "samples", "subset", "accuracy", "mean_of_groups"),
    *("worst_group", "caveats", "record"),
)
IDENTITY = ("key", "dataset", "model", "method", "scenario", "seed")  # beside per-sample columns
NESTED = {"domains": "domain_accuracy", "groups": "group_accuracy", "quadrants": "quadrants"}  # dicts of summary.json
MOST = 1e15  # no cost is larger: what is beyond is a damaged number
Reduce = Callable[[Record, dict[str, Column]], Any]


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and no boolean.

    >>> is_number(1), is_number(True), is_number(float("nan")), is_number("1")
    (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Records(pd.DataFrame):  # type: ignore[misc]
    """A row a cell; every pandas operation that returns rows of it returns `Records` again.

    key, path           the cell's key, and the folder of results or packed file that holds it
    stage               "result", or "tuning" where the cell chose settings
    dataset, model, method, scenario, seed, title
    choices, settings, stream, source
                        what was chosen of the dataset, the method, the scenario and the training of the source model (dicts)
    protocol            whose published settings the method follows, where recorded
    hyperparameters, lr all settings in force (a dict), and the learning rate
    statistics          what BatchNorm normalises by, where recorded
    samples, subset     how many samples (`frame["samples"]`), and whether they are a part of the data
    accuracy, mean_of_groups, worst_group, calibration_error, adapt, corr_adapt, plus_share, plus_correct, ...
                        every number of summary.json, as a share; updates, batches, collapsing, ... are counts
    domain_accuracy, group_accuracy, quadrants
                        dicts
    seconds, images_per_second, peak_memory_mb, device, finished
    commit, versions, machine, threads
    weights, weights_hash, classes, domains, groups, method_about
    caveats             what limits the numbers, in words (a tuple)
    record              the record itself: `record.rows()` reads its per-sample columns, `record.cell` is all of cell.json

    `notes` names the records that were left out, with the reason; `samples()` has the per-sample columns of all cells.
    """

    _metadata = ["notes"]  # noqa: RUF012
    notes: tuple[str, ...] = ()

    @property
    def _constructor(self) -> type["Records"]:
        return Records

    def samples(self) -> pd.DataFrame:
        """All per-sample columns below each other, beside the columns that identify the cell.

        `correct` is added; `domain` and `group` are names. A million rows need about 100 MB.
        """
        lacking = [name for name in (*IDENTITY, "record", "domains", "groups") if name not in self]
        if lacking:
            raise ValueError(
                f"samples() needs the columns {', '.join(lacking)}: call it before columns are selected or renamed"
            )
        parts = [_samples(cell) for cell in self.itertuples()]
        if not parts:
            return pd.DataFrame(columns=[*IDENTITY, *SAMPLE_COLUMNS, "correct"])
        joined = pd.concat(parts, ignore_index=True)
        return joined.astype(dict.fromkeys((*IDENTITY[:-1], "domain", "group"), "category"))


def load_records(
    paths: str | Path | Iterable[str | Path],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    reduce: Reduce | None = None,
) -> Records:
    """Read and verify records: a row a cell.

    Args:
        paths: a folder that `dualtta run` wrote, a file that `dualtta pack` wrote, a folder of such, or several of them.
        progress: called with how many of how many records are verified.
        reduce: a function of a record and its per-sample columns, called while they are in memory; its result is the column
            `reduced`.

    Returns:
        a `Records` DataFrame. A record whose numbers do not follow from its per-sample columns is left out, and named in
        `.notes`. A record found in two places is one row.

    >>> records = load_records("results/waterbirds")  # doctest: +SKIP
    >>> records.groupby("method").accuracy.agg(["mean", "std"])  # doctest: +SKIP
    >>> wrong = records[records.method == "dualtta"].samples().query("not correct")  # doctest: +SKIP
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    notes: list[str] = []
    found: list[Record] = []
    for path in given:
        records, unread = read_all(path)
        found += records
        notes += unread
    reasons: dict[int, str | None] = {}
    reduced: dict[int, Any] = {}
    in_storage_order = sorted(found, key=lambda record: (str(record.origin), record.position))
    for number, record in enumerate(in_storage_order):
        progress(number, len(found))
        reasons[id(record)], reduced[id(record)] = verified(record, reduce)
    progress(len(found), len(found))
    notes += [f"{record.name} is left out: {reasons[id(record)]}" for record in found if reasons[id(record)]]
    kept = _without_duplicates([record for record in found if not reasons[id(record)]], notes)
    frame = frame_of(kept)
    if reduce is not None:
        frame["reduced"] = pd.Series([reduced[id(record)] for record in kept], index=frame.index, dtype=object)
    frame.notes = tuple(notes)
    return frame


def frame_of(records: Sequence[Record]) -> Records:
    """Records that are already verified, as a frame."""
    return Records([_row(record) for record in records], columns=None if records else COLUMNS)


def verified(record: Record, reduce: Reduce | None = None) -> tuple[str | None, Any]:
    """What is wrong with a record (None: nothing), and what `reduce` makes of it."""
    try:
        rows = record.rows()
    except Exception:  # any damage: `verify` says what it is
        return verify(record) or "its rows cannot be read", None
    why = verify(replace(record, read_columns=lambda names: {name: rows[name] for name in names or rows}))
    if why is None and record.cell["stage"] not in STAGES:
        why = f"there is no stage {record.cell['stage']!r}"
    return why, reduce(record, rows) if reduce is not None and why is None else None


def _row(record: Record) -> dict[str, Any]:
    cell = record.cell["cell"]
    source, hyperparameters = cell["model"].get("source"), record.cell["method"]
    return {
        "key": record.key,
        "path": record.origin,
        "stage": record.cell["stage"],
        **{name: str(cell[name]["name"]) for name in ("dataset", "model", "method", "scenario")},
        "seed": cell["seed"],
        "title": record.cell.get("title"),
        "protocol": record.cell.get("protocol"),
        "choices": _without(cell["dataset"], "name", "seed"),
        "settings": _without(cell["method"], "name"),
        "stream": _without(cell["scenario"], "name"),
        "source": source if isinstance(source, dict) else None,
        "hyperparameters": _without(hyperparameters, "name"),
        "lr": hyperparameters.get("lr"),
        "statistics": hyperparameters.get("statistics"),
        "samples": int(record.summary["samples"]),
        "subset": record.cell["subset"],
        **_metrics(record.summary),
        **{name: _cost(record.cost.get(name)) for name in ("seconds", "images_per_second", "peak_memory_mb")},
        "device": record.cost.get("device"),
        "finished": record.cost.get("finished"),
        "commit": record.part("provenance", "commit"),
        "versions": record.part("provenance", "versions"),
        "machine": record.part("provenance", "machine"),
        "threads": record.cell.get("threads"),
        "weights": cell["model"].get("weights"),
        "weights_hash": record.part("model", "weights_hash"),
        **{name: tuple(map(str, record.cell[name])) for name in ("classes", "domains", "groups")},
        "method_about": record.cell.get("method_about"),
        "caveats": caveats(record),
        "record": record,
    }


def _metrics(summary: dict[str, Any]) -> dict[str, Any]:
    """Numbers by their name, those of D+ and D- as plus_share, plus_correct, minus_share, minus_correct; NaN where none is."""
    found: dict[str, Any] = {}
    for key, value in summary.items():
        if key in NESTED:
            found[NESTED[key]] = value
        elif isinstance(value, dict):
            found |= {f"{key}_{name}": each if is_number(each) else np.nan for name, each in value.items()}
        elif key != "samples":
            found[key] = value if is_number(value) else np.nan
    return found


def _cost(value: Any) -> float:
    return float(value) if is_number(value) and 0 <= value < MOST else np.nan


def _samples(cell: Any) -> pd.DataFrame:
    rows = pd.DataFrame(cell.record.rows())
    rows["correct"] = rows["prediction"] == rows["label"]
    rows["domain"] = np.array(cell.domains, object)[rows["domain"]]
    named = np.array([*cell.groups, None], object)  # -1: no group
    rows["group"] = named[rows["group"]]
    for name in reversed(IDENTITY):
        rows.insert(0, name, getattr(cell, name))
    return rows


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}


def _without_duplicates(records: Sequence[Record], notes: list[str]) -> list[Record]:
    """A record that lies in two folders is kept once."""
    kept: dict[tuple[str, str], Record] = {}
    twice: dict[tuple[Path, Path], int] = {}
    for record in records:
        content = json.dumps(
            [record.cell["cell"], record.cell["stage"], record.cell.get("model"), record.summary], sort_keys=True
        )
        same = kept.setdefault((record.key, content), record)
        if same is not record and same.origin.resolve() != record.origin.resolve():
            homes = record.origin, same.origin
            twice[homes] = twice.get(homes, 0) + 1
    notes += [f"{count} records of {here} are also in {there}: they are counted once" for (here, there), count in twice.items()]
    return list(kept.values())
