"""`dualtta study`: the tables behind an answer."""

import dataclasses
import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dualtta.studies.ranking import Rank


def study(folders: list[Path], rank: str = "", markdown: bool = False, json: bool = False) -> int:
    """Show variants on the same cells: accuracy by pass, difference to no adaptation, how much of D+ and D- is right, collapse.

    Args:
        folders: One or several folders of results.
        rank: A method whose variants are ranked instead: the harmless first, then by their gain on the method as it is.
        markdown: Print Markdown, for a document.
        json: Print JSON.
    """
    from dualtta.printing import table
    from dualtta.progress import progress
    from dualtta.report.gather import gather
    from dualtta.studies.ranking import ranking
    from dualtta.studies.variants import HEADER, studies, to_markdown

    with progress("checking records") as notice:
        collected = gather(folders, notice)
    if rank:
        return show_ranks(ranking(collected.settings, rank), markdown, json)
    found = studies(collected.settings)
    if json:
        print(jsonlib.dumps([dataclasses.asdict(one) for one in found], indent=2))
    elif markdown:
        print(to_markdown(found))
    else:
        for one in found:
            table(["variant", *HEADER], [[line.label, *line.texts()] for line in one.lines], f"{one.title}: {one.cells} cells")
    return 0


def show_ranks(found: "list[Rank]", markdown: bool, json: bool) -> int:
    from dualtta.printing import table

    if json:
        print(jsonlib.dumps([{**dataclasses.asdict(one), "gain": one.gain} for one in found], indent=2))
        return 0
    benches = list(found[0].gains)
    header = ["variant", f"harmed, of {found[0].cells}", "gain", *benches]
    rows = [[r.label, str(len(r.harmed)), *(f"{v:+.2f}" for v in (r.gain, *(r.gains[b] for b in benches)))] for r in found]
    if markdown:
        print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
        print("\n".join("| " + " | ".join(row) + " |" for row in rows))
    else:
        table(header, rows)
    return 0
