"""Bodies of requests and answers: JSON, raw numbers, or Arrow; checked before they are parsed.

Raw bodies are little-endian. `columns` in the query string says how many float32 numbers a row has.
For rows to be added, `ids=int64` says that one id of 64 bits per row stands before all rows, and
`first_id=N` that there are none and rows are numbered from N; a raw list of ids is int64 numbers
and nothing else. pydantic-core, which comes with FastAPI, reads and writes JSON.
"""

import io
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID, Ids, as_count, as_ids, as_rows
from streambits.errors import InputError, MissingExtraError
from streambits.index import Hits
from streambits.io.rows.arrow import arrow_rows
from streambits.io.rows.files import ReadOptions, RowSchema
from streambits.model.codes import Codes

try:
    import pydantic_core
except ImportError:  # pragma: no cover - without the extra
    raise MissingExtraError("fastapi", "serve") from None

JSON = "application/json"
RAW = "application/octet-stream"
ARROW = "application/vnd.apache.arrow.stream"
ROWS, IDS = "rows", "ids"  # names in JSON
MOST_K = 10_000

Options = Mapping[str, str]


class TooLargeError(InputError):
    """More than the service takes at once."""


class Rows(NamedTuple):
    """rows: (n, d) float32, checked; ids: (n,), where there are any."""

    rows: NDArray[np.float32]
    ids: Ids | None = None


def kind_of(content_type: str | None) -> str:
    """Which of the three kinds a body is, by its Content-Type; JSON without one."""
    name = (content_type or JSON).partition(";")[0].strip().lower()
    if name in (JSON, RAW, ARROW):
        return name
    raise UnsupportedError(f"the type of the body is {name!r}; it can be {JSON}, {RAW} or {ARROW}")


class UnsupportedError(InputError):
    """A body of a kind that is not read."""


# JSON


def from_json(body: bytes, allowed: tuple[str, ...]) -> dict[str, Any]:
    """Read a JSON object with some of these names, and no others.

    Raises
    ------
    InputError
        If it is something else.
    """
    try:
        found = pydantic_core.from_json(body, allow_inf_nan=True)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"the body is a JSON {type(found).__name__}; it must be an object")
    other = [name for name in found if name not in allowed]
    if other:
        raise InputError(f"{other[0][:60]!r} is not known; names are {', '.join(allowed)}")
    return found


def to_json(value: Any) -> bytes:
    """Write JSON; numbers that it does not have are null."""
    return pydantic_core.to_json(value, inf_nan_mode="null")


def rows_from_json(value: Any, most: int, width: int | None, name: str = ROWS) -> NDArray[Any]:
    """Check a JSON list of rows; they become float32."""
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list of lists of numbers")
    check_count(len(value), most)
    if value and not isinstance(value[0], list):
        value = [value]  # one row
    if any(not isinstance(row, list) or len(row) != len(value[0]) for row in value):
        raise InputError(f"{name} must be a list of lists of numbers, all of one length")
    kinds = {type(number) for row in value for number in row}
    if not kinds <= {int, float}:
        wrong = next(n for row in value for n in row if type(n) not in (int, float))
        raise InputError(f"{name} have {str(wrong)[:60]!r}, which is not a number")
    try:
        double = np.array(value, np.float64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name} cannot be read: {error}") from None
    return as_float32(double, width, name)


def as_float32(rows: NDArray[Any], width: int | None, name: str = ROWS) -> NDArray[np.float32]:
    """Check rows (n, d) of any floating type; what is beyond float32 is refused."""
    checked = as_rows(rows, width=width, name=name)
    if checked.dtype == np.float32:
        return checked  # type: ignore[no-any-return]
    with np.errstate(over="ignore"):
        small = checked.astype(np.float32)
    beyond = ~np.isfinite(small)
    if beyond.any():
        raise InputError(f"{name} have {checked[beyond][0]!r}, which is beyond float32: scale them")
    return small  # type: ignore[no-any-return]


def ids_from_json(value: Any, most: int, name: str = IDS) -> Ids:
    """Check a JSON list of ids: whole numbers or texts."""
    values = value if isinstance(value, list) else [value]
    check_count(len(values), most, name)
    if not {type(one) for one in values} <= {int, str}:
        raise InputError(f"{name} must be whole numbers of 64 bits or texts, all of one kind")
    if any(isinstance(one, int) and not -LAST_ID - 1 <= one <= LAST_ID for one in values):
        raise InputError(f"{name} must be whole numbers of 64 bits, and one is larger")
    try:
        return as_ids(values, name)
    except UnicodeEncodeError as error:
        raise InputError(f"{name} have {error.object!r}, which is not valid Unicode") from None


