"""Threads without a trace in the results.

BLAS splits a product differently for every number of threads, and rounds differently with it. So
each block is computed by one BLAS thread, and the threads take different blocks. As many threads
work as BLAS was allowed, so the usual settings (`OMP_NUM_THREADS`, `threadpool_limits`) hold.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import RLock, local
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class _OneThread:
    """Holds BLAS at one thread while anyone is inside; the last one out restores the setting.

    Most builds of OpenBLAS have one setting for the process: whoever comes first saves it. MKL and
    OpenBLAS on OpenMP have one for each thread: everyone saves its own.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._inside = 0
        self._shared: list[tuple[Any, int]] = []
        self._own = local()

    def enter(self) -> int:
        """Hold; gives the number of threads that was allowed."""
        with self._lock:
            if self._inside == 0:
                self._shared = _held_at_one(lib for lib in _blas() if not _has_own_setting(lib))
            self._inside += 1
            allowed = [count for _, count in self._shared]
        own = _held_at_one(lib for lib in _blas() if _has_own_setting(lib))
        self._own.saved = [*getattr(self._own, "saved", []), own]
        first = self._own.saved[0]
        return max([*allowed, *(count for _, count in first)], default=1)

    def leave(self) -> None:
        for lib, count in self._own.saved.pop():
            _set(lib, count)
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for lib, count in self._shared:
                    _set(lib, count)


def _held_at_one(libraries: Iterable[Any]) -> list[tuple[Any, int]]:
    """Set each to one thread; gives what each had."""
    before = [(lib, lib.num_threads or 1) for lib in libraries]
    for lib, _ in before:
        _set(lib, 1)
    return before


def _set(library: Any, count: int) -> None:
    """Without threadpoolctl's rule that only the first thread may: the lock above sees to that."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


def _has_own_setting(library: Any) -> bool:
    """Whether every thread has a setting of its own."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


@cache
def _blas() -> list[Any]:
    import scipy.linalg  # noqa: F401, PLC0415  SciPy brings a BLAS of its own; it must be loaded to be found

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _hold_forever() -> None:
    """In a thread of ours: where threads have settings of their own, this one's is one."""
    _held_at_one(lib for lib in _blas() if _has_own_setting(lib))


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """One pool for each size; the process number keeps a forked child from using its parent's."""
    name = f"streambits-{process}"
    return ThreadPoolExecutor(workers, thread_name_prefix=name, initializer=_hold_forever)


def look_again() -> None:
    """Find the BLAS libraries anew, after a package that brings its own was imported."""
    _blas.cache_clear()


_one = _OneThread()


@contextmanager
def one_blas_thread() -> Iterator[int]:
    """Run what is inside with one BLAS thread; gives the number that was allowed before."""
    allowed = _one.enter()
    try:
        yield allowed
    finally:
        _one.leave()


def ordered_map(work: Callable[[T], R], items: Sequence[T], *, light: bool = False) -> Iterator[R]:
    """Like `map`, on as many threads as BLAS may use, a bounded number of items ahead.

    The results, and their order, are the same for any number of threads.
    light: the work is so short that threads would wait for each other longer; this one does all.
    """
    with one_blas_thread() as workers:
        if light or workers == 1 or len(items) == 1:
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
