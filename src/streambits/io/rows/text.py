"""Rows in lines of text. What a line means is known by a parser: one for CSV, one for JSON.

A block of lines is parsed at once, by pyarrow. If that fails, lines with a fault are taken out and
the others parsed again, in halves if need be: a line is good or bad by itself, whatever stands
beside it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from streambits.io.rows.handles import Handle
from streambits.io.rows.lines import Block, Lines
from streambits.io.rows.parts import TEXT, At, Layout, Options, Part, reading, sift
from streambits.io.rows.tables import Taken, take
from streambits.model.batches import Reject

LOOK = 64  # lines at a time, to find one that is good


class Parser(Protocol):
    """header: whether the first line has names, and is no row."""

    header: bool

    def layout(self, lines: Sequence[bytes]) -> Layout | None:
        """By the first line of the file, or by the first of these that has no fault."""
        ...

    def table(self, lines: Sequence[bytes], layout: Layout) -> Any:
        """An Arrow table as `tables` wants it, a row a line; a ValueError if a line is bad."""
        ...

    def fault(self, line: bytes, layout: Layout | None) -> str:
        """What is wrong with a line. A good line has no fault; a bad one nearly always has."""
        ...


class Text:
    """A file of lines."""

    keys: tuple[str, ...] = ("byte", "line")
    kind: str

    def __init__(self, handle: Handle, options: Options) -> None:
        self.path, self.handle, self._options = handle.name, handle, options

    def parser(self, first: bytes) -> Parser:
        """What understands the lines, by the first of them."""
        raise NotImplementedError

    def length(self) -> int | None:
        return None

    def layout(self) -> Layout | None:
        if not self.handle.seeks:
            return None
        with reading(self.path, self.kind):
            found = (parser.layout(block.lines) for parser, block in self._blocks(None, LOOK))
            return next((layout for layout in found if layout is not None), None)

    def parts(self, layout: Layout | None, at: At | None) -> Iterator[Part]:
        with reading(self.path, self.kind):
            for parser, block in self._blocks(at, self._options.rows):
                layout = layout or parser.layout(block.lines)
                if block.lines:
                    yield self._part(parser, block, layout)

    def _blocks(self, at: At | None, most: int) -> Iterator[tuple[Parser, Block]]:
        with self.handle.open() as stream:
            lines = Lines(stream, self.handle)
            block = lines.block(1 if at else most)
            if at:
                lines.skip(at)
            if block is None:
                return
            parser = self.parser(block.lines[0])
            if not at:
                first = int(parser.header)
                yield parser, Block(block.lines[first:], block.numbers[first:], block.at)
            while block := lines.block(most):
                yield parser, block

    def _part(self, parser: Parser, block: Block, layout: Layout | None) -> Part:
        rows, ids = parse(parser, block.lines, layout, self._options.ids is not None)

        def reject(place: int) -> Reject:
            line = block.lines[place]
            reason = parser.fault(line, layout) or "it cannot be read as numbers"
            text = line.decode("utf-8", "replace")[:TEXT]
            return Reject(f"{self.path}:{block.numbers[place]}", reason, text)

        return sift(rows, ids, block.at, reject)


def joined(lines: Sequence[bytes]) -> bytes:
    """One text; a ValueError if it is not UTF-8."""
    data = b"\n".join(lines)
    if not data.isascii():
        data.decode()
    return data


def parse(parser: Parser, lines: Sequence[bytes], layout: Layout | None, ids: bool) -> Taken:
    """Rows, filled with NaN where a line is bad, and ids."""
    known = np.zeros(len(lines), np.int64) if ids else None
    if layout is None:
        return np.full((len(lines), 1), np.nan), known
    try:
        return _whole(parser, lines, layout, ids)
    except ValueError:
        rows = np.full((len(lines), layout.width), np.nan)
    left = [place for place, line in enumerate(lines) if not parser.fault(line, layout)]
    for places, (some, those) in _halves(parser, lines, left, layout, ids):
        rows[places] = some
        if known is not None and those is not None:
            known[places] = those
    return rows, known


def _whole(parser: Parser, lines: Sequence[bytes], layout: Layout, ids: bool) -> Taken:
    table = parser.table(lines, layout)
    if table.num_rows != len(lines):
        raise ValueError(f"{len(lines)} lines gave {table.num_rows} rows")
    table.validate(full=True)
    return take(table.combine_chunks().to_batches()[0], layout, ids)


def _halves(
    parser: Parser, lines: Sequence[bytes], places: list[int], layout: Layout, ids: bool
) -> Iterator[tuple[list[int], Taken]]:
    """All lines at these places that can be parsed."""
    if not places:
        return
    try:
        yield places, _whole(parser, [lines[place] for place in places], layout, ids)
    except ValueError:
        middle = len(places) // 2
        for half in (places[:middle], places[middle:]) if middle else ():
            yield from _halves(parser, lines, half, layout, ids)
