"""Files as a source of rows: what a reader of one format does, and the source made of readers.

A bad row is one with a value that is not finite: readers fill what they cannot use with NaN, and
`sift` takes it out, so there is one place where rows are refused.
"""

import functools
import glob
import itertools
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LARGEST, NOT_COORDINATES, Ids, as_rows
from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.bad_rows import why_bad
from streambits.io.rows.inputs import (
    DiskFile,
    Fingerprint,
    Input,
    difference,
    digest_before,
    fingerprint,
)
from streambits.model.batches import Reject, Removals, RowBatch

REJECT_TEXT = 200  # characters of a bad row that its reject shows
MANY = 1000  # files; of more, those of the same size and time are not opened to compare them
At = dict[str, int]  # a place in a file
Mask = NDArray[np.bool_]


class ReadOptions(NamedTuple):
    """What to read.

    columns: those of the vectors, None for the default; ids: the column that has them; rows: per
    batch; removed: the column that says that a row removes its id; keep: further columns; groups:
    of a Parquet file, the first row group to read and the one to stop before.
    """

    columns: tuple[str, ...] | None = None
    ids: str | None = None
    rows: int = 8192
    removed: str | None = None
    keep: tuple[str, ...] = ()
    groups: tuple[int, int] | None = None

    @property
    def others(self) -> tuple[str, ...]:
        """Columns that are not coordinates, in the order in which tables have them: ids last."""
        return (*self.keep, *(name for name in (self.removed, self.ids) if name is not None))


class Layout(NamedTuple):
    """What a row is made of.

    width: values per row, 0 as long as no row is good; path: the file that decided it; columns:
    their names, None where they have no names; listed: the values of a row are one list, not a
    column each; text: whether ids are texts, None as long as there is none.
    """

    width: int
    path: str
    columns: tuple[str, ...] | None = None
    listed: bool = False
    text: bool | None = None


