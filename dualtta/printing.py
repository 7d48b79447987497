"""Tables for the terminal."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console() -> "Console":
    """A console on standard output, of unlimited width where that is a file or a pipe."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with another code

    return Output(width=None if sys.stdout.isatty() else 10_000)


def table(header: list[str], rows: list[list[str]], title: str = "") -> None:
    """Print a table."""
    from rich.markup import escape
    from rich.table import Table

    shown = Table(*header, header_style="bold", box=None)
    for row in rows:
        shown.add_row(*map(escape, row))
    screen = console()
    if title:
        screen.print(f"\n[bold]{escape(title)}[/bold]", highlight=False)
    screen.print(shown)
