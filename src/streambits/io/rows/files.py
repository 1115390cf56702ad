"""Files as a source of rows: what a reader of one format does, and the source made of readers.

A bad row is one with a value that is not finite: readers fill what they cannot use with NaN, and
`sift` takes it out, so there is one place where rows are refused.
"""

import functools
import glob
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LARGEST, as_rows
from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.bad_rows import why_bad
from streambits.io.rows.inputs import Fingerprint, Input, difference, digest_before, fingerprint
from streambits.model.batches import Reject, RowBatch

REJECT_TEXT = 200  # characters of a bad row that its reject shows
NOT_COORDINATES = ("id", "ids", "label", "labels", "target", "class")
At = dict[str, int]  # a place in a file


class ReadOptions(NamedTuple):
    """Which columns to read (None: the default), which column has ids, and rows per batch."""

    columns: tuple[str, ...] | None = None
    ids: str | None = None
    rows: int = 8192


class Layout(NamedTuple):
    """What a row is made of.

    width: values per row; path: the file that decided it; columns: their names, None where they
    have no names; listed: the values of a row are one list, not a column each.
    """

    width: int
    path: str
    columns: tuple[str, ...] | None = None
    listed: bool = False


class FileReader(Protocol):
    """Reads one file of one format. `keys` are the names in the offsets of its batches."""

    source: Input
    keys: tuple[str, ...]

    def length(self) -> int | None:
        """All rows, good and bad, where that is cheap to know."""
        ...

    def layout(self) -> Layout | None:
        """The layout by the head of the file or its first good row; None if there is neither."""
        ...

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        """The rows from the beginning, or from the offset of an earlier batch.

        Where there is no column of ids, the ids of a batch count its rows, bad ones too, from 0.
        """
        ...


