"""Files as a source of rows: what a reader of one format does, and the source made of readers.

A bad row is one with a value that is not finite: readers fill what they cannot use with NaN, and
`split_rejects` takes it out, so there is one place where rows are refused.
"""

import functools
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LARGEST, NOT_COORDINATES, Ids, as_rows
from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.bad_rows import why_bad
from streambits.io.rows.inputs import Fingerprint, Input, difference, digest_before, fingerprint
from streambits.model.batches import Reject, Removals, RowBatch

REJECT_TEXT = 200  # characters of a bad row that its reject shows
ID_NAMES = ("id", "ids")
COMPARE_BY_TIME = 1000  # of more files, those of the same size and time are not opened
Position = dict[str, int]  # a place in a file
Mask = NDArray[np.bool_]


class ReadOptions(NamedTuple):
    """What to read.

    columns: those of the vectors, None for the default; ids: the column that has them; rows: per
    batch; removed: the column that says that a row removes its id; keep: further columns.
    """

    columns: tuple[str, ...] | None = None
    ids: str | None = None
    rows: int = 8192
    removed: str | None = None
    keep: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """Columns that are not coordinates, in the order in which tables have them: ids last."""
        return (*self.keep, *(name for name in (self.removed, self.ids) if name is not None))


class RowSchema(NamedTuple):
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


class ParsedRows(NamedTuple):
    """What was read, before good and bad rows are told apart: one entry of each per row.

    Values that cannot be used are NaN. ids: None to count; bad: whether something but the values
    is wrong; removed: whether the row removes its id; payload: the columns to keep; why: what is
    wrong with the row at a place, if that cannot be told from its numbers.
    """

    rows: NDArray[Any]
    ids: Ids | None = None
    bad: Mask | None = None
    removed: Mask | None = None
    payload: NDArray[np.object_] | None = None
    why: Callable[[int], str | None] = lambda _: None


