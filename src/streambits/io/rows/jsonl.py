"""JSON lines: each line an array of numbers, or an object with a list or with numbers in it."""

import json
import re
from collections.abc import Sequence
from typing import Any

from streambits.io.bad_rows import BadRowError, why_bad, why_bad_id
from streambits.io.rows.files import Layout, ReadOptions, is_coordinate, kept_text, refuse_guess
from streambits.io.rows.text import Line, LineParser, TextReader, joined


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
        self._path, self._columns, self._options = path, options.columns, options
        self.null_removes = options.ids is not None

    def layout(self, lines: Sequence[bytes], text: bool | None = None) -> Layout | None:
        removes: Layout | None = None  # what the first line says that removes its id
        for line in lines:
            try:
                value = as_json(line)
                plain = Layout(0, self._path, text=text)
                gone = isinstance(value, dict) and self._is_removed(value, plain)
                layout = plain if gone else self._layout(value) or plain
                row = self._row(value, layout._replace(text=text))
            except BadRowError:
                continue
            kind = text if self._options.ids is None else isinstance(row.id, str)
            if not row.removed:
                return layout._replace(text=kind)
            removes = removes or plain._replace(text=kind)
        return removes

    def table(self, lines: Sequence[bytes], layout: Layout) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and seldom needed
        from pyarrow import json as arrow  # noqa: PLC0415

        lines = [line.strip() for line in lines]
        data = joined(lines)
        data = _arrays(lines, data) if layout.columns is None else _objects(lines, data)
        kind = pa.list_(pa.float64()) if layout.listed else pa.float64()
        fields = [(name, kind) for name in layout.columns or ("row",)]
        types = dict.fromkeys(self._options.others, pa.string())
        types |= {self._options.removed: pa.bool_()}
        types |= {self._options.ids: pa.string() if layout.text else pa.int64()}
        fields += [(name, types[name]) for name in self._options.others]
        return arrow.read_json(
            pa.py_buffer(data),
            arrow.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow.ParseOptions(pa.schema(fields), unexpected_field_behavior="ignore"),
        ).select([name for name, _ in fields])

    def row(self, line: bytes, layout: Layout | None) -> Line:
        return self._row(as_json(line), layout)

    def _row(self, value: Any, layout: Layout | None) -> Line:
        layout = layout or Layout(0, self._path)
        keys = value if isinstance(value, dict) else {}
        removed = self._is_removed(keys, layout)
        columns = (layout.columns if layout.width else self._columns) or ()
        ids = () if self._options.ids is None else (self._options.ids,)
        missing = [key for key in (*(() if removed else columns), *ids) if key not in keys]
        if missing:
            raise BadRowError(f"it has no {missing[0]!r}")
        name = keys[ids[0]] if ids else 0
        wrong = why_bad_id(name, layout.text)
        if not removed:
            value, reason = self._values(value, layout)
            wrong = wrong or reason
        if wrong:
            raise BadRowError(wrong)
        kept = tuple(kept_text(keys.get(key)) for key in self._options.keep)
        return Line(() if removed else value, name, removed, kept)

    def _values(self, value: Any, layout: Layout) -> tuple[Any, str]:
        """What should be the vector in a line, and what is wrong with it."""
        if not layout.width:  # no line so far is good, and neither is this one
            wrong = "it has no numbers" if isinstance(value, dict) else why_bad(value)
            return value, wrong or "it has no names"
        if layout.columns is None or layout.listed:
            value = value if layout.columns is None else value[layout.columns[0]]
            return value, why_bad(value, layout.width)
        value = [value[column] for column in layout.columns]
        return value, why_bad(value, layout.width, layout.columns)

    def _is_removed(self, keys: dict[str, Any], layout: Layout) -> bool:
        """Whether a line says that it removes its id, or is null where others have a list."""
        said = None if self._options.removed is None else keys.get(self._options.removed)
        if said is not None and type(said) is not bool:
            raise BadRowError(f"{self._options.removed!r} is {said!r:.40}, neither true nor false")
        return bool(said) or (self.null_removes and self._is_null(keys, layout))

    def _is_null(self, keys: dict[str, Any], layout: Layout) -> bool:
        if layout.width:
            columns, listed = layout.columns or (), layout.listed
        else:  # as long as no row is known, the only key that may be a list
            others = tuple(name for name in keys if name not in self._options.others)
            columns, listed = self._columns or others, True
        return listed and len(columns) == 1 and keys.get(columns[0], 0) is None

    def _layout(self, value: Any) -> Layout | None:
        """What this value makes of the rows, if it is a row."""
        if isinstance(value, list):
            named = self._columns is not None or bool(self._options.others)
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
        others = [name for name in value if name not in self._options.others]
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
