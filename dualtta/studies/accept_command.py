"""`dualtta accept`: the verdict on a variant that may become the default."""

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dualtta.studies.acceptance import Acceptance


def accept(folders: list[Path], candidate: str = "dualtta_safe", json: bool = False) -> int:
    """Judge a variant on the held-out cells: harmless on each, and better than the best baseline of every benchmark.

    Args:
        folders: One or several folders of results that hold records of the candidate and of the baselines.
        candidate: The method on trial; method,key=value chooses by settings.
        json: Print JSON.
    """
    from dualtta.progress import progress
    from dualtta.report.gather import gather
    from dualtta.report.matching import parse_side
    from dualtta.studies.acceptance import accept as judge

    side = parse_side(f"{folders[0]}:{candidate}")
    with progress("checking records") as notice:
        collected = gather(folders, notice)
    found = judge(collected.records, side)
    if json:
        print(jsonlib.dumps(as_json(found), indent=2))
    else:
        show(found)
    return 0 if found.safe and found.better else 1


def as_json(found: "Acceptance") -> dict[str, object]:
    cells = [{**vars(cell), "harmless": cell.harmless} for cell in found.cells]
    benches = [{**vars(bench), "better": bench.better} for bench in found.benches]
    verdict = {"safe": found.safe, "better": found.better, "left_out": found.left_out}
    return {**verdict, "cells": cells, "benchmarks": benches, "missing": list(found.missing)}


def show(found: "Acceptance") -> None:
    from dualtta.printing import table
    from dualtta.report.labels import name
    from dualtta.studies.acceptance import GAIN, HARM

    def points(difference: tuple[float, float, float]) -> list[str]:
        return [f"{difference[0]:+.2f}", f"{difference[1]:+.2f} to {difference[2]:+.2f}"]

    rows = [
        [cell.where, name(cell.floor), *points(cell.difference), str(len(cell.seeds)), "" if cell.harmless else "harm"]
        for cell in found.cells
    ]
    table(["held-out cell", "against", "points", "95 % interval", "seeds", ""], rows)
    lines = [
        [
            b.where,
            str(b.cells),
            name(b.best),
            *points(b.difference),
            "yes" if b.better else f"{GAIN - b.difference[0]:.2f} short",
        ]
        for b in found.benches
    ]
    table(["benchmark", "cells", "best baseline", "points", "95 % interval", "better"], lines)
    for line in found.missing:
        print(f"missing: {line}")
    if found.left_out:
        print(f"{found.left_out} records of the candidate are on no held-out cell and count for nothing")
    words = {True: "yes", False: "no", None: "not known: something is missing"}
    harmed = sum(not cell.harmless for cell in found.cells)
    met = sum(bench.better for bench in found.benches)
    print(
        f"safe (no interval wholly below {HARM:g}): {words[found.safe]}; {harmed} of {len(found.cells)} comparisons show harm"
    )
    print(f"better (by {GAIN:g} or more): {words[found.better]}; {met} of {len(found.benches)} benchmarks")
