"""Parallelism that does not change results.

BLAS splits a product differently for every number of threads, and rounds differently with it. So
each block is computed by one BLAS thread, and the threads compute different blocks. As many threads
work as BLAS was allowed, so the usual settings (`OMP_NUM_THREADS`, `threadpool_limits`) hold.

A process may be forked at any time, whatever its threads are doing: the child gets locks and a
pool of its own, and BLAS with the number of threads that its parent was allowed.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, wraps
from threading import Condition, RLock, get_ident, local
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from streambits.errors import ForkError

MOST_SCRATCH = 2**25  # bytes

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class ForkSafeLock:
    """A reentrant lock that only a thread which exists can hold, also in a forked child.

    Attributes
    ----------
    abandoned : bool
        In a child, whether a thread of the parent held the lock: what it guards may then be half
        changed.

    Notes
    -----
    A plain lock that another thread holds during a fork stays locked in the child for ever, for
    that thread does not exist there. Copies, also by pickle, are new locks.

    Examples
    --------
    >>> lock = ForkSafeLock()
    >>> with lock, lock:
    ...     lock.abandoned
    False
    """

    __slots__ = ("__weakref__", "_lock", "abandoned")

    def __init__(self) -> None:
        self._lock = RLock()
        self.abandoned = False
        _locks.add(self)

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def acquire(self, *, blocking: bool = True) -> bool:
        """Acquire the lock, waiting for it if `blocking`; returns whether it was acquired."""
        return self._lock.acquire(blocking=blocking)

    def release(self) -> None:
        """Release the lock once."""
        self._lock.release()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def _after_fork(self) -> None:
        if self._lock.acquire(blocking=False):  # free, or held by the thread that forked
            self._lock.release()
        else:
            self._lock, self.abandoned = RLock(), True


class Gate:
    """Many read, or one changes.

    Who reads while a change waits for others that read goes in with those that follow, and the
    change waits for them as well, but for no later ones: a slow reader does not keep others out,
    and a change waits for two generations of readers at most. A thread that reads may read again.

    Examples
    --------
    >>> gate = Gate()
    >>> with gate.reading(), gate.reading():
    ...     gate.is_reading
    True
    >>> with gate.changing(), gate.reading():
    ...     gate.is_reading
    False
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._readers = [0, 0]  # of two generations
        self._generation = 0  # of those that come now
        self._changer: int | None = None  # the thread that changes something, or waits to
        self._closed = False
        self._depth = local()

    @property
    def is_reading(self) -> bool:
        """Whether this thread is inside of `reading`."""
        return getattr(self._depth, "value", 0) > 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read with others, while nobody else changes anything."""
        if self.is_reading or (self._closed and self._changer == get_ident()):
            yield
            return
        with self._condition:
            while self._closed:
                self._condition.wait()
            generation = self._generation
            self._readers[generation] += 1
            self._depth.value = 1
        try:
            yield
        finally:
            with self._condition:
                self._depth.value = 0
                self._readers[generation] -= 1
                self._condition.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change something, alone."""
        try:
            with self._condition:
                while self._changer is not None:
                    self._condition.wait()
                self._changer = get_ident()
                before, self._generation = self._generation, 1 - self._generation
                while self._readers[before]:
                    self._condition.wait()
                self._closed = True
                while self._readers[self._generation]:
                    self._condition.wait()
            yield
        finally:
            with self._condition:
                if self._changer == get_ident():
                    self._changer, self._closed = None, False
                self._condition.notify_all()


class cached(Generic[T, R]):  # noqa: N801 - used as a decorator
    """`functools.cached_property` without its lock, which a fork can leave locked (Python 3.11).

    Two threads at once may compute the value twice.

    Parameters
    ----------
    compute : callable
        The method that computes the value.

    Examples
    --------
    >>> class Square:
    ...     @cached
    ...     def area(self) -> int:
    ...         return 9
    >>> square = Square()
    >>> square.area, vars(square)
    (9, {'area': 9})
    """

    def __init__(self, compute: Callable[[T], R]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    @overload
    def __get__(self, holder: None, kind: type | None = None) -> Self: ...
    @overload
    def __get__(self, holder: T, kind: type | None = None) -> R: ...
    def __get__(self, holder: T | None, kind: type | None = None) -> Self | R:
        if holder is None:  # asked of the class
            return self
        value = self._compute(holder)
        holder.__dict__[self._compute.__name__] = value  # from now on found there
        return value


_locks: WeakSet[ForkSafeLock] = WeakSet()


def synchronized(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], R]:
    """Let one thread at a time into an object that has a `_lock`.

    Parameters
    ----------
    method : callable
        A method of a class whose objects have a `ForkSafeLock` as `_lock`.

    Returns
    -------
    callable
        The method under the lock. It raises ForkError in a child that was forked while another
        thread was inside.
    """

    @wraps(method)
    def locked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        own: Any = self
        with own._lock as lock:
            if lock.abandoned:
                raise ForkError(
                    f"another thread was inside of this {type(self).__name__.lower()} when the "
                    f"process was forked, so the child may have it half changed: fork while no "
                    f"thread uses it, or save it and load it in the child"
                )
            return method(self, *args, **kwargs)

    return locked


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
        """Hold; returns the number of threads that was allowed."""
        libraries = _blas()
        with self._lock:
            if self._inside == 0:
                self._shared = _held_at_one(lib for lib in libraries if not _has_own_setting(lib))
            self._inside += 1
            allowed = [count for _, count in self._shared]
        own = _held_at_one(lib for lib in libraries if _has_own_setting(lib))
        self._own.saved = [*getattr(self._own, "saved", []), own]
        first = self._own.saved[0]
        return max([*allowed, *(count for _, count in first)], default=1)

    def leave(self) -> None:
        for lib, count in self._own.saved.pop():
            _set(lib, count)
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def _restore(self) -> None:
        for lib, count in self._shared:
            _set(lib, count)

    def before_fork(self) -> None:
        """Nobody may be half inside: the child must have the number that BLAS was allowed."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Of those inside, only the thread that forked is left."""
        self._lock = RLock()
        others, self._inside = self._inside, len(getattr(self._own, "saved", []))
        if others and not self._inside:
            self._restore()


