"""CSV: one line per row, with or without a header; the separator is found by the first line."""

import bisect
import collections
import contextlib
import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import TEXT, Ids
from streambits.errors import InputError, StorageError
from streambits.io.bad_rows import plural, why_bad, why_bad_id
from streambits.io.rows.files import (
    Mask,
    ParsedRows,
    ReadOptions,
    RowSchema,
    payload_of,
    refuse_guess,
)
from streambits.io.rows.text import LineParser, TextReader

WIDEST = 1 << 16  # cells per line: pyarrow takes some KiB and 0.1 ms for each column
INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}


class Csv(TextReader):
    """All columns are numbers, unless some are named that the header has."""

    kind = "CSV"

    def parser(self, first: bytes) -> LineParser:
        return CsvParser(first, self.path, self._options)


class CsvParser:
    """Parses lines of cells; the first line of the file says how many there are."""

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
        self._path, self._options = path, options
        try:
            cells = next(csv.reader([text], delimiter=self._mark))
        except csv.Error as error:
            raise StorageError(f"{path} is not CSV: its first line has {error}") from error
        cells = [cell.strip() for cell in (text.split() if self._mark == " " else cells)]
        self.header = any(cell and isinstance(_number(cell), str) for cell in cells)
        self._names = cells if self.header else [""] * len(cells)
        self._schema = self._with_header() if self.header else self._without()

    def parse(
        self, lines: Sequence[bytes], schema: RowSchema | None
    ) -> tuple[ParsedRows, RowSchema]:
        if schema is None or not schema.width:
            schema = self._schema._replace(text=schema.text if schema else None)
        cells = Cells(lines, self._mark, len(self._names))
        places = [self._names.index(name) for name in schema.columns or ()]
        places = places or list(range(len(self._names)))
        rows = np.empty((len(lines), len(places)))
        for number, place in enumerate(places):
            rows[:, number] = cells.numbers(place)
        removed, ids, payload, width = None, None, None, schema.width
        flags = self._flags(cells)
        if flags is not None:
            removed = np.array([flag is True for flag in flags], np.bool_)
        if self._options.ids is not None:
            good: Mask = np.asarray(np.isfinite(rows).all(axis=1))
            if removed is not None:
                good |= removed
            ids, schema = self._ids(cells, good, schema)
        if flags is not None and None in flags:
            self._refuse_flags(cells, flags)
        if self._options.keep:
            kept = [cells.texts(self._names.index(name)) for name in self._options.keep]
            payload = payload_of([[cell or None for cell in one] for one in kept], len(lines))
        bad = np.isin(np.arange(len(lines)), list(cells.wrong)) if cells.wrong else None

        def why(place: int) -> str:
            if place in cells.wrong:
                return cells.wrong[place]
            row = cells.row(place)
            return why_bad([_number(row[column]) for column in places], width, schema.columns)

        return ParsedRows(rows, ids, bad, removed, payload, why), schema

    def _flags(self, cells: "Cells") -> list[bool | None] | None:
        """Whether lines remove their ids; None for what is neither true nor false."""
        if self._options.removed is None:
            return None
        texts = cells.texts(self._names.index(self._options.removed))
        return [FLAGS.get(cell.strip(" \t").lower()) for cell in texts]

    def _refuse_flags(self, cells: "Cells", flags: list[bool | None]) -> None:
        name = str(self._options.removed)
        for place, cell in enumerate(cells.texts(self._names.index(name))):
            if flags[place] is None:
                reason = f"column {name!r} is {cell!r}, neither true nor false"
                cells.wrong.setdefault(place, reason)

    def _ids(self, cells: "Cells", good: Mask, schema: RowSchema) -> tuple[Ids, RowSchema]:
        """The ids of lines; the first of a good line decides whether they are texts."""
        texts = [
            cell.strip(" \t") for cell in cells.texts(self._names.index(str(self._options.ids)))
        ]
        if schema.text is None:
            usable = (texts[at] for at in np.flatnonzero(good) if at not in cells.wrong)
            first = next(filter(None, usable), None)
            schema = schema._replace(text=None if first is None else not INTEGER.fullmatch(first))
        if not schema.text and all(map(INTEGER.fullmatch, texts)):
            with contextlib.suppress(OverflowError):  # which of them is, is looked for below
                return np.array(list(map(int, texts)), np.int64), schema
        nothing: Any = "" if schema.text else 0
        ids = [nothing] * len(texts)
        for place, text in enumerate(texts):
            name = text if schema.text or not INTEGER.fullmatch(text) else int(text)
            reason = why_bad_id(name, schema.text)
            if reason:
                cells.wrong.setdefault(place, reason)
            elif isinstance(name, str) == bool(schema.text):
                ids[place] = name
        return np.array(ids, TEXT if schema.text else np.int64), schema

    def _with_header(self) -> RowSchema:
        others = tuple(name for name in self._names if name not in self._options.others)
        names = self._options.columns or others
        self._check((*names, *self._options.others))
        refuse_guess(self._path, self._names, names, self._options)
        return RowSchema(len(names), self._path, names)

    def _without(self) -> RowSchema:
        wanted = [*(self._options.columns or []), *self._options.others]
        if wanted:
            raise InputError(f"{self._path} has no header line, so it has no column {wanted[0]!r}")
        return RowSchema(len(self._names), self._path)

    def _check(self, names: Iterable[str]) -> None:
        counts = collections.Counter(self._names)
        for name in names:
            if counts[name] != 1:
                has = f"{counts[name]} columns" if counts[name] else "no column"
                raise InputError(
                    f"{self._path} has {has} {name!r}; it has {', '.join(self._names)}"
                )