def check_count(count: int, most: int, name: str = ROWS) -> None:
    """Refuse more than the service takes at once."""
    if count > most:
        raise TooLargeError(
            f"there are {count:,} {name}, and at most {most:,} are taken at once: send fewer, in "
            f"several requests"
        )


# Raw numbers


def whole(options: Options, name: str) -> int | None:
    """Read a whole number from the query string."""
    text = options.get(name)
    if text is None:
        return None
    try:
        return int(text) if len(text) < 20 else int("x")
    except ValueError:
        raise InputError(f"{name} is {text[:60]!r}, which is not a whole number") from None


def rows_from_raw(body: bytes, options: Options, most: int, width: int | None) -> Rows:
    """Read float32 rows, behind ids where `ids=int64` says so."""
    columns = whole(options, "columns") or width
    if columns is None:
        raise InputError("say how many numbers a row has: ?columns=64")
    as_count(columns, "columns", most=1 << 20)
    known = options.get(IDS)
    if known not in (None, "int64"):
        raise InputError(f"ids is {known[:60]!r}; it can only be int64: the ids before the rows")
    each = 4 * columns + (8 if known else 0)
    count, left = divmod(len(body), each)
    if left or not count:
        raise InputError(
            f"the body has {len(body):,} bytes, and rows of {columns} float32 numbers"
            f"{' with ids of 8 bytes' if known else ''} have {each}: it must be a multiple"
        )
    check_count(count, most)
    start = 8 * count if known else 0
    ids: Ids | None = None
    first = whole(options, "first_id")
    if known:
        ids = np.frombuffer(body, "<i8", count).astype(np.int64, copy=False)
    elif first is not None:
        if not -LAST_ID <= first <= LAST_ID - count:
            raise InputError(f"first_id is {first}: rows from there on have no ids of 64 bits")
        ids = np.arange(first, first + count, dtype=np.int64)
    rows = np.frombuffer(body, "<f4", offset=start).reshape(count, columns)
    return Rows(as_float32(rows.astype(np.float32, copy=False), width), ids)


def ids_from_raw(body: bytes, most: int) -> Ids:
    """Read int64 ids."""
    if len(body) % 8:
        raise InputError(f"the body has {len(body):,} bytes, and ids have 8: it must be a multiple")
    check_count(len(body) // 8, most, IDS)
    return np.frombuffer(body, "<i8").astype(np.int64, copy=False)


# Arrow


def rows_from_arrow(body: bytes, most: int, width: int | None) -> Rows:
    """Read an Arrow stream: a column of lists of numbers, and perhaps a column `id`."""
    table = _table(body, most)
    lists = [f.name for f in table.schema if f.name != "id"]
    if len(lists) != 1 or not _listed(table.schema.field(lists[0]).type):
        has = ", ".join(f"{f.name} ({f.type})" for f in table.schema)
        raise InputError(
            f"the Arrow stream has {has[:200]}; it must have one column of lists of numbers, and "
            f"a column id where rows have ids"
        )
    named = ["id"] if "id" in table.schema.names else []
    for name in named:
        _check_id_type(table.schema.field(name).type)
    if not table.num_rows:
        raise InputError("the Arrow stream has no rows")
    [batch] = table.select([*lists, *named]).combine_chunks().to_batches()
    size = len(batch.column(0)[0].as_py() or ())
    text = bool(named) and _is_text(table.schema.field("id").type)
    schema = RowSchema(size, "the body", tuple(lists), listed=True, text=text) if size else None
    found = arrow_rows(batch, schema, ReadOptions(tuple(lists), "id" if named else None))
    if found.bad is not None and found.bad.any():
        raise InputError("an id is missing, or is not a whole number of 64 bits or a text")
    return Rows(as_float32(found.rows, width), found.ids if named else None)


def ids_from_arrow(body: bytes, most: int) -> Ids:
    """Read the column `id` of an Arrow stream."""
    table = _table(body, most)
    if table.schema.names != ["id"]:
        raise InputError(f"the Arrow stream must have one column, id, not {table.schema.names}")
    ids = table.column(0)
    _check_id_type(ids.type)
    if ids.null_count:
        raise InputError("an id is missing")
    return as_ids(ids.to_pylist())


def _table(body: bytes, most: int) -> Any:
    """The table of an Arrow stream, read batch by batch: what would grow is refused before that."""
    import pyarrow as pa  # noqa: PLC0415

    batches: list[Any] = []
    rows = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            _check_plain(message)
        with pa.ipc.open_stream(pa.BufferReader(body)) as stream:
            for batch in stream:
                batches.append(batch)
                rows += batch.num_rows
                check_count(rows, most)
            table = pa.Table.from_batches(batches, stream.schema)
        table.validate(full=True)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, struct.error) as error:
        raise InputError(f"the body is not an Arrow stream: {str(error)[:200]}") from None
    if len(set(table.schema.names)) != len(table.schema.names):
        raise InputError("the Arrow stream has two columns of one name")
    return table


