"""Rows in lines of text: CSV and JSON lines, plain or gzip."""

import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple, Protocol

from streambits.errors import StorageError
from streambits.io.rows.files import (
    ParsedRows,
    Position,
    ReadOptions,
    RowSchema,
    file_errors,
    is_settled,
    split_rejects,
)
from streambits.io.rows.inputs import Input, ends_before
from streambits.model.batches import RowBatch

PROBE = 64  # lines that are read at once to find a good one
PIECE = 1 << 18  # bytes that are read at once
LONGEST = 1 << 24  # bytes of a line; what has more is not text
BLOCK = 1 << 25  # bytes of lines that are handed out together, or a little more
MARK = b"\xef\xbb\xbf"  # with which some editors begin UTF-8


class Block(NamedTuple):
    """Lines that are not blank, without their ends; their numbers, from 1; where they end."""

    lines: list[bytes]
    numbers: Sequence[int]
    at: Position


class LineParser(Protocol):
    """Knows what lines mean. header: whether the first line has names and is not a row."""

    header: bool

    def parse(
        self, lines: Sequence[bytes], schema: RowSchema | None
    ) -> tuple[ParsedRows, RowSchema | None]:
        """What lines have, and what is known of rows after them.

        What the schema does not say, the first good line does. A line is good or bad whatever
        other lines come after it.
        """
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

    def schema(self) -> RowSchema | None:
        if self.source.once:
            return None
        schema: RowSchema | None = None
        with file_errors(self.path, self.kind):
            for parser, block in self._blocks(None, PROBE):
                schema = parser.parse(block.lines, schema)[1]
                if is_settled(schema, self._options):
                    break
        return schema

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        with file_errors(self.path, self.kind):
            for parser, block in self._blocks(at, self._options.rows):
                parsed, schema = parser.parse(block.lines, schema)
                if not block.lines:
                    continue
                yield split_rejects(
                    parsed,
                    block.at,
                    lambda place, block=block: f"{self.path}:{block.numbers[place]}",  # type: ignore[misc]
                    lambda place, block=block: block.lines[place].decode("utf-8", "replace"),  # type: ignore[misc]
                )

    def _blocks(self, at: Position | None, most: int) -> Iterator[tuple[LineParser, Block]]:
        """Blocks of lines, and what parses them; the header is not one of the lines."""
        parser = None
        if at:
            first = next(line_blocks(self.source, None, 1), None)
            parser = first and self.parser(first.lines[0])
        for block in line_blocks(self.source, at, most):
            if parser is None:
                parser = self.parser(block.lines[0])
                if parser.header:
                    block = Block(block.lines[1:], block.numbers[1:], block.at)  # noqa: PLW2901
            yield parser, block


def line_blocks(source: Input, at: Position | None, most: int) -> Iterator[Block]:
    """The lines of a file, at most `most` at a time. Of a pipe, those that are there already.

    What was read before an error is handed out before it is raised.
    """
    byte, line = (at["byte"], at["line"]) if at else (0, 0)
    with source.open() as stream:
        if byte:
            stream.seek(byte - 1)
            if len(stream.read(1)) != 1:
                raise ends_before(source, f", line {line}")
        buffer = _LineBuffer(stream, source)
        while lines := buffer.take(most, line):
            numbers: Sequence[int] = range(line + 1, line + len(lines) + 1)
            first, byte = byte == 0, byte + sum(map(len, lines))
            line += len(lines)
            lines = [one.rstrip(b"\r\n") for one in lines]
            if first:
                lines[0] = lines[0].removeprefix(MARK)
            if any(not one or one.isspace() for one in lines):
                good = [i for i, one in enumerate(lines) if one and not one.isspace()]
                lines, numbers = [lines[i] for i in good], [numbers[i] for i in good]
            if lines:
                yield Block(lines, numbers, {"byte": byte, "line": line})


class _LineBuffer:
    """The lines of a stream with their ends, read a piece at a time."""

    def __init__(self, stream: BinaryIO, source: Input) -> None:
        self._stream, self._source = stream, source
        self._piece, self._lines, self._rest = bytearray(PIECE), list[bytes](), b""
        self._over = False
        self._error: Exception | None = None

    def take(self, most: int, line: int) -> list[bytes]:
        """The next lines, at most `most`; none at the end. line: how many were taken before."""
        size = sum(map(len, self._lines))
        while not self._over and len(self._lines) < most and size < BLOCK:
            if self._lines and self._source.once:
                break
            size += self._read()
        if self._error is not None and not self._lines:
            why = getattr(self._error, "strerror", None) or self._error
            message = f"{self._source.name} cannot be read after line {line}: {why}"
            raise StorageError(message) from self._error
        taken, self._lines = self._lines[:most], self._lines[most:]
        return taken

    def _read(self) -> int:
        try:
            count: int = self._stream.readinto(self._piece)  # type: ignore[attr-defined]
        except (OSError, EOFError, zlib.error) as error:
            self._error, self._over = error, True
            return 0
        *lines, self._rest = (self._rest + self._piece[:count]).split(b"\n")
        self._lines += [line + b"\n" for line in lines]
        if len(self._rest) > LONGEST:
            self._over = True
            self._error = OverflowError(f"the next has more than {LONGEST} bytes: is this text?")
        elif not count:
            self._over = True
            self._lines += [self._rest] if self._rest else []
        return count
