"""Work spread over processes that stop at once with the one that started them."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from streambits.errors import StreambitsError

T = TypeVar("T")


def spread(
    work: Callable[[T], None],
    items: Sequence[T],
    *,
    workers: int,
    on_done: Callable[[T], None],
) -> None:
    """Call work(item) for each item, several at a time; tells of each as it is done.

    An error, here or in a worker, ends all workers at once, whatever they do: work must leave
    whole files, or none, when it is killed.
    """
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_obey) as pool:
        with _deaf():  # inherited: a worker that still starts would print what interrupted it
            jobs = {pool.submit(work, item): item for item in items}
        try:
            for job in as_completed(jobs):
                job.result()
                on_done(jobs[job])
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise StreambitsError(
                    "a worker was killed, most likely for want of memory: try fewer workers"
                ) from error
            raise


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C does nothing meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


def _obey() -> None:
    """Ctrl-C is the business of the process that started us; when it is gone, so are we."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