def _check_plain(message: Any) -> None:
    """Refuse dictionaries, and batches that name a codec.

    pyarrow has checked the message but does not tell its codec: field 3 of the record batch, which
    is field 2 of the message (a flatbuffer: https://arrow.apache.org/docs/format/Columnar.html).
    """
    if message.type == "dictionary":
        raise InputError("dictionaries in Arrow streams are not read: send plain columns")
    if message.type != "record batch":
        return
    content = message.metadata.to_pybytes()

    def place(table: int, field: int) -> int | None:
        """Where a table has a field; None if it does not have it."""
        fields = table - struct.unpack_from("<i", content, table)[0]
        size = struct.unpack_from("<H", content, fields)[0]
        at = 4 + 2 * field
        offset = struct.unpack_from("<H", content, fields + at)[0] if at < size else 0
        return table + offset if offset else None

    head = place(struct.unpack_from("<I", content)[0], 2)
    if head is None or place(head + struct.unpack_from("<I", content, head)[0], 3) is not None:
        raise InputError("compressed Arrow streams are not read: write it uncompressed")


def _listed(kind: Any) -> bool:
    from pyarrow import types  # noqa: PLC0415

    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists) and bool(
        types.is_integer(kind.value_type) or types.is_floating(kind.value_type)
    )


def _is_text(kind: Any) -> bool:
    from pyarrow import types  # noqa: PLC0415

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_id_type(kind: Any) -> None:
    from pyarrow import types  # noqa: PLC0415

    if not (types.is_integer(kind) or _is_text(kind)):
        raise InputError(f"the column id is {kind}; it must be whole numbers or texts")


# Answers


def wants_arrow(accept: str | None) -> bool:
    """Whether an answer is to be an Arrow stream."""
    return accept is not None and ARROW in accept.lower()


def hits_as_json(hits: Hits) -> bytes:
    """Ids and distances of each query."""
    return to_json({"ids": hits.ids.tolist(), "distances": hits.distances.tolist()})


def hits_as_arrow(hits: Hits) -> bytes:
    """One row per query, with lists of ids and of distances."""
    import pyarrow as pa  # noqa: PLC0415

    distances = hits.distances.astype(np.float64).tolist()
    kind = pa.string() if hits.ids.dtype.kind == "T" else pa.int64()
    ids = pa.array(hits.ids.tolist(), pa.list_(kind))
    return _stream(pa.table({"ids": ids, "distances": pa.array(distances, pa.list_(pa.float64()))}))


def codes_as_json(codes: Codes) -> bytes:
    """Codes as hexadecimal bytes, with their epoch."""
    found: dict[str, Any] = {"epoch": codes.epoch, "bits": codes.bits, "refine": codes.refine}
    found["codes"] = [code.tobytes().hex() for code in codes.packed]
    if codes.refinement is not None:
        found["refinements"] = [code.tobytes().hex() for code in codes.refinement]
    return to_json(found)


def codes_as_arrow(codes: Codes) -> bytes:
    """Columns code, refinement (where there is one) and epoch, as in our Parquet files."""
    import pyarrow as pa  # noqa: PLC0415

    def fixed(values: NDArray[np.uint8]) -> Any:
        return pa.array([one.tobytes() for one in values], pa.binary(values.shape[1]))

    columns = {"code": fixed(codes.packed)}
    if codes.refinement is not None:
        columns["refinement"] = fixed(codes.refinement)
    columns["epoch"] = pa.array(np.full(len(codes), codes.epoch, np.int32))
    return _stream(pa.table(columns))


def rows_as_arrow(ids: Ids, rows: NDArray[Any]) -> bytes:
    """Columns id and row."""
    import pyarrow as pa  # noqa: PLC0415

    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    return _stream(pa.table({"id": pa.array(ids.tolist()), "row": lists}))


def _stream(table: Any) -> bytes:
    import pyarrow as pa  # noqa: PLC0415

    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return out.getvalue()
