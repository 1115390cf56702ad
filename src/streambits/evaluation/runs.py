"""Runs: a grid of cells, each measured once and kept in a file of its own.

Metrics are computed when a cell runs; tables and figures read only the files. A run that was
stopped goes on with what is missing, and a grid that grew adds only what is new.
"""

import itertools
import json
import multiprocessing
import os
import platform
import signal
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from streambits._files import replacing
from streambits.errors import InputError, StorageError
from streambits.evaluation import datasets
from streambits.evaluation.cells import QUERIES, SETTINGS, STREAMS, Cell, measure
from streambits.evaluation.contestants import CONTESTANTS, LEVELS
from streambits.evaluation.datasets import ORDERS

AXES: dict[str, Any] = {
    "streams": tuple(STREAMS),
    "methods": tuple(CONTESTANTS),
    "orders": tuple(ORDERS),
    "levels": LEVELS,
    "settings": SETTINGS,
}
PACKAGES = ("streambits", "numpy", "scipy", "numba", "scikit-learn", "faiss-cpu")


class Result(NamedTuple):
    """A cell and its figures; `figures["reason"]` says why there are none."""

    cell: Cell
    figures: dict[str, Any]


class Grid(NamedTuple):
    """cells: in the order they run; absent: streams whose data are not here; queries: of each."""

    cells: list[Cell]
    absent: list[str]
    queries: int = QUERIES


def read_grid(path: Path) -> Grid:
    """The cells of a TOML file: tables [[cells]] with lists of streams, methods, bits, seeds, ...

    All combinations of a table's lists are cells; one that several tables have is run once. A
    method without a kernel has one cell for all levels.
    """
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except tomllib.TOMLDecodeError as error:
        raise StorageError(f"{path} is no TOML: {error}") from error
    every = dict.fromkeys(c for table in content.get("cells", []) for c in _cells(table, path))
    absent = sorted({c.stream for c in every if not datasets.available(STREAMS[c.stream][0])})
    cells = sorted(
        (c for c in every if c.stream not in absent), key=lambda c: (c.stream, c.order, c.seed)
    )
    return Grid(cells, absent, content.get("queries", QUERIES))


def missing(grid: Grid, folder: Path) -> list[Cell]:
    """What has no result yet."""
    return [cell for cell in grid.cells if not _file(folder, cell).exists()]


def run(
    grid: Grid, folder: Path, *, workers: int | None = None, on_done: Callable[[Cell], None]
) -> None:
    """Measure what is missing, on a process a core, each with one thread; tells of every cell."""
    folder.mkdir(parents=True, exist_ok=True)
    todo, count = missing(grid, folder), workers or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_ignore_interrupt) as pool:
        jobs = {pool.submit(measure_and_keep, c, folder, grid.queries): c for c in todo}
        try:
            for job in as_completed(jobs):
                job.result()
                on_done(jobs[job])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def measure_and_keep(cell: Cell, folder: Path, queries: int = QUERIES) -> None:
    """Measure a cell and write its file."""
    with threadpool_limits(1):
        start = time.perf_counter()
        figures = measure(cell, queries=queries)
        figures["seconds"] = figures.get("seconds", {}) | {"all": time.perf_counter() - start}
    content = {"cell": cell._asdict(), "figures": figures, "versions": versions()}
    with replacing(_file(folder, cell)) as file:
        file.write(json.dumps(content).encode())


def results(cells: Iterable[Cell], folder: Path) -> Iterator[Result]:
    """The results that there are."""
    for cell in cells:
        path = _file(folder, cell)
        if path.exists():
            yield Result(cell, json.loads(path.read_text())["figures"])


def versions() -> dict[str, str]:
    """What a result was made with."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _file(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.name}.json"


def _ignore_interrupt() -> None:
    """Ctrl-C is the business of the process that started the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _cells(table: dict[str, Any], path: Path) -> Iterator[Cell]:
    for axis, known in AXES.items():
        for value in table.get(axis, ()):
            if value not in known:
                raise InputError(f"{path}: {axis} has {value!r}; choose from {', '.join(known)}")
    axes = [
        table["streams"],
        table["methods"],
        table["bits"],
        table.get("seeds", [0]),
        table.get("orders", ["shuffled"]),
        table.get("levels", [LEVELS[0]]),
        table.get("settings", ["end"]),
    ]
    for values in itertools.product(*axes):
        cell = Cell(*values)
        if cell.level == LEVELS[0] or CONTESTANTS[cell.method].kernel:
            yield cell
