"""Partitions: the pieces of a data set that workers read by themselves, and a sample of them all.

A partition has a number. Whatever is drawn at random in it depends on the seed, that number and the
place of a row, and on nothing else: not on which worker reads it, when, or how often. So the same
partitions give the same bits on any engine, and a task may be repeated as often as an engine likes.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Ids, as_count, as_ids, as_rows, to_numpy
from streambits.errors import InputError, MergeError, MissingExtraError, StreambitsError
from streambits.io.rows import FORMATS, format_of, open_source
from streambits.io.rows.arrow import row_groups
from streambits.io.rows.files import FileSource
from streambits.io.rows.inputs import Input, expand, fingerprint
from streambits.io.urls import is_url, redact_url
from streambits.model.batches import RowBatch
from streambits.model.sampling import Reservoir
from streambits.storage import register

LANDMARKS = 3  # in the seed of the sample that landmarks are drawn from; learners draw by 1 and 2
PIECE = 65536  # rows of an array that are handed out together


class Facts(NamedTuple):
    """What a partition has, good and bad rows together.

    rows: how many; None where they have to be read to be counted; width: values per row, 0 where no
    row says it; text: whether ids are texts, None where that is not known.
    """

    rows: int | None
    width: int
    text: bool | None


class Partition(Protocol):
    """A piece of a data set that one worker reads from its beginning to its end.

    Attributes
    ----------
    number : int
        From 0, in the order of the data set.
    name : str
        What messages call it.
    first : int
        Id of its first row, where rows are counted.
    """

    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def first(self) -> int: ...

    def facts(self) -> Facts:
        """What is known without reading all of it."""
        ...

    def batches(self) -> Iterator[RowBatch]:
        """Its rows in their order, in batches of bounded size."""
        ...

    def fingerprint(self) -> Any:
        """A JSON value that is the same as long as it has the same rows."""
        ...


@dataclass(frozen=True)
class FilePartition:
    """A file, or some row groups of a Parquet file, that the worker opens itself.

    Attributes
    ----------
    number : int
    path : str
        As the worker sees it.
    columns, ids, format
        As for `open_source`.
    groups : (int, int), optional
        Row groups: the first, and the one to stop before.
    first : int
        Id of the first row, where rows are counted.
    """

    number: int
    path: str
    columns: tuple[str, ...] | None = None
    ids: str | None = None
    format: str | None = None
    groups: tuple[int, int] | None = None
    first: int = 0

    @property
    def name(self) -> str:
        if self.groups is None:
            return self.path
        start, stop = self.groups
        which = f"group {start}" if stop == start + 1 else f"groups {start} to {stop - 1}"
        return f"{self.path}, row {which}"

    def facts(self) -> Facts:
        source = self._source()
        schema = source.schema()
        width, text = (0, None) if schema is None else (schema.width, schema.text)
        return Facts(source.length, width, text)

    def batches(self) -> Iterator[RowBatch]:
        for batch in self._source().read():
            if batch.removals is not None:
                raise InputError(
                    f"{self.name} removes ids, and partitions have no order in which a removal "
                    f"comes after its row: leave removals out, or use a job without an engine"
                )
            yield batch if self.ids else batch._replace(ids=self.first + batch.ids)

    def fingerprint(self) -> Any:
        found = fingerprint(Input(self.path)) or {}
        found.pop("modified", None)  # which a copy changes
        return {"path": self.path, "groups": self.groups and list(self.groups), **found}

    def _source(self) -> FileSource:
        source = open_source(
            self.path,
            columns=self.columns,
            ids=self.ids,
            format=self.format,
            groups=self.groups,
        )
        assert isinstance(source, FileSource)
        return source


@dataclass(frozen=True, eq=False)
class ArrayPartition:
    """Rows that an engine has in memory: an array, or a data frame.

    Attributes
    ----------
    number : int
    rows : array of shape (n, d), or data frame
        None until an engine hands it to a worker.
    columns, ids
        Of a data frame: the names of the columns of the vectors, by default all but the ids; and
        of that of the ids.
    first : int
        Id of the first row, where rows are counted.
    label : str
        What kind of thing it is a part of.
    """

    number: int
    rows: Any = None
    columns: tuple[str, ...] | None = None
    ids: str | None = None
    first: int = 0
    label: str = "array"

    @property
    def name(self) -> str:
        return f"block {self.number} of the {self.label}"

    def facts(self) -> Facts:
        ids, rows = self._content()
        return Facts(len(ids), int(rows.shape[1]), ids.dtype.kind == "T" if self.ids else None)

    def batches(self) -> Iterator[RowBatch]:
        ids, rows = self._content()
        for start in range(0, len(ids), PIECE):
            some = slice(start, start + PIECE)
            yield RowBatch(ids[some], as_rows(rows[some]))

    def fingerprint(self) -> Any:
        ids, rows = self._content()
        found = hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=8)
        found.update(str(ids.tolist()).encode() if ids.dtype.kind == "T" else ids.tobytes())
        return {"shape": list(rows.shape), "digest": found.hexdigest()}

    def _content(self) -> tuple[Ids, NDArray[Any]]:
        frame = hasattr(self.rows, "columns") and hasattr(self.rows, "to_numpy")
        if frame:
            names = list(self.columns or (n for n in self.rows.columns if n != self.ids))
            missing = {*names, *([self.ids] if self.ids else [])} - set(self.rows.columns)
            if missing:
                raise InputError(f"{self.name} has no column {min(map(str, missing))!r}")
            rows = self.rows[names].to_numpy()
            ids = as_ids(self.rows[self.ids].to_numpy()) if self.ids else None
        else:
            rows, ids = to_numpy(self.rows), None
        if rows.ndim != 2:
            raise InputError(f"{self.name} has {rows.ndim} dimensions; rows have two")
        return self.first + np.arange(len(rows)) if ids is None else ids, rows


def partition_files(
    paths: str | Path | Sequence[str | Path],
    *,
    columns: str | Sequence[str] | None = None,
    ids: str | None = None,
    format: str | None = None,  # noqa: A002 - what users call it
    groups: int | None = None,
) -> list[FilePartition]:
    """List the partitions of files, folders and globs.

    Parameters
    ----------
    paths
        Files, folders and globs. Workers open the files by the same paths, made absolute.
    columns, ids, format
        As for `open_source`. Where columns have names, those of the first file count.
    groups : int, optional
        Row groups of a Parquet file that are a partition; by default a file is one.

    Returns
    -------
    list of FilePartition
        In the order in which a single reader would read them.

    Raises
    ------
    InputError
        If a path is a URL or standard input, which one reader reads, or a name has no format.
    StorageError
        If there is no such file, or the first cannot be read.
    """
    listed = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path in listed:
        if path == "-" or is_url(path):
            raise InputError(
                f"{redact_url(path)} cannot be partitioned: workers read files, so name files, "
                f"folders or globs that all of them see"
            )
    files = [n for path in listed for n in expand(path, lambda n: bool(format or format_of(n)))]
    if not files:
        raise InputError("paths is empty: name a file, a folder or a glob")
    whole = [str(Path(file).absolute()) for file in files]
    first = open_source(whole[0], columns=columns, ids=ids, format=format)
    assert isinstance(first, FileSource)
    schema = first.schema()
    names = schema.columns if schema else None
    if columns is not None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
    make = partial(FilePartition, columns=names, ids=ids, format=format)
    pieces = [(file, some) for file in whole for some in _groups(file, format, groups)]
    return [make(number, file, groups=some) for number, (file, some) in enumerate(pieces)]


def _groups(path: str, format: str | None, each: int | None) -> list[tuple[int, int] | None]:  # noqa: A002
    """The row groups of the partitions of a file."""
    known = format or format_of(path)
    if each is None or known != "parquet":
        if known not in FORMATS:
            raise InputError(
                f"the format of {path} is not known by its name: pass format, one of "
                f"{', '.join(FORMATS)}"
            )
        return [None]
    count, step = row_groups(path), as_count(each, "groups")
    return [(start, min(start + step, count)) for start in range(0, count, step)] or [None]


P = TypeVar("P", FilePartition, ArrayPartition)


def numbered(partitions: Sequence[P], counts: Sequence[int]) -> list[P]:
    """The partitions with the ids of their first rows, where rows are counted through all of them.

    counts: rows of each, good and bad.
    """
    starts = np.cumsum([0, *counts]).tolist()
    return [replace(one, first=start) for one, start in zip(partitions, starts, strict=False)]


class Survey:
    """What one pass over partitions finds; surveys merge, in any order, into that of all.

    Attributes
    ----------
    counts : dict of int to int
        Rows of each partition, good and bad, by its number.
    width : int
        Values per row; 0 as long as there is no row.
    text : bool, optional
        Whether ids are texts.
    by : str
        The partition that decided that.
    sample : Reservoir, optional
        A uniform sample of all good rows: those of the smallest keys, which were drawn by seed,
        partition and row. So a partition has its share in it by its size.
    """

    def __init__(
        self,
        counts: dict[int, int],
        width: int,
        text: bool | None,
        by: str,
        sample: Reservoir | None = None,
    ) -> None:
        self.counts, self.width, self.text, self.by = counts, width, text, by
        self.sample = sample

    def rows(self) -> NDArray[Any]:
        """The sample in the order of its keys, which is a random one: the same for any tree."""
        if self.sample is None:
            raise InputError("no partition has a row that can be used")
        state = self.sample.state()
        filled = min(self.sample.seen, self.sample.size)
        order = np.argsort(state["keys"][:filled], kind="stable")
        found: NDArray[Any] = to_numpy(state["rows"])[order]
        return found

    def merge(self, other: "Survey") -> Self:
        """Add another survey; what of it is here already counts once.

        Raises
        ------
        InputError
            If rows differ in their width, or ids in their kind.
        MergeError
            If only some of its partitions are here already.
        """
        known = self.counts.keys() & other.counts.keys()
        if known:
            _check_same_parts(known, other.counts.keys())
            return self
        check_alike(self, other)
        if self.sample is None:
            self.sample = other.sample
        elif other.sample is not None:
            self.sample.merge(other.sample)
        self.counts |= other.counts
        if not self.width:
            self.width, self.by = other.width, other.by
        self.text = other.text if self.text is None else self.text
        return self

    def state(self) -> dict[str, Any]:
        plain = {"counts": list(self.counts.items()), "width": self.width, "text": self.text}
        return {"plain": json.dumps(plain | {"by": self.by}), "sample": self.sample}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        plain = json.loads(state["plain"])
        counts = {int(number): int(count) for number, count in plain.pop("counts")}
        return cls(counts, **plain, sample=state["sample"])


register(Survey, model=True)


def check_alike(mine: Survey, theirs: Survey) -> None:
    """Refuse partitions whose rows differ in their width, or ids in their kind."""
    if mine.width and theirs.width and mine.width != theirs.width:
        raise InputError(
            f"{theirs.by} has rows of {theirs.width} numbers, and {mine.by} of {mine.width}: the "
            f"partitions of a data set must agree"
        )
    if None not in (mine.text, theirs.text) and mine.text != theirs.text:
        kinds = {True: "texts", False: "whole numbers"}
        raise InputError(
            f"{theirs.by} has ids that are {kinds[bool(theirs.text)]}, and {mine.by} "
            f"{kinds[bool(mine.text)]}: the partitions of a data set must agree"
        )


def _check_same_parts(known: Any, theirs: Any) -> None:
    if set(known) != set(theirs):
        new = sorted(set(theirs) - set(known))
        raise MergeError(
            f"partition {min(known)} is there already, and partition {new[0]} is not: partitions "
            f"are merged once, so merge what does not overlap"
        )


def survey(partition: Partition, size: int = 0, seed: int = 0) -> Survey:
    """Look at a partition: what it has, and a sample of its rows.

    Parameters
    ----------
    partition : Partition
    size : int, default 0
        Rows of the sample; 0 for none, and then rows are read only if they have to be counted.
    seed : int, default 0

    Returns
    -------
    Survey

    Raises
    ------
    InputError, StorageError
        If the partition cannot be read or has a bad row; the message names the partition.
    """
    with partition_errors(partition):
        count, width, text = partition.facts()
        by = f"partition {partition.number} ({partition.name})"
        if size == 0 and count is not None:
            return Survey({partition.number: count}, width, text, by)
        sample, count = None, 0
        for batch in good(partition):
            if size and sample is None and len(batch.rows):
                inputs = int(batch.rows.shape[1])
                keys = [seed, LANDMARKS, partition.number + 1]
                sample = Reservoir(size, batch.rows, inputs=inputs, seed=keys)
            if sample is not None:
                sample.update(batch.rows)
            count += len(batch.rows)
        return Survey({partition.number: count}, width, text, by, sample)


def good(partition: Partition) -> Iterator[RowBatch]:
    """The batches of a partition; its first bad row is an error."""
    for batch in partition.batches():
        if batch.rejects:
            where, reason, _ = batch.rejects[0]
            raise InputError(f"{where}: {reason}; mend the row or remove it")
        yield batch


@contextmanager
def partition_errors(partition: Partition) -> Iterator[None]:
    """Name the partition in what goes wrong with it."""
    try:
        yield
    except StreambitsError as error:
        if str(error).startswith("partition ") or isinstance(error, MissingExtraError):
            raise
        raise type(error)(f"partition {partition.number} ({partition.name}): {error}") from error
