"""JSON lines: each line an array of numbers, or an object with a list or with numbers in it."""

import json
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from streambits._arrays import NOT_COORDINATES, TEXT, Ids
from streambits.io.bad_rows import BadRowError, why_bad, why_bad_id
from streambits.io.rows.files import (
    ParsedRows,
    ReadOptions,
    RowSchema,
    is_settled,
    kept_text,
    payload_of,
    refuse_guess,
)
from streambits.io.rows.text import LineParser, TextReader

NUMBERS = frozenset((int, float))
LONGEST_INTEGER = 20  # characters; what is longer does not fit into 64 bits


class JsonLines(TextReader):
    """The first good line says what the others must have."""

    kind = "JSON lines"

    def parser(self, first: bytes) -> LineParser:
        del first
        return JsonParser(self.path, self._options)


class _Line(NamedTuple):
    """What a line has: its vector, or None if it removes its id; its id; what to keep."""

    vector: list[float] | None
    id: int | str
    kept: list[str | None]


class JsonParser:
    """Parses lines that are one JSON value each."""

    header = False

    def __init__(self, path: str, options: ReadOptions) -> None:
        self._path, self._columns, self._options = path, options.columns, options

    def parse(
        self, lines: Sequence[bytes], schema: RowSchema | None
    ) -> tuple[ParsedRows, RowSchema | None]:
        wrong: dict[int, str] = {}
        places: list[int] = []
        values = array("d")  # of the vectors, one after the other
        ids: list[Any] = [None] * len(lines)
        removed, kept = np.zeros(len(lines), np.bool_), {}
        for place, text in enumerate(lines):
            try:
                value = as_json(text)
                if not is_settled(schema, self._options):
                    schema = self._extended(value, schema)
                vector, ids[place], kept[place] = self._line(value, schema)
                if vector is None:
                    removed[place] = True
                else:
                    values.fromlist(vector)
                    places.append(place)
            except BadRowError as error:
                wrong[place] = str(error)
        width, names = (schema.width, schema.columns) if schema and schema.width else (1, None)
        rows = np.frombuffer(values).reshape(-1, width)
        if len(places) < len(lines):
            rows = np.full((len(lines), width), np.nan)
            rows[places] = np.frombuffer(values).reshape(-1, width)
        payload, listed = None, schema is None or schema.listed
        if self._options.keep:
            nothing = [None] * len(self._options.keep)
            texts = [kept.get(place, nothing) for place in range(len(lines))]
            payload = payload_of(list(zip(*texts, strict=True)), len(lines))

        def why(place: int) -> str:
            row = rows[place].tolist()
            return wrong.get(place) or why_bad(row, width, None if listed else names)

        parsed = ParsedRows(rows, self._as_ids(ids, schema), None, removed, payload, why)
        return parsed, schema

    def _as_ids(self, ids: list[Any], schema: RowSchema | None) -> Ids | None:
        if self._options.ids is None:
            return None
        text = schema is not None and schema.text
        nothing: Any = "" if text else 0
        known = [nothing if name is None else name for name in ids]
        return np.array(known, TEXT if text else np.int64)

    def _extended(self, value: Any, schema: RowSchema | None) -> RowSchema | None:
        """What is known of rows after a line, which must be good; BadRowError if it is not."""
        schema = schema or RowSchema(0, self._path)
        keys = value if isinstance(value, dict) else {}
        if not schema.width and not self._is_removed(keys, schema):
            schema = (self._schema_of(value) or schema)._replace(text=schema.text)
        line = self._line(value, schema)
        wrong = line.vector and why_bad(line.vector, schema.width, schema.columns)
        if wrong:
            raise BadRowError(wrong)
        return (
            schema if self._options.ids is None else schema._replace(text=isinstance(line.id, str))
        )

    def _line(self, value: Any, schema: RowSchema | None) -> _Line:
        """What a line has; BadRowError if it is bad."""
        keys = value if isinstance(value, dict) else {}
        schema = schema or RowSchema(0, self._path)
        key = schema.columns[0] if schema.columns and schema.listed else None
        plain = self._options.removed is None and type(keys.get(key)) is list
        removed = not plain and self._is_removed(keys, schema)
        columns = () if removed else (schema.columns if schema.width else self._columns) or ()
        ids, wrong, name = self._options.ids, "", 0
        for key in columns if ids is None else (*columns, ids):
            if key not in keys:
                raise BadRowError(f"it has no {key!r}")
        if ids is not None:
            name = keys[ids]
            wrong = why_bad_id(name, schema.text)
        vector = None
        if not removed:
            vector, reason = self._vector(value, schema)
            wrong = wrong or reason
        if wrong:
            raise BadRowError(wrong)
        return _Line(vector, name, [kept_text(keys.get(key)) for key in self._options.keep])

    def _vector(self, value: Any, schema: RowSchema) -> tuple[Any, str]:
        """What should be the vector in a line, and what is wrong with it, but for its size."""
        if not schema.width:  # no line so far is good, and neither is this one
            wrong = "it has no numbers" if isinstance(value, dict) else why_bad(value)
            return value, wrong or "it has no names"
        names = None
        if schema.columns is not None and schema.listed:
            value = value[schema.columns[0]]
        elif schema.columns is not None:
            names = schema.columns
            value = [value[column] for column in names]
        plain = type(value) is list and len(value) == schema.width
        if plain and NUMBERS.issuperset(map(type, value)):
            return value, ""
        return value, why_bad(value, schema.width, names)

    def _is_removed(self, keys: dict[str, Any], schema: RowSchema) -> bool:
        """Whether a line says that it removes its id, or is null where others have a list."""
        said = None if self._options.removed is None else keys.get(self._options.removed)
        if said is not None and type(said) is not bool:
            raise BadRowError(f"{self._options.removed!r} is {said!r:.40}, neither true nor false")
        return bool(said) or (self._options.ids is not None and self._is_null(keys, schema))

    def _is_null(self, keys: dict[str, Any], schema: RowSchema) -> bool:
        if schema.width:
            columns, listed = schema.columns or (), schema.listed
        else:  # as long as no row is known, the only key that may be a list
            others = tuple(name for name in keys if name not in self._options.others)
            columns, listed = self._columns or others, True
        return listed and len(columns) == 1 and keys.get(columns[0], 0) is None

    def _schema_of(self, value: Any) -> RowSchema | None:
        """What this value makes of the rows, if it is a row."""
        if isinstance(value, list):
            named = self._columns is not None or bool(self._options.others)
            return None if named else RowSchema(len(value), self._path, listed=True)
        if not isinstance(value, dict):
            return None
        columns = self._columns or self._default_columns(value)
        listed = len(columns) == 1 and isinstance(value.get(columns[0]), list)
        if not columns or (listed and not value[columns[0]]):
            return None
        width = len(value[columns[0]]) if listed else len(columns)
        return RowSchema(width, self._path, columns, listed=listed)

    def _default_columns(self, value: dict[str, Any]) -> tuple[str, ...]:
        others = [name for name in value if name not in self._options.others]
        lists = tuple(name for name in others if not why_bad(value[name]))
        if len(lists) == 1:
            refuse_guess(self._path, value, (), self._options)
            return lists
        numbers = tuple(name for name in others if not why_bad([value[name]]))
        if all(name.strip().lower() in NOT_COORDINATES for name in numbers):
            return ()  # a bad row of a file of lists, which has an id
        refuse_guess(self._path, value, numbers, self._options)
        return numbers


def as_json(text: bytes) -> Any:
    """A JSON value; BadRowError if it is not one.

    What orjson refuses is asked of Python's json, which knows NaN, and says better what is wrong.
    """
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(text.decode(), parse_int=_as_integer)
    except UnicodeDecodeError:
        raise BadRowError("it is not UTF-8 text") from None
    except RecursionError:
        raise BadRowError("it is not JSON: it is nested too deep") from None
    except ValueError as error:
        raise BadRowError(f"it is not JSON: {error}") from None


def _as_integer(text: str) -> float:
    """A whole number, as orjson reads it."""
    return int(text) if len(text) < LONGEST_INTEGER else float(text)
