"""From records to what people look at: tables, figures, one page. Reads records and nothing else.

    dualtta report FOLDER [FOLDER ...]

gather.py      records over seeds
values.py      means, deviations, marks
layouts.py     the paper's tables; ablations.py, use.py, claims.py and generic.py have the others, tables.py lists all
render.py      a table as Markdown, LaTeX and CSV; terminal.py shows it
paired.py      two runs on the same samples
digest.py      rows, reduced once for figures and page; comparisons.py has them side by side
figures/       one file a figure: numbers, then drawn for paper and for the page
page.py        the page, of page_*.py, winners.py, thumbnails.py and assets/
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dualtta.files import write_bytes

if TYPE_CHECKING:
    from dualtta.report.gather import Collected
    from dualtta.report.page import Contents
    from dualtta.report.table import Table

FORMATS = ("md", "tex", "csv")
ENDINGS = {"tables": (".md", ".tex", ".csv"), "figures": (".png", ".svg")}  # of what a report writes into these folders
PAGE = "page.html"
WRITTEN = "report.json"  # what the last report wrote, so that the next one leaves no stale table beside its own


@dataclass
class Report:
    """What was made, and where it lies."""

    out: Path
    collected: "Collected"
    tables: "list[Table]"
    files: list[Path] = field(default_factory=list)
    page: Path | None = None


def make_report(
    folders: Sequence[Path],
    out: Path | None = None,
    formats: Sequence[str] = FORMATS,
    notice: Callable[[int, int], None] = lambda done, total: None,
    root: Path | None = None,
    workers: int = 1,
) -> Report:
    """Tables, figures and the page of all records below the folders, written to `out`, or to `report` in the first folder.

    `root` is the folder of the data, for the page's images. `notice` hears of records as they are checked, then of figures,
    which are drawn in so many processes: a script that asks for several needs `if __name__ == "__main__"`.
    """
    from dualtta.plugins import nearest
    from dualtta.report.gather import gather
    from dualtta.report.tables import build_tables

    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"there is no format {name!r}; {nearest(name, FORMATS)}")
    collected = gather(folders, notice)
    beside = folders[0].with_suffix("") if folders[0].is_file() else folders[0]  # a packed file's report lies beside it
    report = Report(out or beside / "report", collected, build_tables(collected))
    (report.out / "tables").mkdir(parents=True, exist_ok=True)
    write_tables(report, formats)
    draw(report, root, notice, workers)
    _remember(report)
    return report


def write_tables(report: Report, formats: Sequence[str]) -> None:
    """Each table in each format, and all of them with the notes in report.md."""
    from dualtta.report.render import WRITERS, to_markdown

    for table in report.tables:
        for name in formats:
            ending, write = WRITERS[name]
            _write(report, report.out / "tables" / f"{table.name}{ending}", write(table))
    parts = [*(to_markdown(table) for table in report.tables), notes_as_markdown(report.collected)]
    _write(report, report.out / "report.md", "\n".join(["# Report\n", *filter(None, parts)]))


def draw(report: Report, root: Path | None, notice: Callable[[int, int], None], workers: int = 1) -> None:
    """Figures and the page."""
    from dualtta.report.figures import draw_all, sheets
    from dualtta.report.page import write_page

    contents = contents_of(report.collected, report.tables, root)
    total = len(sheets(contents.kinds))
    report.files += draw_all(contents.kinds, report.out / "figures", lambda done: notice(done, total), workers)
    report.page = write_page(report.out / PAGE, contents)
    report.files.append(report.page)


def contents_of(collected: "Collected", tables: "Sequence[Table]", root: Path | None = None) -> "Contents":
    """What figures and page show; rows that cannot be read are a note on the page."""
    from dualtta.report.comparisons import comparisons
    from dualtta.report.figures import kinds
    from dualtta.report.page import Contents
    from dualtta.report.thumbnails import galleries

    compared, unread = comparisons(collected.settings)
    images, missing = galleries(compared, root)
    title = ", ".join(folder.resolve().name.removesuffix(".parquet") for folder in collected.folders)
    said = [*notes(collected), *unread]
    return Contents(title, compared, kinds(compared), tables, images, missing, said, len(collected.notes) + len(unread))


def notes_as_markdown(collected: "Collected") -> str:
    """What was left out, and why."""
    from dualtta.report.render import md

    lines = notes(collected)
    return "\n".join(["## Notes", "", *(f"- {md(line)}" for line in lines)]) + "\n" if lines else ""


def notes(collected: "Collected") -> list[str]:
    """All that has to be said of the records as a whole, a line each."""
    said = list(collected.notes)
    if collected.tuning:
        seeds = sorted({seed for setting in collected.tuning for seed in setting.seeds})
        cells = sum(len(setting.records) for setting in collected.tuning)
        one = len(seeds) == 1
        said.append(
            f"{cells} cells on seed{'' if one else 's'} {', '.join(map(str, seeds))} chose settings; they are not reported"
        )
    if not collected.settings:
        said.append("no record holds a result: there is nothing to show")
    return said


def _write(report: Report, path: Path, text: str) -> None:
    write_bytes(path, text.encode())
    report.files.append(path)


def _remember(report: Report) -> None:
    """List what was written; tables and figures of an earlier report that are not among it are removed."""
    written = report.out / WRITTEN
    try:
        before = json.loads(written.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    made = {kind: sorted(path.name for path in report.files if path.parent.name == kind) for kind in ENDINGS}
    for kind, endings in ENDINGS.items():
        listed = before.get(kind) if isinstance(before, dict) else None
        names = {Path(str(name)).name for name in listed} if isinstance(listed, list) else set()
        for name in names - set(made[kind]):
            if Path(name).suffix in endings:
                (report.out / kind / name).unlink(missing_ok=True)
    about = {
        "folders": [str(folder) for folder in report.collected.folders],
        **made,
        "notes": notes(report.collected),
    }
    write_bytes(written, (json.dumps(about, indent=1) + "\n").encode())
