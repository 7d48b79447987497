"""From records to what people look at: tables, figures, one page. Reads records and nothing else.

    dualtta report FOLDER [FOLDER ...]

sound.py       whether a record can be believed
gather.py      records over seeds
values.py      means, deviations, marks
layouts.py     the paper's tables; ablations.py, use.py, claims.py and generic.py have the others, tables.py lists all
render.py      a table in the terminal, as Markdown, LaTeX and CSV
paired.py      two runs on the same samples
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dualtta.files import write_bytes

if TYPE_CHECKING:
    from dualtta.report.gather import Collected
    from dualtta.report.table import Table

FORMATS = ("md", "tex", "csv")
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
) -> Report:
    """Tables, figures and the page of all records below the folders, written to `out`, or to `report` in the first folder."""
    from dualtta.naming import nearest
    from dualtta.report.gather import gather
    from dualtta.report.tables import build_tables

    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"there is no format {name!r}; {nearest(name, FORMATS)}")
    collected = gather(folders, notice)
    report = Report(out or folders[0] / "report", collected, build_tables(collected))
    (report.out / "tables").mkdir(parents=True, exist_ok=True)
    write_tables(report, formats)
    draw(report)
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


def draw(report: Report) -> None:
    """Figures and the page are made here: `figures.draw_all(collected, folder)`, then `page.write_page(...)`."""


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
    """List what was written; tables of an earlier report that are not among it are removed."""
    written = report.out / WRITTEN
    try:
        before = json.loads(written.read_text(encoding="utf-8"))["tables"]
        stale = {Path(str(name)).name for name in before if Path(str(name)).suffix in (".md", ".tex", ".csv")}
    except (OSError, ValueError, KeyError, TypeError):
        stale = set()
    tables = sorted(path.name for path in report.files if path.parent.name == "tables")
    for name in stale - set(tables):
        (report.out / "tables" / name).unlink(missing_ok=True)
    about = {
        "folders": [str(folder) for folder in report.collected.folders],
        "tables": tables,
        "notes": notes(report.collected),
    }
    write_bytes(written, (json.dumps(about, indent=1) + "\n").encode())
