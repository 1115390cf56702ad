"""Rows in lines of text: CSV and JSON lines, plain or gzip.

A block of lines is parsed at once, by pyarrow. If that fails, each line is parsed by itself, in
Python: a line is good or bad whatever comes before or after it, because all that pyarrow accepts
the parsers in Python accept too (but for JSON nested deeper than Python's limit).
"""

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from streambits._arrays import TEXT
from streambits.errors import StorageError
from streambits.io.bad_rows import BadRowError
from streambits.io.rows.arrow import arrow_rows
from streambits.io.rows.files import (
    REJECT_TEXT,
    At,
    Found,
    Layout,
    ReadOptions,
    file_errors,
    sift,
)
from streambits.io.rows.inputs import Input, ends_before, skip
from streambits.model.batches import Reject, RowBatch

PROBE = 64  # lines that are read at once to find a good one
LONGEST = 1 << 24  # bytes of a line; what has more is not text
TOGETHER = 1 << 25  # bytes of lines that are handed out together, or a little more
MARK = b"\xef\xbb\xbf"  # with which some editors begin UTF-8


class Line(NamedTuple):
    """A good line: values, id (0 if there are no ids), whether it removes the id, what to keep.

    One that removes its id has no values.
    """

    values: Sequence[float] = ()
    id: int | str = 0
    removed: bool = False
    kept: tuple[str | None, ...] = ()


class LineParser(Protocol):
    """Knows what a line means.

    header: the first line has names and is not a row; null_removes: a row that is null removes
    its id.
    """

    header: bool
    null_removes: bool

    def layout(self, lines: Sequence[bytes], text: bool | None = None) -> Layout | None:
        """The layout by the first line of the file, or by the first of these that is good.

        text: whether ids are texts, if that is known; otherwise the first good line says it, or
        if none is, the first that removes an id.
        """
        ...

    def table(self, lines: Sequence[bytes], layout: Layout) -> Any:
        """An Arrow table for `arrow_rows`, one row per line; a ValueError if a line is bad."""
        ...

    def row(self, line: bytes, layout: Layout | None) -> Line:
        """What one line says; BadRowError if it is bad."""
        ...


class TextReader:
    """A file of lines."""

    keys: tuple[str, ...] = ("byte", "line")
    kind: str

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options

    def parser(self, first: bytes) -> LineParser:
        """What parses the lines of a file with this first line."""
        raise NotImplementedError

    def length(self) -> int | None:
        return None

    def layout(self) -> Layout | None:
        if not self.source.seeks:
            return None
        with file_errors(self.path, self.kind):
            found: Layout | None = None
            for parser, block in self._blocks(None, PROBE):
                own = parser.layout(block.lines)
                found = own if own and (own.width or found is None) else found
                if self._is_settled(found):
                    break
            return found

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        with file_errors(self.path, self.kind):
            for parser, block in self._blocks(at, self._options.rows):
                if not self._is_settled(layout):
                    layout = parser.layout(block.lines, layout.text if layout else None) or layout
                if block.lines:
                    yield self._batch(parser, block, layout)

    def _is_settled(self, layout: Layout | None) -> bool:
        if layout is None or not layout.width:
            return False
        return self._options.ids is None or layout.text is not None

    def _blocks(self, at: At | None, most: int) -> Iterator[tuple[LineParser, "_Block"]]:
        with self.source.open() as stream:
            lines = _Lines(stream, self.source)
            block = lines.block(1 if at else most)
            if at:
                lines.skip(at)
            if block is None:
                return
            parser = self.parser(block.lines[0])
            if not at:
                first = int(parser.header)
                yield parser, _Block(block.lines[first:], block.numbers[first:], block.at)
            while block := lines.block(most):
                yield parser, block

    def _batch(self, parser: LineParser, block: "_Block", layout: Layout | None) -> RowBatch:
        found = parse_lines(parser, block.lines, layout, self._options)

        def reject(place: int) -> Reject:
            line = block.lines[place]
            text = line.decode("utf-8", "replace")[:REJECT_TEXT]
            return Reject(
                f"{self.path}:{block.numbers[place]}", _reason(parser, line, layout), text
            )

        return sift(found, block.at, reject)


def parse_lines(
    parser: LineParser, lines: Sequence[bytes], layout: Layout | None, options: ReadOptions
) -> Found:
    """What lines have; the rows are NaN where a line is bad."""
    if layout is None and options.ids is None:
        return Found(np.full((len(lines), 1), np.nan), payload=_nothing(lines, options))
    if layout is None or not layout.width or (options.ids is not None and layout.text is None):
        return _one_by_one(parser, lines, layout, options)
    try:
        table = parser.table(lines, layout)
        table.validate(full=True)
    except ValueError:  # pyarrow's ArrowInvalid is one
        table = None
    if table is None or table.num_rows != len(lines):
        return _one_by_one(parser, lines, layout, options)
    found = arrow_rows(table.combine_chunks().to_batches()[0], layout, options)
    return _with_nulls(parser, lines, layout, found) if parser.null_removes else found


