"""CSV: one line per row, with or without a header; the separator is found by the first line."""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from streambits.errors import InputError, StorageError
from streambits.io.bad_rows import BadRowError, plural, why_bad, why_bad_id
from streambits.io.rows.arrow import as_flag
from streambits.io.rows.files import Layout, ReadOptions, refuse_guess
from streambits.io.rows.text import Line, LineParser, TextReader, joined

WIDEST = 1 << 16  # cells per line: pyarrow takes some KiB and 0.1 ms for each column
INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,16}")


class Csv(TextReader):
    """All columns are numbers, unless some are named that the header has."""

    kind = "CSV"

    def parser(self, first: bytes) -> LineParser:
        return CsvParser(first, self.path, self._options)


class CsvParser:
    """Parses lines of cells; the first line of the file says how many there are."""

    null_removes = False

    def __init__(self, first: bytes, path: str, options: ReadOptions) -> None:
        try:
            text = first.decode()
        except UnicodeDecodeError as error:
            raise StorageError(f"{path} is not CSV: its first line is not UTF-8 text") from error
        self._mark = separator(text)
        if text.count(self._mark) >= WIDEST:
            raise InputError(
                f"{path} has {text.count(self._mark) + 1:,} cells in its first line, and CSV is "
                f"read up to {WIDEST:,}: keep such rows as .npy, or as lists in Parquet"
            )
        cells = [cell.strip() for cell in _cells(text, self._mark)]
        self.header = any(cell and isinstance(_number(cell), str) for cell in cells)
        self._names = cells if self.header else [""] * len(cells)
        self._index = {name: place for place, name in enumerate(cells)}
        self._path, self._options = path, options
        self._layout = self._with_header(options) if self.header else self._without(options)

    def layout(self, lines: Sequence[bytes], text: bool | None = None) -> Layout:
        """The first line of the file has said it, but for the kind of ids."""
        layout = self._layout._replace(text=text)
        if text is not None or self._options.ids is None:
            return layout
        kinds: dict[bool, bool] = {}  # of the first line that removes its id, or is a row
        for line in lines:
            try:
                found = self.row(line, layout)
            except BadRowError:
                continue
            kinds.setdefault(found.removed, isinstance(found.id, str))
            if not found.removed:
                break
        return layout._replace(text=kinds.get(False, kinds.get(True)))

    def table(self, lines: Sequence[bytes], layout: Layout) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and seldom needed
        from pyarrow import csv as arrow  # noqa: PLC0415

        if self._mark == " ":
            lines = [b" ".join(line.split()) for line in lines]
        data, names = joined(lines), [str(place) for place in range(len(self._names))]
        if b"\r" in data or (b'"' in data and any(map(_is_open, lines))):
            raise ValueError("a line may be taken for two, or two for one")
        wanted = [names[place] for place in self._places(layout)]
        types = dict.fromkeys(wanted, pa.float64())
        others = [names[self._index[name]] for name in self._options.others]
        types |= dict.fromkeys(others, pa.string())
        if self._options.ids is not None and not layout.text:
            types[others[-1]] = pa.int64()
        wanted += others
        table = arrow.read_csv(
            pa.py_buffer(data),
            arrow.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            arrow.ParseOptions(delimiter=self._mark),
            arrow.ConvertOptions(column_types=types, include_columns=wanted, check_utf8=False),
        )
        return self._with_texts(table, layout) if others else table

    def _with_texts(self, table: Any, layout: Layout) -> Any:
        """Texts as `row` has them: an empty cell is nothing to keep, ids have no blanks around."""
        import pyarrow.compute as pc  # noqa: PLC0415

        first = table.num_columns - len(self._options.others)
        for place in range(first, first + len(self._options.keep)):
            column = table.column(place)
            column = pc.if_else(pc.equal(column, ""), None, column)
            table = table.set_column(place, table.column_names[place], column)
        if layout.text:
            column = pc.utf8_trim(table.column(-1), " \t")
            table = table.set_column(table.num_columns - 1, table.column_names[-1], column)
        return table

    def row(self, line: bytes, layout: Layout | None) -> Line:
        layout = layout or self._layout
        if _is_open(line):
            raise BadRowError("a quote is not closed")
        try:
            cells = _cells(line.decode(), self._mark)
        except UnicodeDecodeError:
            raise BadRowError("it is not UTF-8 text") from None
        if len(cells) != len(self._names):
            raise BadRowError(f"expected {plural(len(self._names), 'cell')}, got {len(cells)}")
        name = self._id(cells, layout.text)
        if self._is_removed(cells):
            return Line((), name, True, self._kept(cells))
        values = [_number(cells[place]) for place in self._places(layout)]
        wrong = why_bad(values, layout.width, layout.columns)
        if wrong:
            raise BadRowError(wrong)
        return Line(cast("list[float]", values), name, False, self._kept(cells))

    def _id(self, cells: Sequence[str], text: bool | None) -> int | str:
        if self._options.ids is None:
            return 0
        cell = cells[self._index[self._options.ids]]
        name = cell.strip(" \t") if text else _integer(cell)
        wrong = why_bad_id(name, text)
        if wrong:
            raise BadRowError(wrong)
        return name

    def _is_removed(self, cells: Sequence[str]) -> bool:
        name = self._options.removed
        cell = "" if name is None else cells[self._index[name]]
        found = as_flag(cell)
        if found is None:
            raise BadRowError(f"column {name!r} is {cell!r}, neither true nor false")
        return found

    def _kept(self, cells: Sequence[str]) -> tuple[str | None, ...]:
        return tuple(cells[self._index[name]] or None for name in self._options.keep)

    def _with_header(self, options: ReadOptions) -> Layout:
        others = tuple(name for name in self._names if name not in options.others)
        names = options.columns or others
        self._check((*names, *options.others))
        if options.columns is None:
            refuse_guess(names, self._path)
        return Layout(len(names), self._path, names)

    def _without(self, options: ReadOptions) -> Layout:
        wanted = [*(options.columns or []), *options.others]
        if wanted:
            raise InputError(f"{self._path} has no header line, so it has no column {wanted[0]!r}")
        return Layout(len(self._names), self._path)

    def _places(self, layout: Layout) -> Sequence[int]:
        if layout.columns is None:
            return range(len(self._names))
        return [self._index[name] for name in layout.columns]

    def _check(self, names: Iterable[str]) -> None:
        counts = collections.Counter(self._names)
        for name in names:
            if counts[name] != 1:
                has = f"{counts[name]} columns" if counts[name] else "no column"
                raise InputError(
                    f"{self._path} has {has} {name!r}; it has {', '.join(self._names)}"
                )


