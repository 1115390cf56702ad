"""Batches: rows, or codes, with their ids."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import NO_IDS, Array, IdPlaces, Ids, as_ids, concat_ids, is_rows
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


class Removals(NamedTuple):
    """What a stretch of a stream removes.

    Attributes
    ----------
    ids : array of shape (m,), int64 or texts
        In the order of the stream; an id may come more than once.
    at : array of shape (m,), int64
        How many rows of the batch come before each.
    """

    ids: Ids
    at: NDArray[np.int64]


class RowBatch(NamedTuple):
    """Rows of a stream with their ids, in its order.

    Attributes
    ----------
    ids : array of shape (n,), int64 or texts
    rows : array of shape (n, d)
        Those of a source are floating and finite.
    offset : JSON value, optional
        Where the source continues after these rows.
    rejects : tuple of Reject
        The rows of this stretch that the source left out.
    removals : Removals, optional
        Ids that this stretch removes.
    payload : array of shape (n, p), object, optional
        Further values to be kept with the codes: a text or None for each name that was asked for.
    """

    ids: Ids
    rows: Array
    offset: Any = None
    rejects: tuple[Reject, ...] = ()
    removals: Removals | None = None
    payload: NDArray[np.object_] | None = None

    @property
    def removed(self) -> Ids:
        """Ids that are gone after this batch: those that do not come again after their removal.

        >>> batch = RowBatch(np.array([1, 2, 1]), np.zeros((3, 1)))
        >>> batch._replace(removals=Removals(np.array([1, 2]), np.array([1, 2]))).removed
        array([2])
        """
        if self.removals is None or not len(self.removals.ids):
            return NO_IDS
        gone, at = np.unique(self.removals.ids[::-1], return_index=True)
        at = self.removals.at[::-1][at]
        names, last = np.unique(self.ids[::-1], return_index=True)
        place = IdPlaces(names)(gone)
        written = np.append(len(self.ids) - 1 - last, -1)[place]  # where each came last, or -1
        left: Ids = gone[written < at]
        return left


def join_batches(parts: Sequence[RowBatch]) -> RowBatch:
    """Batches that follow each other, all with a payload or none, as one."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.ids) for part in parts)])
    gone = [(part.removals, start) for part, start in zip(parts, starts) if part.removals]
    removals = None
    if gone:
        ids = concat_ids(some.ids for some, _ in gone)
        removals = Removals(ids, np.concatenate([some.at + start for some, start in gone]))
    payload = [part.payload for part in parts if part.payload is not None]
    return RowBatch(
        concat_ids(part.ids for part in parts),
        np.concatenate([part.rows for part in parts if len(part.rows)] or [parts[0].rows]),
        parts[-1].offset,
        tuple(reject for part in parts for reject in part.rejects),
        removals,
        np.concatenate(payload) if payload else None,
    )


class CodeBatch(NamedTuple):
    """Codes of one epoch with the ids of their rows.

    Attributes
    ----------
    ids : array of shape (n,), int64 or texts
    codes : Codes
    """

    ids: Ids
    codes: Codes


def batches(stream: Iterable[Any]) -> Iterator[RowBatch]:
    """Read any stream as row batches.

    Parameters
    ----------
    stream : iterable
        Row arrays of shape (n, d), pairs (ids, rows), or row batches; or one array of all rows.
        Rows without ids are counted from 0.

    Yields
    ------
    RowBatch

    Raises
    ------
    InputError
        If a batch does not have one id per row.
    """
    counted = 0
    for item in [stream] if is_rows(stream) else stream:
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
