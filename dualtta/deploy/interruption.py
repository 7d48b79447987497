"""Ctrl-C that takes effect after the current batch; a second one interrupts at once."""

import signal
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context in which Ctrl-C and SIGTERM only set a flag; call it to read the flag."""

    def __init__(self) -> None:
        self.code = 0  # the exit code of a program that a signal ended
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
