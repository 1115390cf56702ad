"""Partitions of a table whose rows an engine hands over in any order, as Spark does.

An engine with a shuffle promises neither which task gets a row nor in which order rows come. So a
partition is defined by the rows alone: those with one value in a column, in the order of their ids.
A task holds the rows that came to it, and gives each partition its own.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streambits._arrays import TEXT
from streambits.engines.partitions import Facts
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.rows.arrow import table_batches, table_layout
from streambits.io.rows.files import ReadOptions
from streambits.model.batches import RowBatch
from streambits.model.codes import Codes

KEY = "__streambits_partition"  # the column that says to which partition a row belongs, as a text


@dataclass(frozen=True, eq=False)
class FramePartition:
    """The rows of a table with one value in the column `KEY`, in the order of their ids.

    Attributes
    ----------
    number : int
        From 0, in the order of the values.
    key : str
        The value, as a text.
    name : str
    count : int
        Rows of it, as counted before: a task that gets fewer does not have all of it.
    columns : tuple of str
        Of the vectors: one of lists, or several of numbers.
    ids : str
        The column of ids.
    rows : pyarrow.Table
        None until a task has them.
    first : int
        Of no use here: rows have ids.
    """

    number: int
    key: str
    name: str
    count: int
    columns: tuple[str, ...]
    ids: str
    rows: Any = None
    first: int = 0

    def facts(self) -> Facts:
        if self.rows is None:
            return Facts(self.count, 0, None)
        layout = table_layout(self.rows, self._options, self.name)
        width, text = (0, None) if layout is None else (layout.width, layout.text)
        return Facts(self.count, width, text)

    def batches(self) -> Iterator[RowBatch]:
        return table_batches(self.rows, self._options, "the DataFrame")

    def fingerprint(self) -> Any:
        digest = hashlib.blake2b(digest_size=8)
        for batch in self.batches():
            digest.update(np.ascontiguousarray(batch.rows).tobytes())
            text = batch.ids.dtype.kind == TEXT.kind
            digest.update(str(batch.ids.tolist()).encode() if text else batch.ids.tobytes())
        return {"rows": self.count, "digest": digest.hexdigest()}

    def having(self, rows: Any) -> "FramePartition":
        """The partition with its rows, as a task has gathered them in any order.

        Raises
        ------
        InputError
            If rows are missing, or an id comes twice.
        """
        import pyarrow.compute as pc  # noqa: PLC0415

        if rows.num_rows != self.count:
            raise InputError(
                f"partition {self.number} ({self.name}): a task has {rows.num_rows:,} of the "
                f"{self.count:,} rows that were counted: the data have changed meanwhile, or give "
                f"other rows whenever they are computed; write them to files first"
            )
        rows = rows.sort_by(self.ids)
        ids = rows.column(self.ids).combine_chunks()
        twice = pc.equal(ids[1:], ids[:-1]).fill_null(False)
        if pc.any(twice).as_py():
            found = ids[pc.index(twice, True).as_py()].as_py()
            raise InputError(
                f"partition {self.number} ({self.name}): the id {found!r} comes twice: rows are in "
                f"the order of their ids, so every id may come once"
            )
        return replace(self, rows=rows)

    @property
    def _options(self) -> ReadOptions:
        return ReadOptions(columns=self.columns, ids=self.ids)


def gathered(
    batches: Iterable[Any], partitions: Sequence[FramePartition]
) -> Iterator[FramePartition]:
    """The partitions in what a task gets, each with its rows.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        With the column `KEY`; all rows of a partition come to one task, beside those of others.
    partitions : sequence of FramePartition
        All of them.

    Notes
    -----
    Memory: all rows that came to the task, and a copy of those of one partition.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    some = [batch for batch in batches if batch.num_rows]
    if not some:
        return
    known = {one.key: one for one in partitions}
    whole = pa.Table.from_batches(some)
    keys = whole.column(KEY)
    for key in sorted(pc.unique(keys).to_pylist(), key=str):
        if key not in known:
            raise InputError(
                f"there are rows of a partition {key!r} that was not there when they were counted: "
                f"the data have changed meanwhile; write them to files first"
            )
        yield known[key].having(whole.filter(pc.equal(keys, key)).drop_columns(KEY))


def index_of_codes(
    batches: Iterable[Any], bits: int | None = None
) -> Iterator[tuple[int | str, HammingIndex]]:
    """An index of the codes in a table, if there are any; columns are those of `write_codes`.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        With the columns id, epoch, and code or refinement or both, which are binary.
    bits : int, optional
        Length of the codes; by default whole bytes.

    Yields
    ------
    int or str
        The lowest of its ids, which no other index has where every id comes once.
    HammingIndex

    Raises
    ------
    StorageError
        If the columns are not those of codes.
    """
    import pyarrow as pa  # noqa: PLC0415

    some = [batch for batch in batches if batch.num_rows]
    if not some:
        return
    whole = pa.Table.from_batches(some).combine_chunks()
    packed, refinement = (_bytes_of(whole, name) for name in ("code", "refinement"))
    ids = whole.column("id").to_numpy()
    ids = ids.astype(TEXT if ids.dtype.kind == "O" else np.int64)
    epochs = whole.column("epoch").to_numpy()
    if len(epochs) and epochs.min() < 0:
        raise StorageError(
            "the codes have marks of removals, which have an order: search the folder without an "
            "engine, or reencode it"
        )
    index: HammingIndex | None = None
    for epoch in np.unique(epochs).tolist():
        here = np.flatnonzero(epochs == epoch)
        refined = None if refinement is None else refinement[here]
        signs = np.empty((len(here), 0), np.uint8) if packed is None else packed[here]
        length = 8 * signs.shape[1] if bits is None else bits
        codes = Codes(signs, length, int(epoch), refined)
        if index is None:
            index = HammingIndex(codes.bits, refine=codes.refine)
        index.add(codes, ids[here])
    if index is not None:
        yield min(ids.tolist()), index


def _bytes_of(table: Any, name: str) -> Any:
    """A binary column as (n, width) bytes; None if it is not there."""
    if name not in table.schema.names:
        return None
    values = table.column(name).to_pylist()
    widths = {-1 if value is None else len(value) for value in values}
    if len(widths) != 1 or -1 in widths:
        raise StorageError(f"the column {name!r} does not have codes of one length")
    return np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