class FileReader(Protocol):
    """Reads one file of one format. `keys` are the names in the offsets of its batches."""

    source: Input
    keys: tuple[str, ...]

    def length(self) -> int | None:
        """All rows, good and bad, where that is cheap to know."""
        ...

    def schema(self) -> RowSchema | None:
        """The schema by the head of the file or its first good row; None if there is neither."""
        ...

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
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
    {"file": number, "count": rows before, ...} with what the reader of the file needs. Standard
    input cannot be read from an offset.

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
        total = 0
        for reader in self._readers:
            length = _length(reader)
            if length is None:
                return None
            total += length
        return total

    def schema(self) -> RowSchema | None:
        """What a row is made of, by the first file that says it; None if there is no good row."""
        first: RowSchema | None = None
        for reader in self._readers:
            first = _combined(first, reader.schema())
            if is_settled(first, self._options):
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

    def __iter__(self) -> Iterator[RowBatch]:
        return self.read()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the beginning or from an offset, file by file."""
        start, count, at = self._located(offset)
        first: RowSchema | None = None
        for number, reader in enumerate(self._readers):
            needed = number >= start or not is_settled(first, self._options)
            own = reader.schema() if needed else None
            first = _combined(first, own)
            if number < start:
                continue
            self._remember(number)
            for batch in reader.batches(_agreed(first, own), at):
                ids = count + batch.ids if self._options.ids is None else batch.ids
                removed = 0 if batch.removals is None else len(batch.removals.ids)
                count += len(batch.rows) + len(batch.rejects) + removed
                yield batch._replace(
                    ids=ids, offset={"file": number, "count": count, **batch.offset}
                )
            at = None

    def evidence(self, offset: Any) -> Any:
        """A JSON value by which `changes` can tell whether the files are still the same.

        For every file up to the offset, its fingerprint when it was opened; for the last one also
        a digest of what comes before the offset.
        """
        if offset is None or self._readers[0].source.once:
            return None
        last = offset["file"]
        found = [self._evidence(number) for number in range(last + 1)]
        place = self._byte(offset) if "size" in found[-1] else None
        if place is not None:
            before = digest_before(self._readers[last].source, place)
            found[-1]["before"] = [place, before] if before else None
        return found

    def _evidence(self, number: int) -> Fingerprint:
        return {"path": self._readers[number].source.name} | (self._fingerprints.get(number) or {})

    def changes(self, evidence: Any) -> list[str]:
        """Which files differ from the `evidence` of an earlier run, and in what.

        Nothing if changes are accepted. What the files are now is the evidence from here on, and
        those that were read come first from here on.
        """
        known = list(evidence or ())
        self._reorder([earlier["path"] for earlier in known])
        words = []
        for number, earlier in enumerate(known):
            quick = COMPARE_BY_TIME < len(known) > number + 1
            found = self._difference(number, earlier, quick=quick)
            if found and not self._accept_changes:
                words.append(f"{earlier['path']}: {found}")
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
        reader, source = self._readers[number], self._readers[number].source
        if isinstance(reader, _Gone):
            self._fingerprints[number] = None
            return "it was read before, and is not there any more" if "size" in earlier else ""
        with file_errors(source.name, "a file"):
            found = difference(source, earlier, quick=quick) if "size" in earlier else ""
            self._fingerprints[number] = fingerprint(source) if found else earlier
        return found

    def _remember(self, number: int) -> None:
        """Take the fingerprint of a file before it is read, unless there is one."""
        source = self._readers[number].source
        if number not in self._fingerprints:
            with file_errors(source.name, "a file"):
                self._fingerprints[number] = fingerprint(source)

    def _byte(self, offset: Any) -> int | None:
        """About where in its file an offset is, in bytes; None where nobody knows."""
        number = offset["file"]
        reader, size = self._readers[number], (self._fingerprints[number] or {})["size"]
        if "byte" in offset:
            return int(offset["byte"]) if reader.source.seekable else None
        length = _length(reader)  # None if it is gone or another file: its fingerprint will tell
        return size * int(offset["row"]) // length if length else None

    def _located(self, offset: Any) -> tuple[int, int, Position | None]:
        """File, rows before, and where in the file."""
        if offset is None:
            return 0, 0, None
        if self._readers[0].source.once:
            raise StorageError(
                f"{self.name} is read once, and some of it was read before: it cannot be resumed. "
                f"Write the rows to a file, or choose another folder (with --from and the folder "
                f"of this job to continue learning from it)"
            )
        at = dict(offset) if isinstance(offset, dict) else {}
        number, count = at.pop("file", -1), at.pop("count", -1)
        whole = all(type(value) is int and value >= 0 for value in (number, count, *at.values()))
        reader = self._readers[number] if whole and number < len(self._readers) else None
        if isinstance(reader, _Gone):
            return number, count, None
        length = reader and reader.length()
        far = length is not None and at.get("row", 0) > length
        if reader is None or far or set(at) != set(reader.keys):
            raise InputError(f"{offset!r} is not an offset of {self.name}")
        return number, count, at


class _Gone:
    """A file that was read before and is not there any more, which the user accepts."""

    keys: tuple[str, ...] = ()

    def __init__(self, path: str) -> None:
        self.source = Input(path)

    def length(self) -> int | None:
        return None

    def schema(self) -> RowSchema | None:
        return None

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        del schema, at
        return iter(())


def _length(reader: FileReader) -> int | None:
    try:
        return reader.length()
    except StreambitsError:  # it will be raised when the file is read
        return None


def is_settled(schema: RowSchema | None, options: ReadOptions) -> bool:
    """Whether all is known that the first file, or the first row that is good, decides."""
    return bool(schema and schema.width and (options.ids is None or schema.text is not None))


def _combined(first: RowSchema | None, own: RowSchema | None) -> RowSchema | None:
    """What is known after one more file: what came first decides."""
    if first is None or own is None:
        return first or own
    text = own.text if first.text is None else first.text
    return (first if first.width else own)._replace(text=text)


def _agreed(first: RowSchema | None, own: RowSchema | None) -> RowSchema | None:
    """The schema of a file, with its columns in the order of the first file."""
    if first is None:
        return own
    if own is None or not own.width:
        return RowSchema(0, first.path, text=first.text)
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


def split_rejects(
    parsed: ParsedRows,
    offset: Position,
    where: Callable[[int], str],
    text: Callable[[int], str],
) -> RowBatch:
    """The rows that are finite, and the ids that others remove; the rest are rejects.

    where, text: the place and the beginning of the row at a place of these.
    """
    rows, _, bad, removed, payload, why = parsed
    limit = LARGEST if rows.dtype == np.float64 else np.inf
    ids = np.arange(len(rows)) if parsed.ids is None else parsed.ids
    plain = bad is None and (removed is None or not removed.any())
    if plain and (not rows.size or (rows.max() < limit and rows.min() > -limit)):  # false for NaN
        return RowBatch(ids, np.ascontiguousarray(rows), offset, payload=payload)
    usable = np.ones(len(rows), np.bool_) if bad is None else ~bad
    good, gone = usable & (np.abs(rows) < limit).all(axis=1), None
    if removed is not None and removed.any():
        good, gone = good & ~removed, usable & removed
    rejects = tuple(
        Reject(where(at), why(at) or why_bad(rows[at].tolist()), text(at)[:REJECT_TEXT])
        for at in np.flatnonzero(~good if gone is None else ~(good | gone)).tolist()
    )
    removals = None
    if gone is not None and gone.any():
        removals = Removals(ids[gone], np.cumsum(good, dtype=np.int64)[gone])
    kept = None if payload is None else payload[good]
    return RowBatch(ids[good], np.ascontiguousarray(rows[good]), offset, rejects, removals, kept)


def kept_text(value: Any) -> str | None:
    """A value to be kept, as text: a text as it is, nothing for null, anything else as JSON.

    >>> kept_text("a"), kept_text(None), kept_text({"a": [1, True]})
    ('a', None, '{"a": [1, true]}')
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace").decode()  # half characters fit into no file


def payload_of(columns: Sequence[Sequence[str | None]], count: int) -> NDArray[np.object_]:
    """Columns of so many texts, side by side."""
    payload = np.empty((count, len(columns)), np.object_)
    for place, column in enumerate(columns):
        payload[:, place] = column
    return payload


@functools.cache
def float_type(dtype: Any) -> np.dtype[Any]:
    """The precision that rows of this type get, by the rule of `as_rows`."""
    found: np.dtype[Any] = as_rows(np.zeros((1, 1), np.dtype(dtype).newbyteorder("="))).dtype
    return found


def refuse_guess(
    path: str, names: Iterable[str], coordinates: Iterable[str], options: ReadOptions
) -> None:
    """Refuse to guess what a column of ids or labels is for.

    names: of all columns; coordinates: of those that are taken for the vectors by default.
    """
    if options.columns is not None:
        return
    coordinates = [name for name in coordinates if name.strip().lower() in NOT_COORDINATES]
    unused = [] if options.ids else [n for n in names if n.strip().lower() in ID_NAMES]
    unused = [name for name in unused if name not in options.others]
    for name in (*coordinates, *unused):
        is_id = "id" in name.lower()
        flags = f"--ids {name}; of rows to rank by, --set rerank_ids={name}"
        remedy = f"pass ids={name!r} ({flags}) if it identifies rows, or " if is_id else ""
        raise InputError(
            f"{path} has a column {name!r}, which by its name is not part of the vectors: {remedy}"
            f"name the columns of the vectors with columns=[...] (--columns)"
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
