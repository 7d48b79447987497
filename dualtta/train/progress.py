"""How far a training is, for a person at a terminal; silent when piped."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dualtta.train.training import OnStep, TrainingProgress


@contextmanager
def watching(title: str, shown: bool) -> Iterator[OnStep]:
    """Something to announce moments to: a bar with the epoch, the loss, the validation accuracy and the time left."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(title, total=None, said="")

        def announce(moment: TrainingProgress) -> None:
            done = moment.step == moment.steps
            score = "" if moment.validation is None else f", validation {moment.validation:.1%}"
            said = f"epoch {moment.epoch}/{moment.epochs}, loss {moment.loss:.3f}{score}"
            total, now = moment.epochs * moment.steps, (moment.epoch - 1) * moment.steps + moment.step
            bar.update(task, total=total, completed=now, said=said, refresh=done)

        yield announce
