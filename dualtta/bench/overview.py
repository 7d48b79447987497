"""The table that `dualtta run` prints, and `watch`: records grouped over seeds. Reports have their own, on the DataFrame."""

from typing import Any

import numpy as np

from dualtta.records.reading import Record


def overview(records: list[Record]) -> list[dict[str, Any]]:
    """One row for each dataset, model, scenario and setting of a method: mean and standard deviation over seeds."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        cell = {key: value for key, value in record.cell["cell"].items() if key != "seed"}
        cell["dataset"] = {key: value for key, value in cell["dataset"].items() if key != "seed"}
        if cell["model"]["source"]:
            cell["model"] = {**cell["model"], "source": {**cell["model"]["source"], "seed": None}}
        groups.setdefault(repr(cell), []).append(record)
    return [_row(group) for group in groups.values()]


def _row(group: list[Record]) -> dict[str, Any]:
    first = group[0]
    cell = first.cell["cell"]

    def over_seeds(key: str) -> dict[str, float] | None:
        values = [record.summary[key] for record in group]
        if any(value is None for value in values):
            return None
        return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}

    return {
        "dataset": cell["dataset"]["name"],
        "choices": {key: value for key, value in cell["dataset"].items() if key not in ("name", "seed", "split")},
        "model": cell["model"]["name"],
        "scenario": cell["scenario"]["name"],
        "domains": cell["scenario"].get("domains"),
        "method": cell["method"]["name"],
        "lr": first.cell["method"]["lr"] if len(cell["method"]) > 1 else None,
        "settings": {key: value for key, value in cell["method"].items() if key not in ("name", "lr")},
        "seeds": len(group),
        "samples": first.summary["samples"],
        "subset": first.cell["subset"],
        "repeats": cell["scenario"].get("repeats", 1),
        **{key: over_seeds(key) for key in ("accuracy", "mean_of_groups", "worst_group", "adapt", "corr_adapt")},
        "collapsed": sum(record.summary["collapsing"] > 0 for record in group),
    }
