"""Threads without a trace in the results.

BLAS splits a product differently for every number of threads, and rounds differently with it. So
each block is computed by one BLAS thread, and the threads take different blocks. As many threads
work as BLAS was allowed, so the usual settings (`OMP_NUM_THREADS`, `threadpool_limits`) hold.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class _OneThread:
    """Holds BLAS at one thread while anyone is inside; the last one out restores the setting."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._inside = 0
        self._limit: Any = None
        self.allowed = 1

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                blas = _blas()
                self.allowed = max(
                    (lib.num_threads or 1 for lib in blas.lib_controllers), default=1
                )
                self._limit = blas.limit(limits=1)
                self._limit.__enter__()
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.__exit__(None, None, None)


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401, PLC0415  SciPy brings a BLAS of its own; it must be loaded to be found

    return ThreadpoolController().select(user_api="blas")


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """One pool for each size; the process number keeps a forked child from using its parent's."""
    return ThreadPoolExecutor(workers, thread_name_prefix=f"streambits-{process}")


def look_again() -> None:
    """Find the BLAS libraries anew, after a package that brings its own was imported."""
    _blas.cache_clear()


_one = _OneThread()


@contextmanager
def one_blas_thread() -> Iterator[int]:
    """Run what is inside with one BLAS thread; gives the number that was allowed before."""
    _one.enter()
    try:
        yield _one.allowed
    finally:
        _one.leave()


def ordered_map(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Like `map`, on as many threads as BLAS may use, a bounded number of items ahead.

    The results, and their order, are the same for any number of threads.
    """
    with one_blas_thread() as workers:
        if workers == 1 or len(items) == 1:
            yield from map(work, items)
            return
        pool, waiting = _pool(workers, os.getpid()), deque[Future[R]]()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