class Cells:
    """The cells of some lines, cut by pyarrow.

    Parameters
    ----------
    lines : sequence of bytes
    mark : str
        What separates the cells.
    width : int
        Cells of each line.

    Attributes
    ----------
    wrong : dict of int to str
        Lines that cannot be used, by their places, and why.
    """

    def __init__(self, lines: Sequence[bytes], mark: str, width: int) -> None:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and seldom needed
        from pyarrow import csv as arrow  # noqa: PLC0415

        self.wrong: dict[int, str] = {}
        data = b"\n".join(lines)
        if b'"' in data or b"\r" in data or not data.isascii():
            reasons = map(_why_not_cells, lines)
            self.wrong = {place: why for place, why in enumerate(reasons) if why}
        places = [place for place in range(len(lines)) if place not in self.wrong]
        if mark == " " or self.wrong:
            cut = [lines[place] for place in places]
            data = b"\n".join(b" ".join(line.split()) if mark == " " else line for line in cut)

        def skip(row: Any) -> str:
            reason = f"expected {plural(width, 'cell')}, got {row.actual_columns}"
            self.wrong[places[row.number - 1]] = reason
            return "skip"

        names = [str(place) for place in range(width)]
        types = dict.fromkeys(names, pa.string())
        self._table: Any = data and arrow.read_csv(
            pa.py_buffer(data),
            arrow.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            arrow.ParseOptions(delimiter=mark, invalid_row_handler=skip),
            arrow.ConvertOptions(column_types=types, check_utf8=False),
        )
        self._count, self._kept = len(lines), [at for at in places if at not in self.wrong]

    def row(self, place: int) -> list[str]:
        """The cells of a line that is not wrong."""
        at = bisect.bisect_left(self._kept, place)
        return [column[at].as_py() for column in self._table.columns]

    def texts(self, column: int) -> list[str]:
        """The cells of a column, empty where a line is wrong."""
        if not self._kept:
            return [""] * self._count
        cells: list[str] = self._table.column(column).to_pylist()
        if len(cells) < self._count:
            found = dict(zip(self._kept, cells, strict=True))
            cells = [found.get(place, "") for place in range(self._count)]
        return cells

    def numbers(self, column: int) -> NDArray[Any]:
        """The numbers of a column, NaN where a cell is none."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        if not self._kept:
            return np.full(self._count, np.nan)
        cells = self._table.column(column)
        try:
            values = pc.cast(cells, pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            read = map(_number, cells.to_pylist())
            values = np.array([np.nan if isinstance(one, str) else one for one in read])
        if len(values) == self._count:
            return values  # type: ignore[no-any-return]
        numbers = np.full(self._count, np.nan)
        numbers[self._kept] = values
        return numbers


def separator(line: str) -> str:
    """The most frequent of comma, semicolon and tab outside quotes; a space if there is none.

    >>> separator('"a,b";c;"d"'), separator("1 2"), separator("a b,c")
    (';', ' ', ',')
    """
    bare = re.sub(r'"[^"]*"', "", line).strip(" ")
    mark = max(",;\t", key=bare.count)
    return " " if mark not in bare and " " in bare else mark


def _why_not_cells(line: bytes) -> str:
    """Why a line is not cut into cells."""
    if line.count(b'"') % 2:
        return "a quote is not closed"
    if b"\r" in line:
        return "a carriage return stands in the middle of it"
    try:
        line.decode()
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    return ""


def _number(cell: str) -> float | str:
    """A number, or the text if it is none; 1_000 and digits that are not ASCII are not numbers."""
    try:
        value = float(cell)
    except ValueError:
        return cell.strip()
    return value if cell.isascii() and "_" not in cell else cell.strip()
