"""Tasks over processes that stop cleanly: Ctrl-C lets each worker finish its file, and no worker outlives its parent."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")
AHEAD = 4  # tasks a worker that wait for it: enough that none idles, few enough to drop

_stop: Event | None = None  # in a worker: set when the parent wants no more


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    function: Callable[..., Result], tasks: Iterable[tuple[Any, ...]], workers: int, done: Callable[[Result], object]
) -> None:
    """Call the function on every task, here or in so many processes, and `done` on each result as it comes."""
    if workers == 1:
        for task in tasks:
            done(function(*task))
        return
    waiting = iter(tasks)
    context = get_context("spawn")  # a fork would copy the locks of the progress bar's thread
    stop = context.Event()
    with ProcessPoolExecutor(workers, context, _start, (stop,)) as pool:
        try:
            # Workers inherit the held signal: Ctrl-C in a terminal reaches every process, and only this one is to act on it.
            with held(signal.SIGINT):
                pending = {pool.submit(function, *task) for task in islice(waiting, AHEAD * workers)}
            while pending:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                pending |= {pool.submit(function, *task) for task in islice(waiting, len(finished))}
                for future in finished:
                    done(future.result())
        except BrokenProcessPool as error:
            raise OSError("a worker process was ended from outside: run the same command again to go on") from error
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


@contextmanager
def held(number: signal.Signals) -> Iterator[None]:
    """A signal waits until this is over, where the system can hold one (Windows cannot)."""
    hold = getattr(signal, "pthread_sigmask", None)
    if hold:
        hold(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        if hold:
            hold(signal.SIG_UNBLOCK, {number})


def stopping() -> bool:
    """Whether the parent of this worker wants no more."""
    return _stop is not None and _stop.is_set()


def _start(stop: Event) -> None:
    global _stop
    _stop = stop
    Thread(target=_follow_parent, daemon=True).start()
    import cv2

    cv2.setNumThreads(1)  # one core a worker


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # a killed parent never says stop
