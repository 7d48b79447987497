"""`dualtta report`: records as tables, figures and one page."""

import json as jsonlib
import os
import sys
from collections.abc import Iterable
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
        folders: Folders that `dualtta run` wrote, files that `dualtta pack` wrote, or folders that hold such.
        out: The folder of the report; by default `report` in the first folder.
        formats: Of the tables' files: md, tex, csv.
        root: The folder of your data, for the page's images; by default DUALTTA_DATA.
        json: Print the tables as JSON.
    """
    from dualtta.processes import cores
    from dualtta.progress import progress
    from dualtta.report import make_report
    from dualtta.report.render import visible

    if root is not None and not root.is_dir():
        raise ValueError(f"there is no folder {root}: name the folder of your data with --root, or leave it out")
    data = os.environ.get("DUALTTA_DATA")
    root = root or (Path(data) if data else None)
    with progress("verifying records, then drawing") as bar:
        made = make_report(folders, out, formats, bar, root, cores())
    if json:
        print(jsonlib.dumps(as_json(made), indent=2))
    else:
        show(made)
    for line in made.notes[:SHOWN]:
        print(f"dualtta: {visible(line)}", file=sys.stderr)
    if len(made.notes) > SHOWN:
        print(f"dualtta: and {len(made.notes) - SHOWN} notes more, in {made.out / 'report.md'}", file=sys.stderr)
    return 0 if len(made.frame) else 1


def show(made: "Report") -> None:
    """Print all tables with their notes, then the paths of the files."""
    show_tables(made.tables)
    print(f"\n{len(made.tables)} tables in {made.out}")
    if made.page:
        print(f"the page: {made.page}")


def show_tables(tables: "Iterable[Table]") -> None:
    """Print tables with their notes."""
    from dualtta.printing import console
    from dualtta.report.render import common, notes_text, visible
    from dualtta.report.terminal import pieces, to_terminal

    screen = console()
    for table in tables:
        for piece in pieces(table, screen.width):
            screen.print()
            screen.print(to_terminal(piece, common(table), screen.width))
        for line in notes_text(table):
            screen.print(visible(line), style="dim", markup=False, highlight=False)


def as_json(made: "Report") -> dict[str, Any]:
    return {
        "out": str(made.out),
        "page": str(made.page) if made.page else None,
        "notes": made.notes,
        "tables": [table_json(table) for table in made.tables],
    }


def table_json(table: "Table") -> dict[str, Any]:
    rows = [
        {"label": row.label, "values": [found if isinstance(found, str) else _value(found) for found in row.values]}
        for row in table.rows
    ]
    about = {key: value for key, value in vars(table).items() if key not in ("settings", "detail")}
    return {**about, "rows": rows}


def _value(found: "Value") -> dict[str, Any]:
    about = {key: value for key, value in vars(found).items() if key != "cells"}
    return {**about, "difference": found.difference}
