"""The commands of `python -m studies`: `run` with the studies' experiments, `study` and `accept`. They import late."""

import dataclasses
import inspect
import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.cli import parser
from dualtta.cli.run import run as run_experiment

if TYPE_CHECKING:
    from studies.acceptance import Acceptance
    from studies.ranking import Rank


def run(experiment: str, *, candidate: list[str] = [], launcher: str = "local", **options: Any) -> int:  # noqa: B006 (read only)
    from dualtta.deploy.model import parse_settings
    from studies.registration import register

    if launcher == "ray":
        raise ValueError("studies run with --launcher local or processes: their method is not installed on a cluster")
    register(experiment, parse_settings(candidate))
    return run_experiment(experiment, launcher=launcher, **options)


CANDIDATE = "candidate: Settings of the variant in `candidates`, `held-out` and the studies that take any, as marginal=10."
run.__doc__ = (run_experiment.__doc__ or "").rstrip() + f"\n        {CANDIDATE}\n    "
_signature = inspect.signature(run_experiment)
_candidate = inspect.signature(run).parameters["candidate"].replace(annotation=list[str])
run.__signature__ = _signature.replace(parameters=[*_signature.parameters.values(), _candidate])  # type: ignore[attr-defined]


def study(folders: list[Path], rank: str = "", markdown: bool = False, json: bool = False) -> int:
    """Compare variants on the same cells: accuracy by pass, difference to no adaptation, accuracy of D+ and D-, collapse.

    Args:
        folders: One or several folders of results.
        rank: A method; prints its variants instead, the harmless first, then by their gain on its defaults.
        markdown: Print Markdown, for a document.
        json: Print JSON.
    """
    from dualtta.printing import table
    from dualtta.progress import progress
    from dualtta.report import read_results
    from studies.ranking import ranking
    from studies.variants import HEADER, studies, to_markdown

    with progress("verifying records") as bar:
        frame, _ = read_results(folders, bar)
    if rank:
        return show_ranks(ranking(frame, rank), markdown, json)
    found = studies(frame)
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


def accept(folders: list[Path], candidate: str = "", json: bool = False) -> int:
    """Test a variant on the held-out cells: harmless on each, and better than the best baseline of every benchmark.

    Args:
        folders: One or several folders of results that hold records of the candidate and of the baselines.
        candidate: The method to test, the default of `adapt` unless given; method,key=value chooses by settings.
        json: Print JSON.
    """
    from dualtta.progress import progress
    from dualtta.protocols import DEFAULT_METHOD
    from dualtta.report import read_results
    from dualtta.report.matching import parse_side
    from studies.acceptance import accept as test

    side = parse_side(f"{folders[0]}:{candidate or DEFAULT_METHOD}")
    with progress("verifying records") as bar:
        frame, _ = read_results(folders, bar)
    found = test(frame, side)
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
    from dualtta.report.methods import about
    from studies.acceptance import GAIN, HARM

    def points(difference: tuple[float, float, float]) -> list[str]:
        return [f"{difference[0]:+.2f}", f"{difference[1]:+.2f} to {difference[2]:+.2f}"]

    rows = [
        [cell.where, about(cell.floor).title, *points(cell.difference), str(len(cell.seeds)), "" if cell.harmless else "harm"]
        for cell in found.cells
    ]
    table(["held-out cell", "against", "points", "95 % interval", "seeds", ""], rows)
    lines = [
        [
            b.where,
            str(b.cells),
            about(b.best).title,
            *points(b.difference),
            "yes" if b.better else f"{GAIN - b.difference[0]:.2f} short",
        ]
        for b in found.benches
    ]
    table(["benchmark", "cells", "best baseline", "points", "95 % interval", "better"], lines)
    for line in found.missing:
        print(f"missing: {line}")
    if found.left_out:
        print(f"{found.left_out} records of the candidate are on other than held-out cells and do not count")
    words = {True: "yes", False: "no", None: "unknown: records are missing"}
    harmed = sum(not cell.harmless for cell in found.cells)
    met = sum(bench.better for bench in found.benches)
    print(
        f"safe (no interval wholly below {HARM:g}): {words[found.safe]}; {harmed} of {len(found.cells)} comparisons show harm"
    )
    print(f"better (by {GAIN:g} or more): {words[found.better]}; {met} of {len(found.benches)} benchmarks")


def main(args: list[str] | None = None) -> int:
    """The command line of dualtta with the commands of the studies."""
    return parser.main(args, {**parser.COMMANDS, "run": run, "study": study, "accept": accept}, prog="python -m studies")
