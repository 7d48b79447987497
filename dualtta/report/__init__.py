"""Tables, figures and a page from records. Needs no torch, no data and no model; only the page's example images do.

    dualtta report FOLDER [FOLDER ...]

results.py     the frame that everything is made of: seeds grouped, rows labelled (labels.py, methods.py, tasks.py, plugins.py)
statistics.py  mean, deviation and best, by the paired differences of matching.py and paired.py
tables.py      generic tables; plug-ins add theirs; overview.py has the one of `dualtta results`
render.py      a table as Markdown, LaTeX and CSV; terminal.py shows it
outcomes.py    per-sample columns, reduced once for comparisons, figures and page
figures/       one kind of figure a file
page.py        the page: page_*.py, thumbnails.py, markup.py and assets/
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.files import write_bytes

if TYPE_CHECKING:
    from dualtta.report.page import Contents
    from dualtta.report.table import Table

FORMATS = ("md", "tex", "csv")
PAGE = "page.html"
WRITTEN = "report.json"  # what the last report wrote: the next one removes what it does not write again


@dataclass
class Report:
    """What was made, and where it is."""

    out: Path
    folders: tuple[Path, ...]
    frame: Any  # of results.py
    notes: list[str]  # on the records as a whole
    tables: "list[Table]"
    files: list[Path] = field(default_factory=list)
    page: Path | None = None


def make_report(
    folders: Sequence[Path],
    out: Path | None = None,
    formats: Sequence[str] = FORMATS,
    progress: Callable[[int, int], None] = lambda done, total: None,
    root: Path | None = None,
    workers: int = 1,
) -> Report:
    """Tables, figures and the page of all records below the folders.

    Args:
        folders: folders of results or packed files.
        out: where to write; `report` in the first folder unless given.
        formats: of the tables: md, tex, csv.
        progress: called with how many of how many records are verified, then with how many figures are drawn.
        root: the folder of the data, for the page's images.
        workers: processes that draw figures; a script that asks for several needs `if __name__ == "__main__"`.
    """
    from dualtta.plugins import nearest
    from dualtta.report.tables import build_tables

    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"there is no format {name!r}; {nearest(name, FORMATS)}")
    frame, notes = read_results(folders, progress)
    beside = folders[0].with_suffix("") if folders[0].is_file() else folders[0]  # the report of a packed file lies beside it
    report = Report(out or beside / "report", tuple(folders), frame, notes, build_tables(frame))
    (report.out / "tables").mkdir(parents=True, exist_ok=True)
    write_tables(report, formats)
    draw(report, root, progress, workers)
    _remove_old_files(report)
    return report


def read_results(
    folders: Sequence[Path], progress: Callable[[int, int], None] = lambda done, total: None
) -> tuple[Any, list[str]]:
    """The frame of results.py, each record's per-sample columns reduced, and notes on the records as a whole."""
    from dualtta.records.frame import load_records
    from dualtta.report.outcomes import Reducer
    from dualtta.report.results import results

    records = load_records(folders, progress=progress, reduce=Reducer())
    notes = list(records.notes)
    tuning = records["seed"][records["stage"] == "tuning"].tolist() if len(records) else []
    if tuning:
        words = f"seed{'s' if len(set(tuning)) > 1 else ''} {', '.join(map(str, sorted(set(tuning))))}"
        notes.append(f"{len(tuning)} cells on {words} chose settings; they are not reported")
    frame = results(records)
    if not len(frame):
        notes.append("no record holds a result: there is nothing to show")
    return frame, notes


def write_tables(report: Report, formats: Sequence[str]) -> None:
    """Each table in each format, and all of them with the notes in report.md."""
    from dualtta.report.render import WRITERS, md, to_markdown

    for table in report.tables:
        for name in formats:
            _write(report, report.out / "tables" / f"{table.name}.{name}", WRITERS[name](table))
    notes = "\n".join(["## Notes", "", *(f"- {md(line)}" for line in report.notes)]) + "\n" if report.notes else ""
    parts = [*(to_markdown(table) for table in report.tables), notes]
    _write(report, report.out / "report.md", "\n".join(["# Report\n", *filter(None, parts)]))


def draw(report: Report, root: Path | None, progress: Callable[[int, int], None], workers: int = 1) -> None:
    """Figures and the page."""
    from dualtta.report.figures import draw_all, sheets
    from dualtta.report.page import page

    title = ", ".join(folder.resolve().name.removesuffix(".parquet") for folder in report.folders)
    contents = contents_of(title, report.frame, report.tables, report.notes, root)
    total = len(sheets(contents.kinds))
    report.files += draw_all(contents.kinds, report.out / "figures", lambda done: progress(done, total), workers)
    report.page = report.out / PAGE
    _write(report, report.page, page(contents))


def contents_of(
    title: str, frame: Any, tables: "Sequence[Table]", notes: Sequence[str], root: Path | None = None
) -> "Contents":
    """What figures and page show."""
    from dualtta.report.comparisons import comparisons
    from dualtta.report.figures import kinds
    from dualtta.report.page import Contents
    from dualtta.report.thumbnails import galleries

    compared = comparisons(frame)
    images, missing = galleries(compared, root)
    return Contents(title, compared, kinds(compared), tables, images, missing, notes, len(frame.notes))


def _write(report: Report, path: Path, text: str) -> None:
    write_bytes(path, text.encode())
    report.files.append(path)


def _remove_old_files(report: Report) -> None:
    """Remove the tables and figures of an earlier report that were not written again, and list what was written."""
    written = report.out / WRITTEN
    made = {kind: sorted(path.name for path in report.files if path.parent.name == kind) for kind in ("tables", "figures")}
    try:
        before = json.loads(written.read_text(encoding="utf-8"))
        old = [report.out / kind / Path(name).name for kind in made for name in {*before[kind]} - {*made[kind]}]
    except (OSError, ValueError, TypeError, KeyError):  # none, or not ours
        old = []
    for path in old:
        path.unlink(missing_ok=True)
    about = {"folders": [str(folder) for folder in report.folders], **made, "notes": report.notes}
    write_bytes(written, (json.dumps(about, indent=1) + "\n").encode())
