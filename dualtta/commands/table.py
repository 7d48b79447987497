"""Tables for the terminal."""

import sys


def table(header: list[str], rows: list[list[str]], title: str = "") -> None:
    """Print a table; as wide as it needs to be where the output is a file or a pipe."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    class Honest(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the program with an error of its own

    shown = Table(*header, header_style="bold", box=None)
    for row in rows:
        shown.add_row(*map(escape, row))
    console = Honest(width=None if sys.stdout.isatty() else 10_000)
    if title:
        console.print(f"\n[bold]{escape(title)}[/bold]", highlight=False)
    console.print(shown)
