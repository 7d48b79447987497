"""Progress bars on stderr, for every command. Nothing is printed where stderr is not a terminal.

with progress("decoding", total=100) as bar:   # bar(done), bar(done, total) or bar.advance(count)
    ...
for item in track(items, "replaying"):
    ...

rich is imported when the first bar is made, so that modules which only may show one stay quick to import.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import length_hint
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

Item = TypeVar("Item")


def bars(console: "Console | None" = None, shown: bool = True) -> "Progress":
    """A rich display for any number of tasks: description, bar, count, note (a field of the task) and time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    silent = not (shown and console.is_terminal)
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=silent)


class Bar:
    """One progress bar; call it with the number of items done so far."""

    def __init__(self, display: "Progress", task: "TaskID") -> None:
        self._display, self._task = display, task

    def __call__(self, done: int, total: int | None = None, note: str | None = None) -> None:
        if total is not None:
            self._display.update(self._task, total=total)
        if note is not None:
            self._display.update(self._task, note=note)
        self._display.update(self._task, completed=done)

    def advance(self, count: int = 1) -> None:
        """Count further items as done."""
        self._display.advance(self._task, count)


@contextmanager
def progress(title: str, total: int | None = None, done: int = 0, *, shown: bool = True) -> Iterator[Bar]:
    """A progress bar that is removed at the end. `total` may be given later, in a call of the bar."""
    with bars(shown=shown) as display:
        yield Bar(display, display.add_task(title, total=total, completed=done, note=""))


def track(items: Iterable[Item], title: str, *, total: int | None = None, shown: bool = True) -> Iterator[Item]:
    """The items, under a progress bar. `total` is their number; by default their length, where they have one.

    >>> list(track("abc", "reading"))
    ['a', 'b', 'c']
    """
    with progress(title, total or length_hint(items) or None, shown=shown) as bar:
        for item in items:
            yield item
            bar.advance()
