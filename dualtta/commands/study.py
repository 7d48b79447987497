"""`dualtta study`: the tables behind an answer."""

import dataclasses
import json as jsonlib
from pathlib import Path


def study(folders: list[Path], markdown: bool = False, json: bool = False) -> int:
    """Show variants on the same cells: accuracy by pass, difference to no adaptation, how much of D+ and D- is right, collapse.

    Args:
        folders: One or several folders of results.
        markdown: Print Markdown, for a document.
        json: Print JSON.
    """
    from dualtta.commands.progress import progress
    from dualtta.commands.table import table
    from dualtta.report.gather import gather
    from dualtta.report.variants import HEADER, studies, to_markdown

    with progress("checking records") as notice:
        collected = gather(folders, notice)
    found = studies(collected.settings)
    if json:
        print(jsonlib.dumps([dataclasses.asdict(one) for one in found], indent=2))
    elif markdown:
        print(to_markdown(found))
    else:
        for one in found:
            table(["variant", *HEADER], [[line.label, *line.texts()] for line in one.lines], f"{one.title}: {one.cells} cells")
    return 0