def separator(line: str) -> str:
    """The most frequent of comma, semicolon and tab outside quotes; a space if there is none.

    >>> separator('"a,b";c;"d"'), separator("1 2"), separator("a b,c")
    (';', ' ', ',')
    """
    bare = re.sub(r'"[^"]*"', "", line).strip(" ")
    mark = max(",;\t", key=bare.count)
    return " " if mark not in bare and " " in bare else mark


def _cells(text: str, mark: str) -> list[str]:
    """The cells of a line. Python's csv is not used: it refuses cells above 128 KiB.

    >>> _cells('a,"b, c",', ",")
    ['a', 'b, c', '']
    """
    if mark == " ":
        return text.split()
    if '"' not in text:
        return text.split(mark)
    cell = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)")?([^{mark}]*)')
    cells, place = [], 0
    while match := cell.match(text, place):
        quoted, rest = match.groups()
        cells.append((quoted or "").replace('""', '"') + rest)
        place = match.end() + 1
        if place > len(text):
            break
    return cells


def _is_open(line: bytes) -> bool:
    return line.count(b'"') % 2 == 1


def _number(cell: str) -> float | str:
    """A number, or the text if it is none; 1_000 and digits that are not ASCII are not numbers."""
    try:
        value = float(cell)
    except ValueError:
        return cell.strip()
    return value if cell.isascii() and "_" not in cell else cell.strip()


def _integer(cell: str) -> int | str:
    """An integer as pyarrow reads it: hexadecimal digits are the bits of a signed number."""
    cell = cell.strip(" \t")
    if HEXADECIMAL.fullmatch(cell):
        return (int(cell, 16) + 2**63) % 2**64 - 2**63
    return int(cell) if INTEGER.fullmatch(cell) else cell
