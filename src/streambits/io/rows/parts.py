"""What a reader of one file is, and what all readers share.

A bad row is one with a value that is not finite: readers fill what they cannot use with NaN, and
`sift` takes it out, so there is one place where rows are refused.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LARGEST, as_rows
from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.bad_rows import fault
from streambits.io.rows.handles import Handle
from streambits.model.batches import Reject

TEXT = 200  # characters of a bad row that are kept
At = dict[str, int]


class Options(NamedTuple):
    """columns: those to take, None for the default; ids: the column of ids; rows: in a part."""

    columns: tuple[str, ...] | None = None
    ids: str | None = None
    rows: int = 8192


class Layout(NamedTuple):
    """How rows look. path: the file that says so; columns: None where they have no names;
    listed: the numbers of a row are in one list, not in a column each.
    """

    width: int
    path: str
    columns: tuple[str, ...] | None = None
    listed: bool = False


class Part(NamedTuple):
    """Some rows of a file. ids: None if rows are numbered; places: of `rows` among the `total`
    rows, good and bad, of this part; at: where in the file to go on.
    """

    rows: NDArray[Any]
    ids: NDArray[np.int64] | None
    places: NDArray[np.int64]
    total: int
    at: At
    rejects: tuple[Reject, ...] = ()


class Reader(Protocol):
    """One file. keys: what an `at` of its parts has."""

    handle: Handle
    keys: tuple[str, ...]

    def length(self) -> int | None:
        """Rows in all, good and bad, where that is cheap to know."""
        ...

    def layout(self) -> Layout | None:
        """By the head of the file or its first good row; None if there is neither."""
        ...

    def parts(self, layout: Layout | None, at: At | None) -> Iterator[Part]:
        """The rows from the beginning, or from the `at` of an earlier part."""
        ...


def sift(
    rows: NDArray[Any],
    ids: NDArray[np.int64] | None,
    at: At,
    reject: Callable[[int], Reject],
) -> Part:
    """The rows that are finite; the others are rejects, which `reject` explains by their place."""
    limit = LARGEST if rows.dtype == np.float64 else np.inf
    total, places = len(rows), np.arange(len(rows))
    if not rows.size or (rows.max() < limit and rows.min() > -limit):  # false for NaN
        return Part(np.ascontiguousarray(rows), ids, places, total, at)
    good = (np.abs(rows) < limit).all(axis=1)
    rejects = tuple(reject(int(place)) for place in np.flatnonzero(~good))
    ids = None if ids is None else ids[good]
    return Part(np.ascontiguousarray(rows[good]), ids, places[good], total, at, rejects)


def numbers_reject(where: str, start: int, rows: NDArray[Any]) -> Callable[[int], Reject]:
    """For `sift`, where all that can be wrong is a number. start: the place of the first row."""

    def reject(place: int) -> Reject:
        values = rows[place].tolist()
        return Reject(f"{where} {start + place}", fault(values), str(values)[:TEXT])

    return reject


@functools.cache
def float_type(dtype: Any) -> np.dtype[Any]:
    """The precision that rows of this type get, by the rule of `as_rows`."""
    kept: np.dtype[Any] = as_rows(np.zeros((1, 1), np.dtype(dtype).newbyteorder("="))).dtype
    return kept


def refuse_names(path: str, options: Options) -> None:
    """For files whose columns have no names."""
    if options.columns is not None or options.ids is not None:
        raise InputError(f"{path} has no columns with names: leave out columns and ids")


@contextmanager
def reading(path: str, kind: str, where: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Whatever goes wrong inside is a StorageError that names the file, and where it was."""
    try:
        yield
    except StreambitsError:
        raise
    except FileNotFoundError as error:
        raise StorageError(f"{path} does not exist") from error
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise StorageError(f"{path} cannot be read as {kind}{where()}: {reason}") from error
