"""`dualtta results`: one table over all benchmarks."""

import sys
from pathlib import Path


def results(
    folders: list[Path],
    into: Path | None = None,
    figure: Path | None = None,
    protocol: str = "own",
    methods: str | None = None,
    scenarios: str | None = None,
) -> int:
    """Make one Markdown table over all benchmarks from records; print it, or put it into a README between its two marks.

    Args:
        folders: Folders of results or packed files, or folders that hold such.
        into: A Markdown file with the lines <!-- results --> and <!-- end of results -->; the text between them is replaced.
        figure: A PNG file for a figure of each method's gain over no adaptation; an SVG file is written beside it.
        protocol: Whose learning rates: "own" (each baseline's authors') or "paper" (one for all).
        methods: Names, separated by commas; by default all that have records.
        scenarios: Names, separated by commas; by default all that have records.
    """
    from dualtta.plugins import nearest
    from dualtta.progress import progress
    from dualtta.protocols import PROTOCOLS
    from dualtta.report import read_results
    from dualtta.report.overview import benchmarks, put_into, to_markdown
    from dualtta.report.render import visible

    if protocol not in PROTOCOLS:
        raise ValueError(f"there is no protocol {protocol!r}; {nearest(protocol, PROTOCOLS)}")
    with progress("verifying records") as bar:
        frame, notes = read_results(folders, bar)
    for line in notes:
        print(f"dualtta: {visible(line)}", file=sys.stderr)
    found = list(benchmarks(frame, protocol, _names(methods), _names(scenarios))) if len(frame) else []
    table = to_markdown(found, protocol)
    if figure is not None:
        from dualtta.report import gain

        print(f"the figure is in {', '.join(map(str, gain.write(figure, found)))}")
    if into is None:
        print(table)
        return 0
    put_into(into, table)
    print(f"the table is in {into}")
    return 0


def _names(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []
