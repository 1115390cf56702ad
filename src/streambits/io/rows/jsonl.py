"""JSON lines: each line an array of numbers, or an object with a list or with numbers in it."""

import json
import re
from collections.abc import Sequence
from typing import Any

from streambits.io.bad_rows import BadRowError, why_bad, why_bad_id
from streambits.io.rows.files import Layout, ReadOptions, is_coordinate, refuse_guess
from streambits.io.rows.text import LineParser, TextReader, joined


class JsonLines(TextReader):
    """The first good line says what the others must have."""

    kind = "JSON lines"

    def parser(self, first: bytes) -> LineParser:
        del first
        return JsonParser(self.path, self._options)


class JsonParser:
    """Parses lines that are one JSON value each."""

    header = False

    def __init__(self, path: str, options: ReadOptions) -> None:
        self._path, self._columns, self._ids = path, options.columns, options.ids

    def layout(self, lines: Sequence[bytes]) -> Layout | None:
        for line in lines:
            try:
                value = as_json(line)
                layout = self._layout(value)
                if layout is not None:
                    self._row(value, layout)
                    return layout
            except BadRowError:
                continue
        return None

    def table(self, lines: Sequence[bytes], layout: Layout) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and seldom needed
        from pyarrow import json as arrow  # noqa: PLC0415

        lines = [line.strip() for line in lines]
        data = joined(lines)
        data = _arrays(lines, data) if layout.columns is None else _objects(lines, data)
        kind = pa.list_(pa.float64()) if layout.listed else pa.float64()
        fields = [(name, kind) for name in layout.columns or ("row",)]
        fields += [] if self._ids is None else [(self._ids, pa.int64())]
        return arrow.read_json(
            pa.py_buffer(data),
            arrow.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow.ParseOptions(pa.schema(fields), unexpected_field_behavior="ignore"),
        ).select([name for name, _ in fields])

    def row(self, line: bytes, layout: Layout | None) -> tuple[list[float], int]:
        return self._row(as_json(line), layout)

    def _row(self, value: Any, layout: Layout | None) -> tuple[list[float], int]:
        columns = self._columns if layout is None else layout.columns
        wanted = [*(columns or ()), *([] if self._ids is None else [self._ids])]
        missing = [one for one in wanted if not isinstance(value, dict) or one not in value]
        if missing:
            raise BadRowError(f"it has no {missing[0]!r}")
        name = 0 if self._ids is None else value[self._ids]
        if layout is None:  # no line so far is good, and neither is this one
            wrong = "it has no numbers" if isinstance(value, dict) else why_bad(value)
        elif columns is None or layout.listed:
            value = value if columns is None else value[columns[0]]
            wrong = why_bad(value, layout.width)
        else:
            value = [value[column] for column in columns]
            wrong = why_bad(value, layout.width, columns)
        if wrong or why_bad_id(name):
            raise BadRowError(why_bad_id(name) or wrong)
        return value, name

    def _layout(self, value: Any) -> Layout | None:
        """What this value makes of the rows, if it is a row."""
        if isinstance(value, list):
            named = self._columns is not None or self._ids is not None
            return None if named else Layout(len(value), self._path, listed=True)
        if not isinstance(value, dict):
            return None
        columns = self._columns or self._default_columns(value)
        listed = len(columns) == 1 and isinstance(value.get(columns[0]), list)
        if not columns or (listed and not value[columns[0]]):
            return None
        width = len(value[columns[0]]) if listed else len(columns)
        return Layout(width, self._path, columns, listed=listed)

    def _default_columns(self, value: dict[str, Any]) -> tuple[str, ...]:
        others = [name for name in value if name != self._ids]
        lists = tuple(name for name in others if not why_bad(value[name]))
        if len(lists) == 1:
            return lists
        numbers = tuple(name for name in others if not why_bad([value[name]]))
        if not any(map(is_coordinate, numbers)):  # a bad row of a file of lists, which has an id
            return ()
        refuse_guess(numbers, self._path)
        return numbers


def as_json(text: bytes) -> Any:
    """A JSON value; BadRowError if it is not one."""
    try:
        return json.loads(text.decode())
    except UnicodeDecodeError:
        raise BadRowError("it is not UTF-8 text") from None
    except RecursionError:
        raise BadRowError("it is not JSON: it is nested too deep") from None
    except ValueError as error:
        raise BadRowError(f"it is not JSON: {error}") from None


def _arrays(lines: Sequence[bytes], data: bytes) -> bytes:
    """Arrays as objects with one key, which pyarrow reads; a ValueError if one is not an array."""
    flat = data.count(b"[") == data.count(b"]") == len(lines) and b"{" not in data
    if not flat or not all(line.startswith(b"[") and line.endswith(b"]") for line in lines):
        raise ValueError("a line is not an array of numbers")
    return b'{"row":' + b'}\n{"row":'.join(lines) + b"}"


def _objects(lines: Sequence[bytes], data: bytes) -> bytes:
    """The same for objects: a null beside objects makes pyarrow crash."""
    objects = all(line.startswith(b"{") and line.endswith(b"}") for line in lines)
    if not objects or re.search(rb"\}\s*null", data):
        raise ValueError("a line is not an object")
    return data
