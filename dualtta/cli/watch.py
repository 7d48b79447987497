"""`dualtta watch`: a grid at work, seen from another terminal or machine, by its folder alone."""

import json as jsonlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dualtta.bench.status import Best, Snapshot

SHOWN = 8  # lines of what runs, and of what failed


def watch(folder: Path, once: bool = False, every: float = 2.0, json: bool = False) -> int:
    """Watch a grid that runs: cells done, running, failed and to come, the time left, the best so far. Ctrl-C leaves.

    Args:
        folder: The folder of the results, what `dualtta run` has as --out.
        once: Print how it stands, and end; so it is where the output is a file or a pipe.
        every: Seconds between two looks.
        json: Print how it stands as JSON, and end.
    """
    from dualtta.bench.status import Watcher

    if every <= 0:
        raise ValueError(f"every must be a number of seconds above 0, not {every:g}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is no folder: name the one that `dualtta run` writes to, its --out")
    live = sys.stdout.isatty() and not (once or json)
    if not live and not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: name the one that `dualtta run` writes to, its --out")
    watcher = Watcher(folder)
    if json:
        print(jsonlib.dumps(as_json(watcher.look()), indent=2))
        return 0
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    if not live:
        console.print(show(watcher.look()))
        return 0
    from rich.live import Live

    try:
        with Live(console=console, auto_refresh=False) as view:
            while True:
                view.update(show(watcher.look()), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        return 0


def show(snapshot: "Snapshot") -> "RenderableType":
    """The whole view."""
    from rich.console import Group
    from rich.text import Text

    if not snapshot.folder.is_dir():
        return Text(f"there is no folder {snapshot.folder} yet; waiting for a grid to begin")
    if snapshot.empty:
        return Text(f"nothing is in {snapshot.folder} yet: no plan, no cell")
    parts: list[RenderableType] = [Text(line) for line in headline(snapshot)]
    if snapshot.running:
        lines = [[work.title, lasting(time.time() - work.started), f"{work.host}:{work.pid}"] for work in snapshot.running]
        parts += ["", _table(["running", "for", "where"], lines)]
    if snapshot.failed:
        parts += ["", _table(["failed", "why"], [[title, reason] for title, reason in snapshot.failed.items()])]
    if snapshot.best:
        parts += [
            "",
            _table(["best so far", "column", "method", "%", "of"], [best_line(best) for best in snapshot.best], all_=True),
        ]
    parts += [Text(_printable(f"note: {note}")) for note in snapshot.notes]
    return Group(*parts)


def headline(snapshot: "Snapshot") -> list[str]:
    """What there is, in a line or two."""
    of = "" if snapshot.total is None else f" of {snapshot.total:,}"
    trained = sum(work.kind == "training" for work in snapshot.running)
    running = f"{len(snapshot.running) - trained:,} running"
    if any(run.elsewhere for run in snapshot.runs):
        running += " here (what runs on the cluster is not known)"
    counts = [f"{snapshot.done:,}{of} cells done", running, f"{len(snapshot.failed):,} failed"]
    counts.append(
        "what is to come is not known: no plan was left here" if snapshot.pending is None else f"{snapshot.pending:,} to come"
    )
    if trained:
        counts.append(f"{trained:,} source model{'s' if trained > 1 else ''} in training")
    said = [", ".join(counts)]
    if snapshot.runs:
        pace = "no cell done yet" if snapshot.cells_per_minute is None else f"{snapshot.cells_per_minute:.3g} cells a minute"
        left = "time left not known yet" if snapshot.seconds_left is None else f"about {lasting(snapshot.seconds_left)} left"
        said.append(f"{pace}, {left}; {', '.join(f'{run.title} on {run.host}' for run in snapshot.runs)}")
        if snapshot.abandoned:
            said.append(f"{snapshot.abandoned:,} of those to come are of a plan that nobody runs now")
    elif snapshot.pending or snapshot.failed:
        said.append("nobody is at work here: the same `dualtta run` goes on with what is missing")
    return said


def best_line(best: "Best") -> list[str]:
    from dualtta.cli.run import COLUMNS, method, percent

    seeds = f"{best.row['seeds']} seed{'s' if best.row['seeds'] > 1 else ''}"
    rivals = f"{best.methods} row{'s' if best.methods > 1 else ''}, {seeds}"
    return [best.benchmark, COLUMNS[best.column], method(best.row), percent(best.row[best.column]), rivals]


def lasting(seconds: float) -> str:
    """
    >>> lasting(7.2), lasting(200), lasting(7300)
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
    """Reasons are other programs' words: nothing in them may steer the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def as_json(snapshot: "Snapshot") -> dict[str, Any]:
    from dataclasses import asdict

    best = [{"benchmark": b.benchmark, "column": b.column, **b.row, "rows": b.methods} for b in snapshot.best]
    return {**asdict(snapshot), "folder": str(snapshot.folder), "best": best}
