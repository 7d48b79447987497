"""`dualtta report`: records as tables, figures and one page."""

import json as jsonlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.report import Report
    from dualtta.report.table import Table, Value


def report(
    folders: list[Path],
    out: Path | None = None,
    formats: tuple[str, ...] = ("md", "tex", "csv"),
    root: Path | None = None,
    json: bool = False,
) -> int:
    """Turn the records in folders of results into tables, figures and one page to look at.

    Args:
        folders: One or several folders that `dualtta run` wrote, or one that holds such folders.
        out: Where the report goes; `report` in the first folder unless told.
        formats: Of the tables' files: md, tex, csv.
        root: The folder of your data, for the page's images; DUALTTA_DATA unless told.
        json: Print the tables as JSON.
    """
    from dualtta.commands.progress import progress
    from dualtta.report import make_report, notes

    if root is not None and not root.is_dir():
        raise ValueError(f"there is no folder {root}: name the folder of your data with --root, or leave it out")
    data = os.environ.get("DUALTTA_DATA")
    root = root or (Path(data) if data else None)
    with progress("checking records, then drawing") as notice:
        made = make_report(folders, out, formats, notice, root)
    if json:
        print(jsonlib.dumps(as_json(made), indent=2))
    else:
        show(made)
    for line in notes(made.collected):
        print(f"dualtta: {line}", file=sys.stderr)
    return 0 if made.collected.settings else 1


def show(made: "Report") -> None:
    """All tables, their notes below them, then where the files lie."""
    from dualtta.commands.table import console
    from dualtta.report.render import notes_text, to_terminal, visible

    screen = console()
    for table in made.tables:
        screen.print()
        screen.print(to_terminal(table))
        for line in notes_text(table):
            screen.print(visible(line), style="dim", markup=False, highlight=False)
    print(f"\n{len(made.tables)} tables in {made.out}")
    if made.page:
        print(f"the page: {made.page}")


def as_json(made: "Report") -> dict[str, Any]:
    from dualtta.report import notes

    return {
        "out": str(made.out),
        "page": str(made.page) if made.page else None,
        "notes": notes(made.collected),
        "tables": [_table(table) for table in made.tables],
    }


def _table(table: "Table") -> dict[str, Any]:
    rows = [
        {"label": row.label, "values": [found if isinstance(found, str) else _value(found) for found in row.values]}
        for row in table.rows
    ]
    return {**vars(table), "rows": rows}


def _value(found: "Value") -> dict[str, Any]:
    return {**vars(found), "difference": found.difference}
