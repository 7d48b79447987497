"""`dualtta run`: run an experiment, print its table."""

import json as jsonlib
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.report.table import Table


def run(
    experiment: str,
    root: Path | None = None,
    out: Path | None = None,
    seeds: str = "2024,2025,2026",
    methods: str | None = None,
    datasets: str | None = None,
    protocol: str = "paper",
    limit: int | None = None,
    repeats: int = 1,
    batch_size: int = 64,
    backbone: str | None = None,
    weights: str = "pretrained",
    calibration: str | None = None,
    models: Path | None = None,
    recipe: list[str] = [],  # noqa: B006 (read only)
    speed: str = "safe",
    launcher: str = "local",
    jobs: int | None = None,
    device: str | None = None,
    workers: int | None = None,
    json: bool = False,
) -> int:
    """Run the grid of an experiment. Finished cells are kept: the same command resumes.

    Args:
        experiment: A name from `dualtta list experiments`.
        root: The folder of your data; by default the environment variable DUALTTA_DATA.
        out: The folder of the results; by default results/EXPERIMENT.
        seeds: Numbers, separated by commas.
        methods: Names, separated by commas; by default those of the experiment.
        datasets: Names, separated by commas; by default those of the experiment.
        protocol: Learning rates: "paper" (one for all methods) or "own" (those of each method's authors).
        limit: The maximal number of samples of a domain; marked in every output.
        repeats: Passes over the same images; marked in every output.
        batch_size: Samples per batch.
        backbone: A model instead of the experiment's.
        weights: A file below the data folder, "pretrained" for the hub's, or "random" for source models that start from none.
        calibration: A file below the data folder that `dualtta data calibrate` wrote; of ccc.
        models: The folder of source models, which several runs may share; by default OUT/models.
        recipe: Changes to the training of source models, such as epochs=30 batch_size=256.
        speed: naive, safe (exact shortcuts); on a GPU half (bfloat16), compiled, or fast (both).
        launcher: local, processes, ray, or dry (print the plan and an estimate of its time).
        jobs: Cells in parallel; by default the number of GPUs or cores.
        device: cpu or cuda; by default cuda, if available.
        workers: Processes that load images, per cell.
        json: Print the table as JSON.
    """
    from dualtta.bench.benchmarks import Options
    from dualtta.bench.defaults import notes
    from dualtta.bench.estimate import dry_run
    from dualtta.bench.experiments import EXPERIMENTS, NOTES, plan_of, without_effect
    from dualtta.bench.launchers import default_jobs
    from dualtta.bench.overview import overview
    from dualtta.bench.run import run_plan
    from dualtta.bench.workspace import Workspace
    from dualtta.cli.report import show_tables, table_json
    from dualtta.deploy.model import parse_settings
    from dualtta.device import pick_device
    from dualtta.plugins import nearest

    if experiment not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {experiment!r}; {nearest(experiment, EXPERIMENTS)}")
    folder = os.environ.get("DUALTTA_DATA")
    root = root or (Path(folder) if folder else None)
    if root is not None and not root.is_dir():
        raise ValueError(f"there is no folder {root}: name the folder of your data with --root")
    if models is not None and models.exists() and not models.is_dir():
        raise ValueError(f"{models} is no folder: name a folder for source models with --models")
    _at_least(1, "jobs", jobs)
    _at_least(0, "workers", workers)
    on = device if device and launcher == "ray" else str(pick_device(device))  # of the cluster
    workspace = Workspace(out or Path("results", experiment), root, on, 1, _workers(workers, on), models)
    options = Options(
        seeds=tuple(_numbers("seeds", seeds)),
        methods=_names(methods),
        datasets=_names(datasets),
        protocol=protocol,  # type: ignore[arg-type]
        limit=limit,
        repeats=repeats,
        recipe=parse_settings(recipe),
        batch_size=batch_size,
        backbone=backbone,
        weights=weights,
        calibration=calibration,
        speed=speed,
        root=root,
    )
    _check(options)
    plan = plan_of(experiment, options)
    if not plan:
        raise ValueError(f"{experiment} has no cell with these options; others of --datasets, --methods, --backbone may")
    for name in without_effect(experiment, options):
        print(f"dualtta: --{name.replace('_', '-')} changes no cell of {experiment}: it is ignored", file=sys.stderr)
    jobs = jobs or default_jobs(workspace.device)
    if launcher == "dry":
        return dry_run(plan, workspace, jobs, json)
    result = run_plan(plan, workspace, launcher, jobs)
    rows = overview(result.records)
    tables = own_tables(experiment, workspace.out) if result.records else []
    if json:
        about: dict[str, Any] = {
            "out": str(workspace.out),
            "computed": result.computed,
            "skipped": result.skipped,
            "failed": result.failed,
        }
        about |= {"tables": [table_json(table) for table in tables]} if tables else {}
        print(jsonlib.dumps({**about, "rows": rows}, indent=2))
    else:
        if tables:
            show_tables(tables)
        else:
            show(rows)
        if experiment in NOTES:
            print(NOTES[experiment])
        print(f"{result.computed} cells computed, {result.skipped} were there already; records in {workspace.out}")
        print(look_at(workspace.out, root, made=experiment in REPORTED and bool(result.records)))
    for line in notes(result.records):
        print(f"dualtta: {line}", file=sys.stderr)
    for title, reason in result.failed.items():
        print(f"dualtta: failed: {title}: {reason}", file=sys.stderr)
    return 1 if result.failed else 0


