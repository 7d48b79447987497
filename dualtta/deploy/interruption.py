"""Ctrl-C that waits for the end of a batch: the first asks to stop, the second stops at once."""

import signal
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While this lasts, Ctrl-C and SIGTERM only raise a flag; calling it tells whether it is up."""

    def __init__(self) -> None:
        self.code = 0  # what a shell expects of a program that a signal ended
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        return self.code != 0

    def __enter__(self) -> "Interruption":
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.code = 128 + number
        signal.signal(number, signal.default_int_handler)
