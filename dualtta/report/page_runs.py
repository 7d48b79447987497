"""Every run on the page: its settings, versions and cost, and how to repeat it."""

import json
import math
from collections.abc import Sequence
from typing import Any

from dualtta.report.comparisons import Comparison
from dualtta.report.markup import Html, tag
from dualtta.report.page_tables import heading
from dualtta.report.table import MISSING

HEADER = ("run", "method", "dataset", "model", "scenario", "seed", "samples", "accuracy", "images/s", "seconds")


def show_runs(comparisons: Sequence[Comparison]) -> Html:
    runs = [run for comparison in comparisons for run in comparison.runs]
    heads = [heading(name, i < 5) for i, name in enumerate(HEADER)]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", [_row(run) for run in runs]), class_="sortable runs")
    search = tag("label", "Find runs ", tag("input", type="search", id="find", placeholder="method, dataset, seed, …"))
    box = tag("div", table, class_="scroll tall", tabindex=0, role="region", aria_label="All runs")
    hint = tag("p", "Choose a run's key to see its settings and how to repeat it.", class_="quiet", id="run-hint")
    detail = tag("div", hint, id="run", aria_live="polite", class_="run")
    return Html(
        tag("div", search, tag("span", f"{len(runs):,} runs", id="found", class_="quiet"), class_="controls") + box + detail
    )


def _row(run: Any) -> Html:
    speed, seconds = run.images_per_second, run.seconds
    texts = (_chosen(run.record.cell["cell"]["method"]), run.dataset, run.model, run.scenario)
    return tag(
        "tr",
        tag("th", tag("button", run.run[:8], type="button", class_="open", data_run=run.run), scope="row", data_sort=run.run),
        [tag("td", text, class_="text") for text in texts],
        tag("td", run.seed, data_sort=run.seed),
        tag("td", f"{run.samples:,}{' *' if run.subset else ''}", data_sort=run.samples),
        tag("td", f"{100 * run.accuracy:.2f}", data_sort=run.accuracy),
        tag("td", MISSING) if math.isnan(speed) else tag("td", f"{speed:,.0f}", data_sort=speed),
        tag("td", MISSING) if math.isnan(seconds) else tag("td", f"{seconds:,.1f}", data_sort=seconds),
    )


def _chosen(method: dict[str, Any]) -> str:
    """
    >>> _chosen({"name": "tent", "lr": 0.001})
    'tent (lr=0.001)'
    """
    settings = ", ".join(f"{key}={value}" for key, value in _others(method).items())
    return f"{method['name']} ({settings})" if settings else str(method["name"])


def about_runs(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What the page shows of a run on demand; values that many runs share are stored once."""
    shared: dict[str, int] = {}
    runs = {
        run.run: {
            "title": str(run.record.cell.get("title") or run.run),
            "cell": (about := run.record.cell)["cell"],
            "method": about["method"],
            "data": about.get("data"),
            "where": _number(shared, {k: about.get(k) for k in ("provenance", "threads")} | {"device": run.device}),
            "model": _number(shared, about.get("model")),
            "cost": run.record.cost,
            "subset": run.subset,
            "repeat": repeat(run),
        }
        for comparison in comparisons
        for run in comparison.runs
    }
    return {"runs": finite(runs), "shared": [finite(json.loads(text)) for text in shared]}


def finite(value: Any) -> Any:
    """A value without NaN and Infinity, which JSON does not have.

    >>> finite({"a": [1, float("nan")]})
    {'a': [1, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(shared: dict[str, int], value: Any) -> int:
    return shared.setdefault(json.dumps(value, sort_keys=True), len(shared))


def repeat(run: Any) -> str:
    """A program that computes this cell again."""
    cell = run.record.cell["cell"]
    source, model = run.source, run.record.cell.get("model")
    settings = {
        "dataset": cell["dataset"]["name"],
        "model": cell["model"]["name"],
        "method": cell["method"]["name"],
        "scenario": cell["scenario"]["name"],
        "seed": cell["seed"],
        "choices": _others(cell["dataset"]),
        "settings": _others(cell["method"]),
        "stream": _others(cell["scenario"]),
        "weights": cell["model"].get("weights"),
        "weights_hash": model.get("weights_hash") if isinstance(model, dict) else None,
        "fisher": cell.get("fisher"),
    }
    lines = [f"    {key}={value!r}," for key, value in settings.items() if value not in (None, {}, "")]
    imports = [
        "from pathlib import Path",
        "from dualtta.bench.cell import Cell",
        "from dualtta.bench.compute import run_cell, run_source",
        "from dualtta.bench.workspace import Workspace",
    ]
    before: list[str] = []
    after = ["print(run_cell(cell, workspace) or workspace.folder(cell))"]
    if source is not None and isinstance(source.get("recipe"), dict):
        imports += ["from dualtta.train import Source", "from dualtta.train.recipes import Recipe"]
        recipe = {key: tuple(value) if isinstance(value, list) else value for key, value in source["recipe"].items()}
        start = str(source.get("weights"))
        if start.startswith("sha256:"):
            before = [f"# FILE: the weights that training started from, {start}"]
            source = {**source, "weights": "FILE"}
        rest = {key: value for key, value in source.items() if key != "recipe"}
        before.append(f"source = Source({_arguments(rest)}, recipe=Recipe({_arguments(recipe)}))")
        lines.append("    source=source,")
        after.insert(0, "run_source(source, workspace)  # trains the source model where it is not there yet")
    workspace = 'workspace = Workspace(Path("results/again"), root=Path("DATA"))  # DATA: the folder of your data'
    return "\n".join([*imports, "", *before, "cell = Cell(", *lines, ")", workspace, *after])


def _others(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "name"}


def _arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in values.items())