def own_tables(experiment: str, out: Path) -> "list[Table]":
    """The tables that a report has for an experiment of this name; they are printed instead of a table a task."""
    try:
        from dualtta.report import read_results
        from dualtta.report.plugins import TABLES
    except ImportError:  # a machine that runs grids may lack pandas: tables are made elsewhere
        return []
    if experiment not in TABLES:
        return []
    frame, _ = read_results([out])
    return TABLES[experiment](frame) if len(frame) else []


REPORTED = ("demo",)  # experiments that end with their report


def look_at(out: Path, root: Path | None, made: bool) -> str:
    """The path of the report's page, made now, or the command that makes it."""
    if not made:
        return f"`dualtta report {shlex.quote(str(out))}` makes tables, figures and a page of them"
    from dualtta.progress import progress
    from dualtta.report import make_report

    with progress("making the report") as notice:
        report = make_report([out], progress=notice, root=root)
    return f"{len(report.tables)} tables and the figures are in {report.out}\nthe page: {report.page}"


COLUMNS = {
    "accuracy": "accuracy",
    "mean_of_groups": "mean of groups",
    "worst_group": "worst group",
    "adapt": "used",
    "corr_adapt": "used rightly",
}


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table for each dataset, model and scenario: methods in rows, mean and deviation over seeds in %."""
    from dualtta.printing import table

    tables: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        tables.setdefault(heading(row), []).append(row)
    for title, group in tables.items():
        columns = [key for key in COLUMNS if any(row[key] is not None for row in group)]
        lines = [
            [method(row), "" if row["lr"] is None else f"{row['lr']:g}", *(percent(row[c]) for c in columns)] for row in group
        ]
        table(["method", "lr", *(COLUMNS[column] for column in columns)], lines, title)


def heading(row: dict[str, Any]) -> str:
    """The title of a table: dataset, model, scenario, number of samples and seeds."""
    which = "+".join(map(str, [*(row["choices"].get("corruptions") or []), *(row["domains"] or [])]))
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] > 1 else ''}"
    passes = f" ({row['repeats']} passes over the same images)" if row["repeats"] > 1 else ""
    size = f"{row['samples']:,} samples{' (a subset)' if row['subset'] else ''}{passes}, {seeds}"
    return f"{row['dataset']}{' ' + which if which else ''}, {row['model']}, {row['scenario']}: {size}"


def method(row: dict[str, Any]) -> str:
    """The name of a method with its settings."""
    settings = ", ".join(f"{key}={value}" for key, value in row["settings"].items())
    return f"{row['method']}{f' ({settings})' if settings else ''}{', collapsed' if row['collapsed'] else ''}"


def percent(value: dict[str, float] | None) -> str:
    """Mean and deviation in %."""
    return "" if value is None else f"{100 * value['mean']:.1f} ± {100 * value['std']:.1f}"


def _names(text: str | None) -> tuple[str, ...] | None:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else None


def _numbers(what: str, text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{what} are whole numbers separated by commas, such as 2024,2025, not {text!r}") from error
    return found


def _check(options: Any) -> None:
    from dualtta.data.registry import DATASETS
    from dualtta.methods import METHODS
    from dualtta.plugins import nearest
    from dualtta.protocols import PROTOCOLS
    from dualtta.speed import SPEEDS
    from dualtta.train.recipes import recipe_for
    from dualtta.zoo.registry import find_model

    for what, names, known in (("method", options.methods, METHODS), ("dataset", options.datasets, DATASETS)):
        for name in names or ():
            if name not in known:
                raise ValueError(f"there is no {what} {name!r}; {nearest(name, known)}")
    if options.protocol not in PROTOCOLS:
        raise ValueError(f"there is no protocol {options.protocol!r}; {nearest(options.protocol, PROTOCOLS)}")
    if options.speed not in SPEEDS:
        raise ValueError(f"there is no speed {options.speed!r}; {nearest(options.speed, SPEEDS)}")
    for name in ("limit", "repeats", "batch_size"):
        _at_least(1, name, getattr(options, name))
    for seed in options.seeds:
        if not 0 <= seed < 2**32:
            raise ValueError(f"a seed is a whole number from 0 to {2**32 - 1}, not {seed}")
    if options.backbone is not None:
        find_model(options.backbone)
    recipe_for("", "", **{"validation": "any", **options.recipe})  # checks each by itself


def _at_least(least: int, name: str, value: int | None) -> None:
    if value is not None and value < least:
        raise ValueError(f"{name.replace('_', '-')} must be at least {least}, not {value}")


def _workers(wanted: int | None, device: str) -> int:
    """Loader processes pay off beside a GPU; a CPU is busy with the model."""
    if wanted is not None:
        return wanted
    from dualtta.data.loading import default_workers

    return default_workers() if device.startswith("cuda") else 0