class Found(NamedTuple):
    """What was read, before good and bad rows are told apart: one entry of each per row.

    Values that cannot be used are NaN. ids: None to count; bad: whether something but the values
    is wrong; removed: whether the row removes its id; payload: the columns to keep.
    """

    rows: NDArray[Any]
    ids: Ids | None = None
    bad: Mask | None = None
    removed: Mask | None = None
    payload: NDArray[np.object_] | None = None


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
        One for each file. The first file decides what a row is made of, and its first good row
        whether ids are texts; the others must agree.
    options
        What the readers were made with.
    format
        The format that was asked for; None if the names of the files decide.
    typed
        What the user called the files: the first file, folder or glob.
    accept_changes
        Whether to resume even if files that were read before have changed since.

    Notes
    -----
    Rows without ids of their own are numbered through all files, bad ones too. An offset is
    {"file": number, "count": rows before, ...} with what the reader of the file needs, and for
    standard input a digest of all that was read, and "text": true where ids are texts.

    Files may come to a folder, glob or list between two runs. The names of those that were read
    are in the evidence: once `changes` has seen it, these come first, in the order in which they
    were read, whatever the names of the new ones.
    """

    def __init__(
        self,
        readers: Sequence[FileReader],
        options: ReadOptions,
        format: str | None,  # noqa: A002 - what users call it
        typed: str | None = None,
        *,
        accept_changes: bool = False,
    ) -> None:
        self._readers, self._options, self._format = list(readers), options, format
        self._accept_changes = accept_changes
        self._fingerprints: dict[int, Fingerprint | None] = {}  # of the files that were opened
        first, more = readers[0].source.name, len(readers) - 1
        self._typed = typed or first
        self.name = f"{first} and {more} more" if more else first

    @property
    def length(self) -> int | None:
        """Rows in all files, bad ones too; None if one of them does not say."""
        lengths = [_length(reader) for reader in self._readers]
        return None if None in lengths else sum(length or 0 for length in lengths)

    def layout(self) -> Layout | None:
        """What a row is made of, by the first file that says it; None if there is no good row."""
        first: Layout | None = None
        for reader in self._readers:
            first = _first(first, reader.layout())
            if self._settled(first):
                break
        return first

    def identity(self) -> Any:
        """Where the files are, and the options that decide rows and ids.

        Not the names of all: files may be added. Those that were read are in the evidence.
        """
        columns, removed, keep = self._options.columns, self._options.removed, self._options.keep
        return {
            "files": [[self._typed]],
            "format": self._format,
            "columns": None if columns is None else list(columns),
            "ids": self._options.ids,
            **({} if removed is None else {"removed": removed}),
            **({"keep": list(keep)} if keep else {}),
        }

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the beginning or from an offset, file by file."""
        start, count, at, first = self._located(offset)
        text = None if first is None else first.text
        for number, reader in enumerate(self._readers):
            own = reader.layout() if number >= start or not self._settled(first) else None
            first = _first(first, own)
            if number < start:
                continue
            self._remember(number)
            for batch in reader.batches(_agreed(first, own), at):
                ids = count + batch.ids if self._options.ids is None else batch.ids
                removed = 0 if batch.removals is None else len(batch.removals.ids)
                count += len(batch.rows) + len(batch.rejects) + removed
                text = batch.ids.dtype.kind == "T" if len(batch.rows) + removed else text
                place = {"file": number, "count": count, **batch.offset}
                yield batch._replace(ids=ids, offset=place | self._forward_only(reader, text))
            at = None

    def evidence(self, offset: Any) -> Any:
        """A JSON value by which `changes` can tell whether the files are still the same.

        For every file up to the offset, its fingerprint when it was opened; for the last one also
        a digest of what comes before the offset.
        """
        if offset is None or not self._readers[0].source.seeks:
            return None
        last = offset["file"]
        found = [self._evidence(number) for number in range(last + 1)]
        place = self._position(offset) if "size" in found[-1] else None
        if place is not None:
            digest = digest_before(self._readers[last].source.name, place)
            found[-1]["before"] = [place, digest] if digest else None
        return found

    def _evidence(self, number: int) -> Fingerprint:
        known = self._fingerprints.get(number) or {}
        return {"path": self._readers[number].source.name} | known

    def changes(self, evidence: Any) -> list[str]:
        """Which files differ from the `evidence` of an earlier run, and in what.

        Nothing if changes are accepted. What the files are now is the evidence from here on, and
        those that were read come first from here on.
        """
        known = [earlier or {} for earlier in evidence or ()]
        names = [reader.source.name for reader in self._readers]
        paths = [str(earlier.get("path", name)) for earlier, name in _beside(known, names)]
        self._reorder(paths)
        words = []
        for number, (path, earlier) in enumerate(zip(paths, known, strict=True)):
            found = self._difference(number, earlier, quick=MANY < len(known) > number + 1)
            if found and not self._accept_changes:
                words.append(f"{path}: {found}")
        return words

    def _reorder(self, paths: Sequence[str]) -> None:
        """Put the files that were read first; for one that is gone there is a reader of nothing."""
        waiting: dict[str, list[FileReader]] = {}
        for reader in reversed(self._readers):
            waiting.setdefault(reader.source.name, []).append(reader)
        begun = [waiting[path].pop() if waiting.get(path) else _Gone(path) for path in paths]
        rest = {id(reader) for readers in waiting.values() for reader in readers}
        self._readers = [*begun, *(reader for reader in self._readers if id(reader) in rest)]
        self._fingerprints.clear()

    def _difference(self, number: int, earlier: Fingerprint, *, quick: bool) -> str:
        reader, path = self._readers[number], self._readers[number].source.name
        if isinstance(reader, _Gone):
            self._fingerprints[number] = None
            return "it was read before, and is not there any more" if "size" in earlier else ""
        with file_errors(path, "a file"):
            found = difference(path, earlier, quick=quick) if "size" in earlier else ""
            self._fingerprints[number] = fingerprint(path) if found else earlier
        return found

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

    def _settled(self, first: Layout | None) -> bool:
        """Whether all is known that the first file, or the first row that is good, decides."""
        return bool(first and first.width and (self._options.ids is None or first.text is not None))

    def _forward_only(self, reader: FileReader, text: bool | None) -> dict[str, Any]:
        """What an offset has besides, of an input whose beginning cannot be looked at again."""
        digest = reader.source.digest()
        if digest is None:
            return {}
        kind = {} if self._options.ids is None or text is False else {"text": text}
        return {"digest": digest, **kind}

    def _located(self, offset: Any) -> tuple[int, int, At | None, Layout | None]:
        """File, rows before, where in the file, and what the offset says of ids."""
        if offset is None:
            return 0, 0, None, None
        at = dict(offset) if isinstance(offset, dict) else {}
        number, count, digest = at.pop("file", -1), at.pop("count", -1), at.pop("digest", None)
        text = at.pop("text", False)
        whole = all(type(value) is int and value >= 0 for value in (number, count, *at.values()))
        reader = self._readers[number] if whole and number < len(self._readers) else None
        if isinstance(reader, _Gone):
            return number, count, None, None
        length = reader and reader.length()
        far = length is not None and at.get("row", 0) > length
        kind = text is None or type(text) is bool
        if reader is None or far or not kind or set(at) != set(reader.keys):
            raise InputError(f"{offset!r} is not an offset of {self.name}")
        reader.source.expect(str(digest))
        if reader.source.seeks or self._options.ids is None:
            return number, count, at, None
        return number, count, at, Layout(0, reader.source.name, text=text)


