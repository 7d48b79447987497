"""The output of `dualtta data check` and `dualtta data prepare`."""

import json as jsonlib
import signal
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dualtta.data.verify.check import Report, check_folder
from dualtta.data.verify.prepare import prepare
from dualtta.files import leftovers
from dualtta.progress import track

MOST = 20  # problems that are printed; --json lists all


def show_check(path: str, json: bool) -> int:
    """Print a report on a folder; returns the exit code: 0, or 1 where there are problems."""
    reports = check_folder(path, lambda jobs: track(jobs, "opening images"))
    ok = all(report.ok for report in reports)
    if json:
        answer = {"path": str(Path(path)), "ok": ok, "datasets": [report.as_json() for report in reports]}
        print(jsonlib.dumps(answer, indent=2))
    else:
        for report in reports:
            print_report(report)
    return 0 if ok else 1


def print_report(report: Report) -> None:
    out = Console(soft_wrap=True, highlight=False)
    verdict = "ok" if report.ok else f"{len(report.problems)} problem{'s'[: len(report.problems) > 1]}"
    size = f"{report.images:,} images, {report.classes:,} classes, {len(report.domains)} domains"
    out.print(f"[bold]{escape(report.title)}[/bold] ({report.dataset}) in {escape(report.path)}: {size}: {verdict}")
    counts = {**report.domains, **report.groups}
    table = Table("", "images", "published", header_style="bold", box=None)
    for name in dict.fromkeys([*counts, *report.published]) if len(counts) <= MOST else []:
        wanted = f"{report.published[name]:,}" if name in report.published else ""
        table.add_row(escape(name), f"{counts.get(name, 0):,}", wanted)
    if table.row_count:
        out.print(table)
    for problem in report.problems[:MOST]:
        out.print(escape(_printable(f"  {problem.path}: {problem.what}")))
    if len(report.problems) > MOST:
        out.print(f"  and {len(report.problems) - MOST} more; --json lists all")
    for note in report.notes:
        out.print(escape(f"  note: {note}"))
    out.print(escape(f"  {report.todo}"))


def _printable(text: str) -> str:
    """File names may be bytes that are not text."""
    return text.encode("utf-8", "backslashreplace").decode()


def show_prepare(src: str, dst: str) -> int:
    """Prepare a dataset and print where it is; returns the exit code. SIGTERM cleans up as Ctrl-C does."""
    for path in leftovers(Path(dst).expanduser()):
        print(f"dualtta: {path} was left by a run that was killed: remove it", file=sys.stderr)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        found = prepare(src, dst, lambda jobs: track(jobs, "unpacking"))
    finally:
        signal.signal(signal.SIGTERM, before)
    for one in found:
        title = one.layout.published.title if one.layout.published else "a folder of your own"
        print(f"{title} is in {one.root}; `dualtta data check {one.root}` opens every image")
    return 0


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
