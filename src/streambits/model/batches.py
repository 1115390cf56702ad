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

    where: file and line, or topic, partition and offset; reason: what is wrong with it; text: how
    it begins.
    """

    where: str
    reason: str
    text: str = ""


class RowBatch(NamedTuple):
    """Rows of a stream with their ids, in its order.

    ids: (n,) int64; rows: (n, d). Those of a source are floating and finite, and it says where to
    go on after them (offset, a JSON value) and which rows of this stretch it left out (rejects).
    """

    ids: NDArray[np.int64]
    rows: Array
    offset: Any = None
    rejects: tuple[Reject, ...] = ()


class CodeBatch(NamedTuple):
    """Codes of one epoch with the ids of their rows. ids: (n,) int64."""

    ids: NDArray[np.int64]
    codes: Codes


def batches(stream: Iterable[Any]) -> Iterator[RowBatch]:
    """Any iterable of row arrays, (ids, rows) or row batches as row batches.

    Rows without ids are counted from 0.
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
