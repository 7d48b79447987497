"""`dualtta report`: records as tables, figures and one page."""

import json as jsonlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualtta.report import Report
    from dualtta.report.table import Table, Value

SHOWN = 20  # notes in the terminal


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
    from dualtta.processes import cores
    from dualtta.progress import progress
    from dualtta.report import make_report, notes
    from dualtta.report.render import visible

    if root is not None and not root.is_dir():
        raise ValueError(f"there is no folder {root}: name the folder of your data with --root, or leave it out")
    data = os.environ.get("DUALTTA_DATA")
    root = root or (Path(data) if data else None)
    with progress("checking records, then drawing") as notice:
        made = make_report(folders, out, formats, notice, root, cores())
    if json:
        print(jsonlib.dumps(as_json(made), indent=2))
    else:
        show(made)
    said = notes(made.collected)
    for line in said[:SHOWN]:
        print(f"dualtta: {visible(line)}", file=sys.stderr)
    if len(said) > SHOWN:
        print(f"dualtta: and {len(said) - SHOWN} notes more, in {made.out / 'report.md'}", file=sys.stderr)
    return 0 if made.collected.settings else 1


def show(made: "Report") -> None:
    """All tables, their notes below them, then where the files lie."""
    from dualtta.printing import console
    from dualtta.report.render import common, notes_text, visible
    from dualtta.report.terminal import pieces, to_terminal

    screen = console()
    for table in made.tables:
        for piece in pieces(table, screen.width):
            screen.print()
            screen.print(to_terminal(piece, common(table), screen.width))
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
