"""CSV: a line a row, with or without a header; between cells a comma, semicolon, tab or space."""

import collections
import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any

from streambits.errors import InputError, StorageError
from streambits.io.bad_rows import fault, id_fault
from streambits.io.rows.parts import Layout, Options
from streambits.io.rows.text import Parser, Text, joined

WIDEST = 1 << 16  # cells of a line: pyarrow takes some KiB and 0.1 ms for each column


class Csv(Text):
    """All columns are numbers, unless some are chosen by their names in the header."""

    kind = "CSV"

    def parser(self, first: bytes) -> Parser:
        return Cells(first, self.path, self._options)


class Cells:
    """What is in the cells of a line."""

    def __init__(self, first: bytes, path: str, options: Options) -> None:
        try:
            text = first.decode()
        except UnicodeDecodeError as error:
            raise StorageError(f"{path} is no CSV: its first line is not UTF-8 text") from error
        self._separator = separator(text)
        if text.count(self._separator) >= WIDEST:
            raise InputError(
                f"{path} has {text.count(self._separator) + 1:,} cells in its first line, and CSV "
                f"is read up to {WIDEST:,}: keep such rows as .npy, or as lists in Parquet"
            )
        cells = [cell.strip() for cell in self._cells(text)]
        self.header = any(cell and isinstance(_number(cell), str) for cell in cells)
        self._names = cells if self.header else [""] * len(cells)
        self._index = {name: place for place, name in enumerate(cells)}
        self._path, self._ids = path, options.ids
        self._layout = self._chosen(options)

    def layout(self, lines: Sequence[bytes]) -> Layout:
        del lines  # the first of all has said it
        return self._layout

    def table(self, lines: Sequence[bytes], layout: Layout) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and seldom needed
        from pyarrow import csv as arrow  # noqa: PLC0415

        if self._separator == " ":
            lines = [b" ".join(line.split()) for line in lines]
        data, names = joined(lines), [str(place) for place in range(len(self._names))]
        if b'"' in data and any(map(_is_open, lines)):
            raise ValueError("a quote is not closed")
        chosen = [names[place] for place in self._places(layout)]
        types = dict.fromkeys(chosen, pa.float64())
        if self._ids is not None:
            chosen.append(names[self._index[self._ids]])
            types[chosen[-1]] = pa.int64()
        return arrow.read_csv(
            pa.py_buffer(data),
            arrow.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            arrow.ParseOptions(delimiter=self._separator),
            arrow.ConvertOptions(column_types=types, include_columns=chosen, check_utf8=False),
        )

    def fault(self, line: bytes, layout: Layout | None) -> str:
        if _is_open(line):
            return "a quote is not closed"
        try:
            cells = self._cells(line.decode())
        except UnicodeDecodeError:
            return "it is not UTF-8 text"
        except csv.Error:  # a cell too long for Python, which may be one that is not used
            return ""
        if len(cells) != len(self._names):
            return f"{len(cells)} cell{'s' * (len(cells) != 1)}, where {len(self._names)} belong"
        wrong = id_fault(_whole(cells[self._index[self._ids]])) if self._ids is not None else ""
        layout = layout or self._layout
        values = [_number(cells[place]) for place in self._places(layout)]
        return wrong or fault(values, layout.width, layout.columns)

    def _cells(self, text: str) -> list[str]:
        if self._separator == " ":
            return text.split()
        if '"' not in text:
            return text.split(self._separator)
        return next(csv.reader([text], delimiter=self._separator))

    def _chosen(self, options: Options) -> Layout:
        if self.header:
            others = (name for name in self._names if name != self._ids)
            names = tuple(others) if options.columns is None else options.columns
            self._check((*names, *([] if self._ids is None else [self._ids])))
            return Layout(len(names), self._path, names)
        wanted = [*(options.columns or []), *([] if self._ids is None else [self._ids])]
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


def _is_open(line: bytes) -> bool:
    return line.count(b'"') % 2 == 1


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell.strip()


def _whole(cell: str) -> int | str:
    try:
        return int(cell)
    except ValueError:
        hexadecimal = "0x" in cell.lower()  # which pyarrow reads, in a way of its own
        return 0 if hexadecimal else cell.strip()
