"""How far a diagnosis is, for a person at a terminal; silent when piped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def counting(total: int) -> Iterator[Callable[[int], None]]:
    """Something that hears the size of every batch that is done."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("samples", total=total)
        yield lambda size: bar.advance(task, size)
