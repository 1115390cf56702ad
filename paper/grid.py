"""Plans: which cells a grid of experiments has, read from a TOML file."""

import itertools
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from paper import datasets
from paper.contestants import CONTESTANTS, LEVELS
from paper.datasets import NAMES, ORDERS
from paper.measure import QUERIES, SETTINGS, STREAMS, Cell
from streambits.errors import InputError, StorageError

GRIDS = Path(__file__).with_name("grids")  # those that come with the package, by name
AXES: dict[str, Any] = {
    "streams": tuple(STREAMS),
    "methods": tuple(CONTESTANTS),
    "orders": tuple(ORDERS),
    "levels": LEVELS,
    "settings": SETTINGS,
}
USUAL: dict[str, list[Any]] = {
    "seeds": [0],
    "orders": ["shuffled"],
    "levels": [LEVELS[0]],
    "settings": ["end"],
}
COLUMNS = ("streams", "methods", "bits", *USUAL)  # in the order of a cell's fields
FAISS = "faiss-"


class Grid(NamedTuple):
    """cells: in the order they run; absent: streams whose data are not here; queries: of each.

    theory: data sets on which the lemmas are measured, with `theory_rows` rows each. unpacked:
    methods whose package is not installed.
    """

    cells: list[Cell]
    absent: list[str]
    queries: int = QUERIES
    theory: tuple[str, ...] = ()
    theory_rows: int = 0
    unpacked: tuple[str, ...] = ()


def read_grid(path: Path) -> Grid:
    """The cells of a TOML file: tables [[cells]] with lists of streams, methods, bits, seeds, ...

    All combinations of a table's lists are cells; one that several tables have is run once. A
    method without a kernel has one cell for all levels. A table [theory] has `data` and `rows`.
    """
    content = _content(path)
    _known(content, ("cells", "queries", "theory"), path)
    tables, theory = content.get("cells", []), content.get("theory", {})
    if not (_are_tables(tables) and _are_tables([theory])):
        raise InputError(f"{path}: write [[cells]] and [theory] as tables")
    every = dict.fromkeys(c for table in tables for c in _cells(table, path))
    if not every:
        raise InputError(f"{path} has no cells: it needs at least one table [[cells]]")
    absent = sorted({c.stream for c in every if not datasets.available(STREAMS[c.stream][0])})
    methods = dict.fromkeys(c.method for c in every)
    unpacked = tuple(m for m in methods if m.startswith(FAISS) and not find_spec("faiss"))
    here = (c for c in every if c.stream not in absent and c.method not in unpacked)
    cells = sorted(here, key=lambda c: (c.stream, c.order, c.seed))
    queries = _whole(content.get("queries", QUERIES), f"{path}: queries")
    return Grid(cells, absent, queries, *_theory(theory, path), unpacked)


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # a number may have too many digits
        raise StorageError(f"{path} is not TOML: {error}") from error


def _are_tables(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(table, dict) for table in found)


def _cells(table: dict[str, Any], path: Path) -> Iterator[Cell]:
    _known(table, COLUMNS, path)
    axes = [_axis(table, name, path) for name in COLUMNS]
    for values in itertools.product(*axes):
        cell = Cell(*values)
        if cell.level == LEVELS[0] or CONTESTANTS[cell.method].kernel:
            yield cell


def _axis(table: dict[str, Any], name: str, path: Path) -> list[Any]:
    if name not in table and name not in USUAL:
        raise InputError(f"{path}: a table [[cells]] has no {name}")
    values = table.get(name, USUAL.get(name))
    if not isinstance(values, list):
        raise InputError(f"{path}: {name} is {values!r}; write a list, such as [{values!r}]")
    for value in values:
        if name in AXES and value not in AXES[name]:
            raise InputError(f"{path}: {name} has {value!r}; choose from {', '.join(AXES[name])}")
        if name not in AXES:
            _whole(value, f"{path}: {name}", least=int(name == "bits"))
    return values


def _theory(table: dict[str, Any], path: Path) -> tuple[tuple[str, ...], int]:
    _known(table, ("data", "rows"), path)
    rows = _whole(table.get("rows", 4000), f"{path}: rows", least=200)
    for name in table.get("data", ()):
        if name not in NAMES:
            raise InputError(f"{path}: data has {name!r}; choose from {', '.join(NAMES)}")
    return tuple(filter(datasets.available, table.get("data", ()))), rows


def _known(table: dict[str, Any], names: tuple[str, ...], path: Path) -> None:
    for name in table:
        if name not in names:
            raise InputError(f"{path}: nothing is called {name!r}; choose from {', '.join(names)}")


def _whole(value: Any, name: str, *, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    return value
