"""Files one after the other as one source."""

from collections.abc import Iterator, Sequence
from typing import Any

from streambits.errors import InputError, StreambitsError
from streambits.io.rows.handles import Print, before, change, fingerprint
from streambits.io.rows.parts import At, Layout, Options, Reader, reading
from streambits.io.rows.stdin import StandardInput
from streambits.model.batches import RowBatch


class Files:
    """A source of rows, a reader a file. The first file says how rows look; others must agree.

    Rows that have no ids of their own are numbered through all files, the bad ones too. An offset
    is {"file": which, "count": rows before, ...} and what the reader of the file needs; of standard
    input also a digest of all that was read.
    """

    def __init__(self, readers: Sequence[Reader], options: Options, kind: str | None) -> None:
        self._readers, self._options, self._kind = readers, options, kind
        self._prints: dict[int, Print | None] = {}  # of the files that were opened
        self.accepts_changes = False  # of files that were read before
        first, more = readers[0].handle.name, len(readers) - 1
        self.name = f"{first} and {more} more" if more else first

    @property
    def length(self) -> int | None:
        """Rows in all files, bad ones too; None if one of them does not say."""
        total = 0
        for reader in self._readers:
            try:
                count = reader.length()
            except StreambitsError:  # it will be raised when the file is read
                return None
            if count is None:
                return None
            total += count
        return total

    def identity(self) -> Any:
        """Names of the files, and the options that choose rows and ids."""
        columns = self._options.columns
        return {
            "files": [[reader.handle.name] for reader in self._readers],
            "format": self._kind,
            "columns": None if columns is None else list(columns),
            "ids": self._options.ids,
        }

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Chunks from the beginning or from an offset, a file after the other."""
        start, count, at = self._place(offset)
        first: Layout | None = None
        for number, reader in enumerate(self._readers):
            own = None if first is not None and number < start else reader.layout()
            first = first or own
            if number < start:
                continue
            self._note(number)
            for part in reader.parts(_agreed(first, own), at):
                ids = count + part.places if part.ids is None else part.ids
                count += part.total
                place: dict[str, Any] = {"file": number, "count": count, **part.at}
                if isinstance(reader.handle, StandardInput):
                    place["digest"] = reader.handle.digest()
                yield RowBatch(ids, part.rows, place, part.rejects)
            at = None

    def evidence(self, offset: Any) -> Any:
        """A JSON value by which `changes` tells whether what was read is still the same.

        For every file up to the offset its size and time, and digests of some windows of it, as
        they were when it was opened; for the last one also of what stands before the offset.
        """
        if offset is None or not self._readers[0].handle.seeks:
            return None
        last = offset["file"]
        found = [self._prints.get(number) for number in range(last + 1)]
        place = self._position(offset) if found[-1] else None
        if found[-1] and place is not None:
            digest = before(self._readers[last].handle.name, place)
            found[-1] = found[-1] | {"before": [place, digest] if digest else None}
        return found

    def changes(self, evidence: Any) -> list[str]:
        """Which of the files that were read have changed since, and in what; `evidence` of then.

        None if that was accepted. What the files are now is evidence from here on.
        """
        words = []
        for number, known in enumerate(evidence or ()):
            path = self._readers[number].handle.name
            with reading(path, "a file"):
                found = "" if known is None else change(path, known)
                self._prints[number] = fingerprint(path) if found else known
            if found and not self.accepts_changes:
                words.append(f"{path}: {found}")
        return words

    def _note(self, number: int) -> None:
        """Take the fingerprint of a file before it is read, unless it is known."""
        handle = self._readers[number].handle
        if number not in self._prints and handle.seeks:
            with reading(handle.name, "a file"):
                self._prints[number] = fingerprint(handle.name)

    def _position(self, offset: Any) -> int | None:
        """About where in its file an offset is, in bytes; None where nobody knows."""
        reader, size = self._readers[offset["file"]], (self._prints[offset["file"]] or {})["size"]
        if "byte" in offset:
            return int(offset["byte"]) if reader.handle.direct else None
        try:
            length = reader.length()
        except StreambitsError:  # it is gone or another one, which will be told by its fingerprint
            length = None
        return size * int(offset["row"]) // length if length else None

    def _place(self, offset: Any) -> tuple[int, int, At | None]:
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
            raise InputError(f"{offset!r} is no offset of {self.name}")
        if isinstance(reader.handle, StandardInput):
            reader.handle.expect(str(digest))
        return number, count, at


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