class _Gone:
    """A file that was read before and is not there any more, which the user accepts."""

    keys: tuple[str, ...] = ()

    def __init__(self, path: str) -> None:
        self.source: Input = DiskFile(path)

    def length(self) -> int | None:
        return None

    def layout(self) -> Layout | None:
        return None

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        del layout, at
        return iter(())


def _beside(known: list[Fingerprint], names: list[str]) -> Iterator[tuple[Fingerprint, str]]:
    """Evidence and the files in their order, for evidence from before it had their names."""
    return zip(known, itertools.chain(names, itertools.repeat("")), strict=False)


def _length(reader: FileReader) -> int | None:
    try:
        return reader.length()
    except StreambitsError:  # it will be raised when the file is read
        return None


def _first(first: Layout | None, own: Layout | None) -> Layout | None:
    """What is known after one more file: what came first decides."""
    if first is None or own is None:
        return first or own
    text = own.text if first.text is None else first.text
    return (first if first.width else own)._replace(text=text)


def _agreed(first: Layout | None, own: Layout | None) -> Layout | None:
    """The layout of a file, with its columns in the order of the first file."""
    if first is None:
        return own
    if own is None or not own.width:
        return (
            None if first.text is None else (own or Layout(0, first.path))._replace(text=first.text)
        )
    own = own._replace(text=first.text)
    if first.width and own.width != first.width:
        raise InputError(
            f"{own.path} has rows of {own.width} numbers, and {first.path} before it of "
            f"{first.width}: the files of a source must agree"
        )
    if not first.width or first.columns is None or own.columns is None:
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


def sift(found: Found, at: At, reject: Callable[[int], Reject]) -> RowBatch:
    """The rows that are finite, and the ids that others remove.

    The rest are rejects, which `reject` explains by their place.
    """
    rows, _, bad, removed, payload = found
    limit = LARGEST if rows.dtype == np.float64 else np.inf
    ids = np.arange(len(rows)) if found.ids is None else found.ids
    plain = bad is None and (removed is None or not removed.any())
    if plain and (not rows.size or (rows.max() < limit and rows.min() > -limit)):  # false for NaN
        return RowBatch(ids, np.ascontiguousarray(rows), at, payload=payload)
    usable = np.ones(len(rows), np.bool_) if bad is None else ~bad
    good, gone = usable & (np.abs(rows) < limit).all(axis=1), None
    if removed is not None:
        good, gone = good & ~removed, usable & removed
    wrong = ~good if gone is None else ~(good | gone)
    rejects = tuple(reject(int(place)) for place in np.flatnonzero(wrong))
    kept = None if payload is None else payload[good]
    rows = np.ascontiguousarray(rows[good])
    return RowBatch(ids[good], rows, at, rejects, _removals(ids, good, gone), kept)


def _removals(ids: Ids, good: Mask, gone: Mask | None) -> Removals | None:
    if gone is None or not gone.any():
        return None
    return Removals(ids[gone], np.cumsum(good, dtype=np.int64)[gone])


def sift_array(
    rows: NDArray[Any],
    row: int,
    where: str,
    ids: Ids | None = None,
    why: Callable[[int], str] | None = None,
) -> RowBatch:
    """`sift` where all that can be wrong is a number, or an id.

    row: of the file, the first of these; why: what is wrong with the id at a place, if one may be.
    """

    def reject(place: int) -> Reject:
        values = rows[place].tolist()
        reason = (why(place) if why else "") or why_bad(values)
        return Reject(f"{where} {row + place}", reason, str(values)[:REJECT_TEXT])

    bad = None if why is None else np.array([bool(why(i)) for i in range(len(rows))], np.bool_)
    numbers = rows.astype(float_type(rows.dtype), copy=False)
    return sift(Found(numbers, ids, bad), {"row": row + len(rows)}, reject)


def kept_text(value: Any) -> str | None:
    """A value to be kept, as text: a text as it is, nothing for null, anything else as JSON.

    >>> kept_text("a"), kept_text(None), kept_text({"a": [1, True]})
    ('a', None, '{"a": [1, true]}')
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace").decode()  # half characters fit into no file


@functools.cache
def float_type(dtype: Any) -> np.dtype[Any]:
    """The precision that rows of this type get, by the rule of `as_rows`."""
    found: np.dtype[Any] = as_rows(np.zeros((1, 1), np.dtype(dtype).newbyteorder("="))).dtype
    return found


def refuse_names(path: str, options: ReadOptions) -> None:
    """For files whose columns have no names."""
    if options.columns is not None or options.others:
        raise InputError(
            f"{path} has no columns with names: leave out columns, ids, removed and keep"
        )


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
