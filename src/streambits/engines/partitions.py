"""Partitions: the pieces of a data set that workers read by themselves, and a sample of them all.

A partition has a number. Whatever is drawn at random in it depends on the seed, that number and the
place of a row, and on nothing else: not on which worker reads it, when, or how often. So the same
partitions give the same bits on any engine, and a task may be repeated as often as an engine likes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Ids, as_ids, as_rows, to_numpy
from streambits.errors import InputError, MissingExtraError, StorageError, StreambitsError
from streambits.io.rows import FORMATS, format_of, open_source
from streambits.io.rows.files import FileSource
from streambits.io.rows.inputs import expand
from streambits.io.urls import is_url, redact_url
from streambits.model.batches import RowBatch
from streambits.model.sampling import Reservoir
from streambits.storage import register

LANDMARKS = 3  # in the seed of the sample that landmarks are drawn from; learners draw by 1 and 2
PIECE = 65536  # rows of an array that are handed out together


@dataclass(frozen=True)
class FilePartition:
    """A file that the worker opens itself.

    Attributes
    ----------
    number : int
        From 0, in the order of the data set.
    path : str
        As the worker sees it.
    columns, ids, format
        As for `open_source`; rows are counted where ids have no name.
    first : int
        Id of the first row, where rows are counted.
    """

    number: int
    path: str
    columns: tuple[str, ...] | None = None
    ids: str | None = None
    format: str | None = None
    first: int = 0

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.path

    def batches(self) -> Iterator[RowBatch]:
        """Its rows in their order, in batches of bounded size."""
        for batch in self._source().read():
            if batch.removals is not None:
                raise InputError(
                    f"{self.name} removes ids, and partitions have no order in which a removal "
                    f"comes after its row: leave removals out, or use streambits online"
                )
            yield batch if self.ids else batch._replace(ids=self.first + batch.ids)

    def count(self) -> int:
        """Number of its rows, good and bad."""
        known = self._source().length
        if known is not None:
            return known
        return sum(len(batch.ids) + len(batch.rejects) for batch in self.batches())

    def version(self) -> Any:
        """A JSON value that changes with its content."""
        try:
            about = Path(self.path).stat()
        except OSError as error:
            raise StorageError(f"it cannot be read: {error.strerror or error}") from error
        columns = None if self.columns is None else list(self.columns)
        how = [self.path, columns, self.ids, self.format, self.first]
        return [*how, about.st_size, about.st_mtime_ns]

    def _source(self) -> FileSource:
        names = {"columns": self.columns, "ids": self.ids, "format": self.format}
        source = open_source(self.path, **names)  # type: ignore[arg-type]
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

    def batches(self) -> Iterator[RowBatch]:
        ids, rows = self._content()
        for start in range(0, len(ids), PIECE):
            some = slice(start, start + PIECE)
            yield RowBatch(ids[some], as_rows(rows[some]))

    def count(self) -> int:
        return len(self._content()[0])

    def version(self) -> None:
        """It is not known whether its content has changed."""

    def _content(self) -> tuple[Ids, NDArray[Any]]:
        if hasattr(self.rows, "columns") and hasattr(self.rows, "to_numpy"):
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


Partition = FilePartition | ArrayPartition  # what one worker reads from beginning to end


def partition_files(
    paths: str | Path | Sequence[str | Path],
    *,
    columns: str | Sequence[str] | None = None,
    ids: str | None = None,
    format: str | None = None,  # noqa: A002 - what users call it
) -> list[FilePartition]:
    """List the partitions of files, folders and globs: each file is one.

    Parameters
    ----------
    paths
        Files, folders and globs. Workers open the files by the same paths, made absolute.
    columns, ids, format
        As for `open_source`. Where columns have names, those of the first file count.

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
    for file in files:
        if (format or format_of(file)) not in FORMATS:
            raise InputError(
                f"the format of {file} is not known by its name: pass format, one of "
                f"{', '.join(FORMATS)}"
            )
    whole = [str(Path(file).absolute()) for file in files]
    if columns is None:
        first = open_source(whole[0], ids=ids, format=format)
        assert isinstance(first, FileSource)
        schema = first.schema()
        names = schema.columns if schema else None
    else:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
    make = partial(FilePartition, columns=names, ids=ids, format=format)
    return [make(number, file) for number, file in enumerate(whole)]


class Sample:
    """A uniform sample of the rows of some partitions; samples merge into that of all.

    Parameters
    ----------
    rows : Reservoir or None
        The rows of the smallest keys, which were drawn by seed, partition and place of a row. So a
        partition has its share in it by its size. None as long as there is no row.
    name : str
        The partition that decided about their width.
    """

    def __init__(self, rows: Reservoir | None, name: str) -> None:
        self._rows, self._name = rows, name

    @property
    def rows(self) -> NDArray[Any]:
        """The sample in the order of its keys, which is a random one: the same for any tree."""
        if self._rows is None:
            raise InputError("no partition has a row that can be used")
        state = self._rows.state()
        filled = min(self._rows.seen, self._rows.size)
        order = np.argsort(state["keys"][:filled], kind="stable")
        found: NDArray[Any] = to_numpy(state["rows"])[order]
        return found

    def merge(self, other: "Sample") -> Self:
        """Add the sample of other partitions.

        Raises
        ------
        InputError
            If rows differ in their width.
        """
        if self._rows is None:
            self._rows, self._name = other._rows, other._name
        elif other._rows is not None:
            mine, theirs = (int(one._rows.rows.shape[1]) for one in (self, other))  # type: ignore[union-attr]
            if mine != theirs:
                raise InputError(
                    f"{other._name} has rows of {theirs} numbers, and {self._name} of {mine}: the "
                    f"partitions of a data set must agree"
                )
            self._rows.merge(other._rows)
        return self

    def state(self) -> dict[str, Any]:
        return {"rows": self._rows, "name": self._name}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)


register(Sample, model=True)


def sample_partition(partition: Partition, size: int, seed: int = 0) -> Sample:
    """Draw a sample of the rows of a partition.

    Parameters
    ----------
    partition : Partition
    size : int
    seed : int, default 0

    Raises
    ------
    InputError, StorageError
        If the partition cannot be read or has a bad row; the message names the partition.
    """
    rows = None
    with partition_errors(partition):
        for batch in good(partition):
            if rows is None and len(batch.rows):
                keys = [seed, LANDMARKS, partition.number + 1]
                rows = Reservoir(size, batch.rows, inputs=int(batch.rows.shape[1]), seed=keys)
            if rows is not None:
                rows.update(batch.rows)
    return Sample(rows, f"partition {partition.number} ({partition.name})")


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
