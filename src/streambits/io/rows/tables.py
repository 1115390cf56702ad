"""Arrow batches to rows, without a loop over rows. pyarrow is `Any` here: it has no types.

A batch has columns of numbers, or one column of lists, and then the ids, if there are any.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID
from streambits.io.bad_rows import fault, id_fault
from streambits.io.rows.parts import TEXT, At, Layout, Part, float_type, sift
from streambits.model.batches import Reject

FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # Arrow's, and NumPy's
Taken = tuple[NDArray[Any], NDArray[np.int64] | None]


def part(batch: Any, layout: Layout | None, ids: bool, where: str, at: At) -> Part:
    """Good and bad rows of a batch, the last of which is before row at["row"] of the file."""
    rows, known = take(batch, layout, ids)
    columns = [_stored(column) for column in batch.columns]
    start = at["row"] - batch.num_rows

    def reject(place: int) -> Reject:
        values = [column[place].as_py() for column in columns]
        wrong = id_fault(values.pop()) if ids else ""
        wrong = wrong or _fault(values, layout)
        return Reject(f"{where}, row {start + place}", wrong, str(values)[:TEXT])

    return sift(rows, known, at, reject)


def _fault(values: list[Any], layout: Layout | None) -> str:
    if layout is None:
        return fault(values[0])
    return (
        fault(values[0], layout.width)
        if layout.listed
        else fault(values, layout.width, layout.columns)
    )


def take(batch: Any, layout: Layout | None, ids: bool) -> Taken:
    """Rows, filled with NaN where they are bad, and ids. layout: None if no row is good."""
    columns = [_stored(column) for column in batch.columns]
    known, bad = _ids(columns.pop()) if ids else (None, None)
    if layout is None:
        return np.full((batch.num_rows, 1), np.nan), known
    rows = _lists(columns[0], layout.width) if layout.listed else _numbers(columns)
    if bad is not None:
        rows[bad] = np.nan
    return rows, known


def _stored(column: Any) -> Any:
    return getattr(column, "storage", column)  # of an extension type


def _float_type(kind: Any) -> np.dtype[Any]:
    """The precision of numbers of an Arrow type; integers have the names that they have in NumPy.

    `to_pandas_dtype` would need pandas before pyarrow 26.
    """
    return float_type(FLOATS.get(str(kind), str(kind)))


def _numbers(columns: list[Any]) -> NDArray[Any]:
    kinds = [_float_type(column.type) for column in columns]
    rows = np.empty((len(columns[0]), len(columns)), np.result_type(*kinds))
    for place, column in enumerate(columns):
        rows[:, place] = column.to_numpy(zero_copy_only=False)  # NaN where there is nothing
    return rows


def _lists(column: Any, width: int) -> NDArray[Any]:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and seldom needed

    lengths = pc.list_value_length(column)
    good = pc.equal(lengths, width).fill_null(False)
    kind = _float_type(column.type.value_type)
    if pc.all(good).as_py():
        return np.array(column.flatten().to_numpy(zero_copy_only=False), kind).reshape(-1, width)
    rows = np.full((len(column), width), np.nan, kind)
    values = column.filter(good).flatten().to_numpy(zero_copy_only=False)
    rows[good.to_numpy(zero_copy_only=False)] = values.reshape(-1, width)
    return rows


def _ids(column: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Ids, and which are missing or above 64 bits with a sign."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64:
        missing = missing | (values > LAST_ID)
    return values.astype(np.int64), missing if missing.any() else None