def _one_by_one(
    parser: LineParser, lines: Sequence[bytes], layout: Layout | None, options: ReadOptions
) -> Found:
    rows = np.full((len(lines), layout.width or 1 if layout else 1), np.nan)
    text, removed = bool(layout and layout.text), np.zeros(len(lines), np.bool_)
    ids: list[int | str] = ["" if text else 0] * len(lines)
    payload = _nothing(lines, options)
    for place, line in enumerate(lines):
        with contextlib.suppress(BadRowError):
            found = parser.row(line, layout)
            removed[place], ids[place] = found.removed, found.id
            if not found.removed:
                rows[place] = found.values
            if payload is not None:
                payload[place] = found.kept
    if options.ids is None:
        return Found(rows, payload=payload)
    kind = TEXT if text else np.int64
    return Found(rows, np.array(ids, kind), None, removed if removed.any() else None, payload)


def _nothing(lines: Sequence[bytes], options: ReadOptions) -> Any:
    return np.full((len(lines), len(options.keep)), None) if options.keep else None


def _with_nulls(parser: LineParser, lines: Sequence[bytes], layout: Layout, found: Found) -> Found:
    """Mark rows that remove their id by being null, which a table does not tell from missing."""
    missing = np.isnan(found.rows[:, 0])
    if not missing.any():
        return found
    removed = np.zeros(len(lines), np.bool_) if found.removed is None else found.removed.copy()
    for place in np.flatnonzero(missing & ~removed).tolist():
        with contextlib.suppress(BadRowError):
            removed[place] = parser.row(lines[place], layout).removed
    return found._replace(removed=removed)


def _reason(parser: LineParser, line: bytes, layout: Layout | None) -> str:
    try:
        parser.row(line, layout)
    except BadRowError as error:
        return str(error)
    return "it cannot be read as numbers"


def joined(lines: Sequence[bytes]) -> bytes:
    """One text; a ValueError if it is not UTF-8."""
    data = b"\n".join(lines)
    if not data.isascii():
        data.decode()
    return data


class _Block(NamedTuple):
    """Lines that are not blank, without their ends; their numbers, from 1; where they end."""

    lines: list[bytes]
    numbers: Sequence[int]
    at: At


class _Lines:
    """The lines of a stream. What is read before an error is handed out before it is raised.

    Of a stream that comes slowly, those that are there are handed out.
    """

    def __init__(self, stream: BinaryIO, source: Input) -> None:
        self._stream, self._source = stream, source
        self._byte = self._line = 0
        self._error: StorageError | None = None

    def block(self, most: int) -> _Block | None:
        """The next lines, at most `most`; None at the end."""
        while lines := self._read(most):
            numbers: Sequence[int] = range(self._line + 1, self._line + len(lines) + 1)
            first = self._byte == 0
            self._byte += sum(map(len, lines))
            self._line += len(lines)
            if first:
                lines[0] = lines[0].removeprefix(MARK)
            lines = [line.rstrip(b"\r\n") for line in lines]
            if any(not line or line.isspace() for line in lines):
                good = [i for i, line in enumerate(lines) if line and not line.isspace()]
                lines, numbers = [lines[i] for i in good], [numbers[i] for i in good]
            if lines:
                return _Block(lines, numbers, {"byte": self._byte, "line": self._line})
        return None

    def skip(self, at: At) -> None:
        """Resume where a block ended."""
        where = f", line {at['line']}"
        if not self._source.seeks:
            skip(self._stream, at["byte"] - self._byte, self._source, where)
        else:
            self._stream.seek(at["byte"] - 1)
            if len(self._stream.read(1)) != 1:
                raise ends_before(self._source, where)
        self._byte, self._line = at["byte"], at["line"]

    def _read(self, most: int) -> list[bytes]:
        if self._error is not None:
            raise self._error
        lines: list[bytes] = []
        size = 0
        try:
            while len(lines) < most and size < TOGETHER and (not lines or self._source.ready()):
                line = self._stream.readline(LONGEST)
                if not line:
                    break
                lines.append(_whole(line))
                size += len(line)
        except (OSError, EOFError, zlib.error, OverflowError) as error:
            last, reason = self._line + len(lines), getattr(error, "strerror", None) or error
            self._error = StorageError(
                f"{self._source.name} cannot be read after line {last}: {reason}"
            )
            if not lines:
                raise self._error from error
        return lines


def _whole(line: bytes) -> bytes:
    if len(line) == LONGEST and not line.endswith(b"\n"):
        raise OverflowError(f"the next has more than {LONGEST} bytes: is this text?")
    return line
