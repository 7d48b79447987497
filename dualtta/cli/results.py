"""`dualtta results`: one table over all benchmarks."""

from pathlib import Path


def results(folders: list[Path], into: Path | None = None, protocol: str = "own", methods: str | None = None) -> int:
    """Make one Markdown table over all benchmarks from records; print it, or put it into a README between its two marks.

    Args:
        folders: One or several folders of results, or one that holds such folders.
        into: A Markdown file with the lines <!-- results --> and <!-- end of results -->; what is between them is replaced.
        protocol: Whose learning rates: "own" (each baseline's authors') or "paper" (one for all).
        methods: Names, separated by commas; all that have records unless told.
    """
    from dualtta.plugins import nearest
    from dualtta.progress import progress
    from dualtta.protocols import PROTOCOLS
    from dualtta.report.gather import gather
    from dualtta.report.overview import put_into, to_markdown

    if protocol not in PROTOCOLS:
        raise ValueError(f"there is no protocol {protocol!r}; {nearest(protocol, PROTOCOLS)}")
    with progress("checking records") as notice:
        collected = gather(folders, notice)
    names = [word.strip() for word in methods.split(",")] if methods else []
    table = to_markdown(collected.settings, protocol, names)
    if into is None:
        print(table)
        return 0
    put_into(into, table)
    print(f"the table is in {into}")
    return 0
