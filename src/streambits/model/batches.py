"""Batches: rows, or codes, with their ids."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_ids
from streambits.errors import InputError
from streambits.model.codes import Codes


class Reject(NamedTuple):
    """A row that cannot be used.

    Attributes
    ----------
    where : str
        File and line, or topic, partition and offset.
    reason : str
        What is wrong with it.
    text : str
        How it begins.
    """

    where: str
    reason: str
    text: str = ""


class RowBatch(NamedTuple):
    """Rows of a stream with their ids, in its order.

    Attributes
    ----------
    ids : array of shape (n,), int64
    rows : array of shape (n, d)
        Those of a source are floating and finite.
    offset : JSON value, optional
        Where the source continues after these rows.
    rejects : tuple of Reject
        The rows of this stretch that the source left out.
    """

    ids: NDArray[np.int64]
    rows: Array
    offset: Any = None
    rejects: tuple[Reject, ...] = ()


class CodeBatch(NamedTuple):
    """Codes of one epoch with the ids of their rows.

    Attributes
    ----------
    ids : array of shape (n,), int64
    codes : Codes
    """

    ids: NDArray[np.int64]
    codes: Codes


def batches(stream: Iterable[Any]) -> Iterator[RowBatch]:
    """Read any stream as row batches.

    Parameters
    ----------
    stream : iterable
        Row arrays of shape (n, d), pairs (ids, rows), or row batches. Rows without ids are
        counted from 0.

    Yields
    ------
    RowBatch

    Raises
    ------
    InputError
        If a batch does not have one id per row.
    """
    counted = 0
    for item in stream:
        if isinstance(item, RowBatch):
            batch = item
        elif isinstance(item, tuple):
            batch = RowBatch(as_ids(item[0]), item[1])
        else:
            ids = np.arange(counted, counted + _count(item), dtype=np.int64)
            batch = RowBatch(ids, item)
        count = _count(batch.rows)
        if len(batch.ids) != count:
            raise InputError(f"a batch of {count} rows needs as many ids; got {len(batch.ids)}")
        counted += count
        yield batch


def _count(rows: Array) -> int:
    return int(rows.shape[0]) if getattr(rows, "shape", ()) else len(rows)
