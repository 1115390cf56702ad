"""Runs: a grid of cells, each measured once and kept in a file of its own.

Metrics are computed when a cell runs; tables and figures read only the files. A run that was
stopped goes on with what is missing, and a grid that grew adds only what is new.
"""

import multiprocessing
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from os.path import lexists
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from threadpoolctl import threadpool_limits

from paper.grid import Grid, read_grid
from paper.measure import QUERIES, Cell, measure
from streambits._digests import seal, unseal
from streambits._files import replacing
from streambits.errors import StorageError, StreambitsError

__all__ = ["Grid", "Result", "measure_and_keep", "missing", "read_grid", "results", "run"]

PACKAGES = ("streambits", "numpy", "scipy", "numba", "scikit-learn", "faiss-cpu")
CPUS = Path("/proc/cpuinfo")
T = TypeVar("T")


class Result(NamedTuple):
    """A cell and its figures; `figures["reason"]` says why there are none.

    made_with: versions of what computed it, and the machine.
    """

    cell: Cell
    figures: dict[str, Any]
    made_with: Mapping[str, str] = MappingProxyType({})


def missing(grid: Grid, folder: Path) -> list[Cell]:
    """What has no result yet."""
    return [cell for cell in grid.cells if not lexists(file_of(folder, cell, grid.queries))]


def run(
    grid: Grid, folder: Path, *, workers: int | None = None, on_done: Callable[[Cell], None]
) -> None:
    """Measure what is missing, on a process a core, each with one thread; tells of every cell."""
    make(folder)
    todo, count = missing(grid, folder), workers or os.cpu_count() or 1
    work = partial(measure_and_keep, folder=folder, queries=grid.queries)
    spread(work, todo, workers=max(1, min(count, len(todo))), on_done=on_done)


def make(folder: Path) -> None:
    """A folder for results, if it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error


def measure_and_keep(cell: Cell, folder: Path, queries: int = QUERIES) -> None:
    """Measure a cell and write its file."""
    with threadpool_limits(1):
        start = time.perf_counter()
        figures = measure(cell, queries=queries)
        figures["seconds"] = figures.get("seconds", {}) | {"all": time.perf_counter() - start}
    keep(file_of(folder, cell, queries), {"cell": cell._asdict(), "figures": figures})


def keep(path: Path, content: dict[str, Any]) -> None:
    """Write a result, with what it was made with."""
    made = {"versions": versions(), "machine": machine()}
    with replacing(path) as file:
        file.write(seal(content | made))


def results(cells: Iterable[Cell], folder: Path, queries: int = QUERIES) -> Iterator[Result]:
    """The results that there are."""
    for cell in cells:
        path = file_of(folder, cell, queries)
        if lexists(path):
            content = recall(path)
            yield Result(cell, content["figures"], made_with(content))


def recall(path: Path) -> dict[str, Any]:
    """What `keep` wrote."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    return unseal(content, path, "delete it, and run again")


def made_with(content: dict[str, Any]) -> dict[str, str]:
    """Versions and machine of a result."""
    return {**content.get("versions", {}), "machine": content.get("machine", "not recorded")}


def versions() -> dict[str, str]:
    """What a result is made with."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """What this runs on, in a few words."""
    lines = CPUS.read_text().splitlines() if CPUS.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def file_of(folder: Path, cell: Cell, queries: int = QUERIES) -> Path:
    """Where its result is; runs with another number of queries than usual have files of their own.

    A quick run in the folder of a full one must neither use its results nor replace them.
    """
    usual = queries == QUERIES
    return folder / (f"{cell.name}.json" if usual else f"{cell.name}-{queries}.json")


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