def _held_at_one(libraries: Iterable[Any]) -> list[tuple[Any, int]]:
    """Set each to one thread; returns the numbers before."""
    before = [(lib, lib.num_threads or 1) for lib in libraries]
    for lib, _ in before:
        _set(lib, 1)
    return before


def _set(library: Any, count: int) -> None:
    """Without threadpoolctl's rule that only the first thread may: the lock above ensures that."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


def _has_own_setting(library: Any) -> bool:
    """Whether every thread has a setting of its own."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


@cache
def _blas() -> list[Any]:
    import scipy.linalg  # noqa: F401, PLC0415  SciPy brings a BLAS of its own; it must be loaded to be found

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


_worker = local()


def _hold_forever() -> None:
    """In a thread of ours: where threads have settings of their own, this one's is one."""
    _worker.is_ours = True
    _held_at_one(lib for lib in _blas() if _has_own_setting(lib))


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """One pool for each size."""
    return ThreadPoolExecutor(workers, thread_name_prefix="streambits", initializer=_hold_forever)


def rescan_blas() -> None:
    """Find the BLAS libraries anew, after a package that brings its own was imported."""
    _blas.cache_clear()


_one = _OneThread()


def _after_fork_in_child() -> None:
    _pool.cache_clear()  # its threads do not exist here
    _one.after_fork_in_child()
    for lock in _locks:
        lock._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_one.before_fork,
        after_in_parent=_one.after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


_scratch = local()


def scratch(name: str, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    """Return an array of this thread, of any content, until the next call for the same one.

    New memory costs more than most passes over it: the system clears it page by page. Arrays above
    `MOST_SCRATCH` bytes are not kept.
    """
    size, key = shape[0] * shape[1], (name, dtype)
    kept: dict[Any, NDArray[Any]] = _scratch.__dict__
    held = kept.get(key)
    if held is None or held.size < size:
        held = np.empty(size, dtype)
        if held.nbytes <= MOST_SCRATCH:
            kept[key] = held
    return held[:size].reshape(shape)


@contextmanager
def one_blas_thread() -> Iterator[int]:
    """Run a `with` block with one BLAS thread.

    Yields
    ------
    int
        The number of threads that was allowed before, and is allowed again after.
    """
    allowed = _one.enter()
    try:
        yield allowed
    finally:
        _one.leave()


def ordered_map(work: Callable[[T], R], items: Sequence[T], *, light: bool = False) -> Iterator[R]:
    """Map on as many threads as BLAS may use, this one included, a few items ahead.

    Parameters
    ----------
    work : callable
        Called with each item, under one BLAS thread.
    items : sequence
    light : bool, default False
        Whether the work is so short that threads would wait for each other longer; the calling
        thread then does all. So does a thread of the pool, which would otherwise wait for itself.

    Yields
    ------
    object
        The results in the order of the items, the same for any number of threads.
    """
    if not len(items):
        return  # most calls with a single row: nothing is worth holding BLAS for
    with one_blas_thread() as workers:
        if light or workers == 1 or len(items) == 1 or getattr(_worker, "is_ours", False):
            yield from map(work, items)
            return
        pool, waiting = _pool(workers - 1), deque[tuple[Future[R], T]]()
        try:
            for item in items:
                waiting.append((pool.submit(work, item), item))
                if len(waiting) > 2 * workers:
                    yield _oldest(work, waiting)
            while waiting:
                yield _oldest(work, waiting)
        finally:
            for future, _ in waiting:
                future.cancel()


def _oldest(work: Callable[[T], R], waiting: deque[tuple[Future[R], T]]) -> R:
    """The oldest result; until it is there, this thread does what no other has begun."""
    for place, (future, item) in enumerate(waiting):
        if waiting[0][0].done():
            break
        if future.cancel():
            own: Future[R] = Future()
            try:
                own.set_result(work(item))
            except BaseException as error:  # noqa: BLE001  raised in its turn
                own.set_exception(error)
            waiting[place] = own, item
    return waiting.popleft()[0].result()