class FileSource:
    """A source of rows that reads files one after the other.

    Parameters
    ----------
    readers
        One for each file. The first file decides what a row is made of; the others must agree.
    options
        What the readers were made with.
    format
        The format that was asked for; None if the names of the files decide.
    accept_changes
        Whether to resume even if files that were read before have changed since.

    Notes
    -----
    Rows without ids of their own are numbered through all files, bad ones too. An offset is
    {"file": number, "count": rows before, ...} with what the reader of the file needs, and for
    standard input a digest of all that was read.
    """

    def __init__(
        self,
        readers: Sequence[FileReader],
        options: ReadOptions,
        format: str | None,  # noqa: A002 - what users call it
        *,
        accept_changes: bool = False,
    ) -> None:
        self._readers, self._options, self._format = readers, options, format
        self._accept_changes = accept_changes
        self._fingerprints: dict[int, Fingerprint | None] = {}  # of the files that were opened
        first, more = readers[0].source.name, len(readers) - 1
        self.name = f"{first} and {more} more" if more else first

    @property
    def length(self) -> int | None:
        """Rows in all files, bad ones too; None if one of them does not say."""
        lengths = [_length(reader) for reader in self._readers]
        return None if None in lengths else sum(length or 0 for length in lengths)

    def identity(self) -> Any:
        """Names of the files, and the options that decide rows and ids."""
        columns = self._options.columns
        return {
            "files": [[reader.source.name] for reader in self._readers],
            "format": self._format,
            "columns": None if columns is None else list(columns),
            "ids": self._options.ids,
        }

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the beginning or from an offset, file by file."""
        start, count, at = self._located(offset)
        first: Layout | None = None
        for number, reader in enumerate(self._readers):
            own = None if first is not None and number < start else reader.layout()
            first = first or own
            if number < start:
                continue
            self._remember(number)
            for batch in reader.batches(_agreed(first, own), at):
                ids = count + batch.ids if self._options.ids is None else batch.ids
                count += len(batch.rows) + len(batch.rejects)
                place = {"file": number, "count": count, **batch.offset}
                digest = reader.source.digest()
                if digest is not None:
                    place["digest"] = digest
                yield RowBatch(ids, batch.rows, place, batch.rejects)
            at = None

    def evidence(self, offset: Any) -> Any:
        """A JSON value by which `changes` can tell whether the files are still the same.

        For every file up to the offset, its fingerprint when it was opened; for the last one also
        a digest of what comes before the offset.
        """
        if offset is None or not self._readers[0].source.seeks:
            return None
        last = offset["file"]
        found = [self._fingerprints.get(number) for number in range(last + 1)]
        place = self._position(offset) if found[-1] else None
        if found[-1] and place is not None:
            digest = digest_before(self._readers[last].source.name, place)
            found[-1] = found[-1] | {"before": [place, digest] if digest else None}
        return found

    def changes(self, evidence: Any) -> list[str]:
        """Which files differ from the `evidence` of an earlier run, and in what.

        Nothing if changes are accepted. What the files are now is the evidence from here on.
        """
        words = []
        for number, earlier in enumerate(evidence or ()):
            path = self._readers[number].source.name
            with file_errors(path, "a file"):
                found = "" if earlier is None else difference(path, earlier)
                self._fingerprints[number] = fingerprint(path) if found else earlier
            if found and not self._accept_changes:
                words.append(f"{path}: {found}")
        return words

    def _remember(self, number: int) -> None:
        """Take the fingerprint of a file before it is read, unless there is one."""
        source = self._readers[number].source
        if number not in self._fingerprints and source.seeks:
            with file_errors(source.name, "a file"):
                self._fingerprints[number] = fingerprint(source.name)

    def _position(self, offset: Any) -> int | None:
        """About where in its file an offset is, in bytes; None where nobody knows."""
        number = offset["file"]
        reader, size = self._readers[number], (self._fingerprints[number] or {})["size"]
        if "byte" in offset:
            return int(offset["byte"]) if reader.source.direct else None
        length = _length(reader)  # None if it is gone or another file: its fingerprint will tell
        return size * int(offset["row"]) // length if length else None

    def _located(self, offset: Any) -> tuple[int, int, At | None]:
        """File, rows before, and where in the file."""
        if offset is None:
            return 0, 0, None
        at = dict(offset) if isinstance(offset, dict) else {}
        number, count, digest = at.pop("file", -1), at.pop("count", -1), at.pop("digest", None)
        whole = all(type(value) is int and value >= 0 for value in (number, count, *at.values()))
        reader = self._readers[number] if whole and number < len(self._readers) else None
        length = reader and reader.length()
        far = length is not None and at.get("row", 0) > length
        if reader is None or far or set(at) != set(reader.keys):
            raise InputError(f"{offset!r} is not an offset of {self.name}")
        reader.source.expect(str(digest))
        return number, count, at


def _length(reader: FileReader) -> int | None:
    try:
        return reader.length()
    except StreambitsError:  # it will be raised when the file is read
        return None


def _agreed(first: Layout | None, own: Layout | None) -> Layout | None:
    """The layout of a file, with its columns in the order of the first file."""
    if first is None or own is None:
        return own
    if own.width != first.width:
        raise InputError(
            f"{own.path} has rows of {own.width} numbers, and {first.path} before it of "
            f"{first.width}: the files of a source must agree"
        )
    if first.columns is None or own.columns is None:
        return own
    missing = [name for name in first.columns if name not in own.columns]
    if missing:
        raise InputError(f"{own.path} has no column {missing[0]!r}, which {first.path} has")
    return own._replace(columns=first.columns)


def expand(path: str, has_format: Callable[[str], bool]) -> list[str]:
    """A file, the files of a folder and of those in it, or what a glob matches, in sorted order.

    In a folder, names that begin with a dot or an underscore are left out, and names of which
    `has_format` is false.
    """
    if Path(path).exists():
        return _files_in(path, has_format) if Path(path).is_dir() else [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        reason = "no file matches it" if glob.has_magic(path) else "it does not exist"
        raise StorageError(f"{path} cannot be read: {reason}")
    files: list[str] = []
    for match in found:
        files += _files_in(match, has_format) if Path(match).is_dir() else [match]
    return files


def _files_in(folder: str, has_format: Callable[[str], bool]) -> list[str]:
    try:
        files = sorted(str(file) for file in _visible(Path(folder)) if has_format(str(file)))
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}") from error
    if not files:
        raise StorageError(f"the folder {folder} has no files of a known format")
    return files


def _visible(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _visible(entry)
        else:
            yield entry


def sift(
    rows: NDArray[Any], ids: NDArray[np.int64] | None, at: At, reject: Callable[[int], Reject]
) -> RowBatch:
    """The rows that are finite; the others are rejects, which `reject` explains by their place."""
    limit = LARGEST if rows.dtype == np.float64 else np.inf
    ids = np.arange(len(rows)) if ids is None else ids
    if not rows.size or (rows.max() < limit and rows.min() > -limit):  # false for NaN
        return RowBatch(ids, np.ascontiguousarray(rows), at)
    good = (np.abs(rows) < limit).all(axis=1)
    rejects = tuple(reject(int(place)) for place in np.flatnonzero(~good))
    return RowBatch(ids[good], np.ascontiguousarray(rows[good]), at, rejects)


def sift_array(rows: NDArray[Any], ids: NDArray[np.int64] | None, row: int, where: str) -> RowBatch:
    """`sift` where all that can be wrong is a number. row: of the file, the first of these."""

    def reject(place: int) -> Reject:
        values = rows[place].tolist()
        return Reject(f"{where} {row + place}", why_bad(values), str(values)[:REJECT_TEXT])

    return sift(
        rows.astype(float_type(rows.dtype), copy=False), ids, {"row": row + len(rows)}, reject
    )


@functools.cache
def float_type(dtype: Any) -> np.dtype[Any]:
    """The precision that rows of this type get, by the rule of `as_rows`."""
    found: np.dtype[Any] = as_rows(np.zeros((1, 1), np.dtype(dtype).newbyteorder("="))).dtype
    return found


def refuse_names(path: str, options: ReadOptions) -> None:
    """For files whose columns have no names."""
    if options.columns is not None or options.ids is not None:
        raise InputError(f"{path} has no columns with names: leave out columns and ids")


def is_coordinate(name: str) -> bool:
    """Whether a column of this name may be a coordinate of the vectors."""
    return name.strip().lower() not in NOT_COORDINATES


def refuse_guess(names: Iterable[str], path: str) -> None:
    """Refuse to take a column of ids or labels for a coordinate only because it has numbers."""
    for name in names:
        if not is_coordinate(name):
            as_ids = f"pass ids={name!r} (--ids {name}) if it identifies rows, or "
            raise InputError(
                f"{path} has a column {name!r}, which by its name is not part of the vectors: "
                f"{as_ids if 'id' in name.lower() else ''}name the columns of the vectors with "
                f"columns=[...] (--columns)"
            )


class DamagedFileError(Exception):
    """What a parser says of a file that it cannot read, before `file_errors` adds the name."""


@contextmanager
def file_errors(path: str, kind: str, where: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turn what damaged files and their libraries raise into a StorageError that names the file.

    Anything else is a mistake of ours and comes through.
    """
    try:
        yield
    except StreambitsError:
        raise
    except FileNotFoundError as error:
        raise StorageError(f"{path} does not exist") from error
    except Exception as error:
        if not isinstance(error, _damage()):
            raise
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise StorageError(f"{path} cannot be read as {kind}{where()}: {reason}") from error


def _damage() -> tuple[type[Exception], ...]:
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and not needed by every format

    packed = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
    return (OSError, UnicodeError, DamagedFileError, pa.ArrowException, *packed)
