"""`dualtta watch`: the progress of a grid, from another terminal or machine, read from its folder."""

import json as jsonlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dualtta.bench.status import Best, Status

SHOWN = 8  # running tasks, and failures


def watch(folder: Path, once: bool = False, every: float = 2.0, json: bool = False) -> int:
    """Show the progress of a grid: cells done, running, failed and pending, the time left, the best so far. Ctrl-C ends.

    Args:
        folder: The results folder, --out of `dualtta run`.
        once: Print the status once; the default when the output is a file or a pipe.
        every: Seconds between updates.
        json: Print the status once, as JSON.
    """
    from dualtta.bench.status import StatusReader

    if every <= 0:
        raise ValueError(f"every must be a number of seconds above 0, not {every:g}")
    if folder.suffix == ".parquet":
        raise ValueError(f"{folder} is a packed file: its grid is finished; `dualtta report` or `dualtta results` shows it")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is no folder: name the one that `dualtta run` writes to, its --out")
    live = sys.stdout.isatty() and not (once or json)
    if not live and not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: name the one that `dualtta run` writes to, its --out")
    reader = StatusReader(folder)
    if json:
        print(jsonlib.dumps(as_json(reader.read()), indent=2))
        return 0
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    if not live:
        console.print(show(reader.read()))
        return 0
    from rich.live import Live

    try:
        with Live(console=console, auto_refresh=False) as view:
            while True:
                view.update(show(reader.read()), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        return 0


def show(status: "Status") -> "RenderableType":
    """The whole display."""
    from rich.console import Group
    from rich.text import Text

    if not status.folder.is_dir():
        return Text(f"there is no folder {status.folder} yet; waiting for a grid to start")
    if status.empty:
        return Text(f"{status.folder} is empty: no plan file, no cell")
    parts: list[RenderableType] = [Text(line) for line in headline(status)]
    if status.running:
        lines = [[task.title, duration(time.time() - task.started), f"{task.host}:{task.pid}"] for task in status.running]
        parts += ["", _table(["running", "for", "where"], lines)]
    if status.failed:
        parts += ["", _table(["failed", "why"], [[title, reason] for title, reason in status.failed.items()])]
    if status.best:
        parts += [
            "",
            _table(["best so far", "column", "method", "%", "of"], [best_line(best) for best in status.best], all_=True),
        ]
    parts += [Text(_printable(f"note: {note}")) for note in status.notes]
    return Group(*parts)


def headline(status: "Status") -> list[str]:
    """Counts and time left, in a line or two."""
    of = "" if status.total is None else f" of {status.total:,}"
    training = sum(task.kind == "training" for task in status.running)
    running = f"{len(status.running) - training:,} running"
    if any(run.remote for run in status.runs):
        running += " on this machine (cells on the cluster are not counted)"
    counts = [f"{status.done:,}{of} cells done", running, f"{len(status.failed):,} failed"]
    counts.append(
        "pending cells are not known: the folder has no plan file" if status.pending is None else f"{status.pending:,} pending"
    )
    if training:
        counts.append(f"{training:,} source model{'s' if training > 1 else ''} in training")
    lines = [", ".join(counts)]
    if status.runs:
        pace = "no cell done yet" if status.cells_per_minute is None else f"{status.cells_per_minute:.3g} cells a minute"
        left = "time left not known yet" if status.seconds_left is None else f"about {duration(status.seconds_left)} left"
        lines.append(f"{pace}, {left}; {', '.join(f'{run.title} on {run.host}' for run in status.runs)}")
        if status.abandoned:
            lines.append(f"{status.abandoned:,} of the pending cells are of a plan that no process runs")
    elif status.pending or status.failed:
        lines.append("no process runs this grid: repeat the same `dualtta run` to compute the missing cells")
    return lines


def best_line(best: "Best") -> list[str]:
    from dualtta.cli.run import COLUMNS, method, percent

    seeds = f"{best.row['seeds']} seed{'s' if best.row['seeds'] > 1 else ''}"
    rivals = f"{best.methods} row{'s' if best.methods > 1 else ''}, {seeds}"
    return [best.benchmark, COLUMNS[best.column], method(best.row), percent(best.row[best.column]), rivals]


def duration(seconds: float) -> str:
    """
    >>> duration(7.2), duration(200), duration(7300)
    ('7 s', '3 min', '2 h 2 min')
    """
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _table(header: list[str], lines: list[list[str]], all_: bool = False) -> "RenderableType":
    from rich.markup import escape
    from rich.table import Table

    shown = Table(*header, header_style="bold", box=None)
    for line in lines if all_ else lines[:SHOWN]:
        shown.add_row(*(escape(_printable(text)) for text in line))
    if not all_ and len(lines) > SHOWN:
        shown.add_row(f"and {len(lines) - SHOWN:,} more")
    return shown


def _printable(text: str) -> str:
    """The text without control characters, which could change the state of the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def as_json(status: "Status") -> dict[str, Any]:
    from dataclasses import asdict

    best = [{"benchmark": b.benchmark, "column": b.column, **b.row, "rows": b.methods} for b in status.best]
    return {**asdict(status), "folder": str(status.folder), "best": best}
