"""JSON lines: each line an array of numbers, or an object with a list or with numbers in it."""

import json
import re
from collections.abc import Sequence
from typing import Any

from streambits.io.bad_rows import fault, id_fault
from streambits.io.rows.parts import Layout, Options
from streambits.io.rows.text import Parser, Text, joined


class JsonLines(Text):
    """The first good line says what the others must have."""

    kind = "JSON lines"

    def parser(self, first: bytes) -> Parser:
        del first
        return Values(self.path, self._options)


class Values:
    """What is in the value of a line."""

    header = False

    def __init__(self, path: str, options: Options) -> None:
        self._path, self._columns, self._ids = path, options.columns, options.ids

    def layout(self, lines: Sequence[bytes]) -> Layout | None:
        for line in lines:
            try:
                layout = self._layout(_value(line))
            except ValueError:
                continue
            if layout is not None and not self.fault(line, layout):
                return layout
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

    def fault(self, line: bytes, layout: Layout | None) -> str:
        try:
            value = _value(line)
        except UnicodeDecodeError:
            return "it is not UTF-8 text"
        except ValueError as error:
            return f"it is no JSON: {error}"
        return self._fault(value, layout)

    def _fault(self, value: Any, layout: Layout | None) -> str:
        columns = self._columns if layout is None else layout.columns
        wanted = [*(columns or ()), *([] if self._ids is None else [self._ids])]
        if not wanted:
            return fault(value, layout and layout.width)
        for name in wanted:
            if not isinstance(value, dict) or name not in value:
                return f"it has no {name!r}"
        wrong = "" if self._ids is None else id_fault(value[self._ids])
        if wrong or layout is None:
            return wrong or "it has no numbers"
        if layout.listed:
            return fault(value[wanted[0]], layout.width)
        return fault([value[name] for name in layout.columns or ()], layout.width, layout.columns)

    def _layout(self, value: Any) -> Layout | None:
        if isinstance(value, list):
            named = self._columns is not None or self._ids is not None
            return None if named else Layout(len(value), self._path, None, True)
        if not isinstance(value, dict):
            return None
        columns = self._columns or self._default(value)
        listed = len(columns) == 1 and isinstance(value.get(columns[0]), list)
        if not columns or (listed and not value[columns[0]]):
            return None
        width = len(value[columns[0]]) if listed else len(columns)
        return Layout(width, self._path, columns, listed)

    def _default(self, value: dict[str, Any]) -> tuple[str, ...]:
        others = [name for name in value if name != self._ids]
        lists = tuple(name for name in others if not fault(value[name]))
        numbers = tuple(name for name in others if not fault([value[name]]))
        return lists if len(lists) == 1 else numbers


def _value(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _arrays(lines: Sequence[bytes], data: bytes) -> bytes:
    """Arrays as objects with one key, which is what pyarrow reads; a ValueError if one is none."""
    flat = data.count(b"[") == data.count(b"]") == len(lines) and b"{" not in data
    if not flat or not all(line.startswith(b"[") and line.endswith(b"]") for line in lines):
        raise ValueError("a line is no array of numbers")
    return b'{"row":' + b'}\n{"row":'.join(lines) + b"}"


def _objects(lines: Sequence[bytes], data: bytes) -> bytes:
    """The same; a ValueError if a line is no object: a null beside objects makes pyarrow crash."""
    objects = all(line.startswith(b"{") and line.endswith(b"}") for line in lines)
    if not objects or re.search(rb"\}\s*null", data):
        raise ValueError("a line is no object")
    return data
