"""A pool of worker processes: spawned, interrupted only by the parent, and ended with it.

Ctrl-C in a terminal reaches every process of the group; workers ignore it, and the parent decides what happens to them.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Event

Result = TypeVar("Result")
Arguments = TypeVar("Arguments", bound=tuple[Any, ...])
AHEAD = 4  # tasks queued per worker: enough to keep all of them busy, few enough to cancel

_stop: "Event | None" = None  # in a worker: set when the parent cancels the remaining work


class WorkerDied(OSError):
    """A worker process ended before its task was done."""


def cores() -> int:
    """The number of cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run(
    function: Callable[..., Result],
    tasks: Iterable[tuple[Any, ...]],
    workers: int,
    done: Callable[[Result], object],
    setup: Callable[[int], object] | None = None,
) -> None:
    """Call the function with each task's arguments, in this process (one worker) or in a pool, and `done` with each result."""
    if workers == 1:
        for task in tasks:
            done(function(*task))
        return
    for _, result in pooled(function, tasks, workers, setup=setup):
        done(result)


def pooled(
    function: Callable[..., Result],
    tasks: Iterable[Arguments],
    workers: int,
    *,
    setup: Callable[[int], object] | None = None,
    kill: bool = False,
) -> Iterator[tuple[Arguments, Result]]:
    """Yields (task, result) in the order of completion; raises WorkerDied where a worker ended before its task did.

    Args:
        setup: Called once in each worker, with the worker's number from 0.
        kill: When the pool is left early, kill the workers; by default each may finish its task, or end it at `stopping()`.
    """
    waiting = iter(tasks)
    context = get_context("spawn")  # a fork would copy the locks of other threads, and the state of CUDA
    stop, count = context.Event(), context.Value("i", 0)
    pool = ProcessPoolExecutor(workers, context, _start, (stop, count, setup))

    def submit(number: int) -> dict[Future[Result], Arguments]:
        with _blocked(signal.SIGINT):  # a new worker inherits the blocked signal, and so ignores it from its first moment
            return {pool.submit(function, *task): task for task in islice(waiting, number)}

    try:
        pending = submit(AHEAD * workers)
        while pending:
            finished, _ = wait(pending, return_when=FIRST_COMPLETED)
            pending |= submit(len(finished))
            for future in finished:
                yield pending.pop(future), future.result()
    except BaseException as error:
        for worker in list((pool._processes or {}).values()) if kill else ():
            worker.kill()
        stop.set()
        pool.shutdown(wait=not kill, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise WorkerDied("a worker process ended unexpectedly (out of memory?): run the same command again") from error
        raise
    pool.shutdown()


def stopping() -> bool:
    """In a worker: whether the parent has cancelled the remaining work."""
    return _stop is not None and _stop.is_set()


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Delay a signal until the end of the block, where the system can (Windows cannot)."""
    mask = getattr(signal, "pthread_sigmask", None)
    before = mask(signal.SIG_BLOCK, {number}) if mask else ()
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)


def _start(stop: "Event", count: "Synchronized[int]", setup: Callable[[int], object] | None) -> None:
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it could not be blocked
    Thread(target=_follow_parent, daemon=True).start()
    with count.get_lock():
        number, count.value = count.value, count.value + 1
    if setup is not None:
        setup(number)


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # a killed parent cannot set `stop`
