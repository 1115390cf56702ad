"""The only input validation, and the few array helpers that every layer shares.

Rows may come as NumPy arrays, lists, data frames or arrays of any library that follows the array
API standard (torch, CuPy, array-api-strict). They are checked once, here, and moved to the library,
device and precision of the part that uses them.
"""

import math
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_numpy_array,
    is_torch_array,
)
from numpy.typing import NDArray

from streambits._device import upload
from streambits.errors import InputError

LARGEST = 1e150  # what double precision can square, and sum
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
LAST_ID = int(np.iinfo(np.int64).max)

TEXT: Any = np.dtypes.StringDType()

Ids = NDArray[Any]
"""Ids: whole numbers of 64 bits, or texts (NumPy's StringDType)."""

NOT_COORDINATES = ("id", "ids", "label", "labels", "target", "class")  # names of columns

NO_IDS: Ids = np.empty(0, np.int64)

Array = Any
"""An array of any library; the standard has no static type for it yet."""

# What other modules take from here, though it is not of here.
__all__ = ["array_namespace", "device", "is_array_api_obj", "is_numpy_array"]


class CheckedRows(NamedTuple):
    """Rows that `as_rows` has returned, or some of them: it does not check every value again.

    Attributes
    ----------
    rows : array of shape (n, d)
        Floating and finite.
    """

    rows: Array


def as_rows(
    values: object, *, like: Array = None, width: int | None = None, name: str = "rows"
) -> Array:
    """Check rows and return them as a finite two-dimensional floating array.

    Parameters
    ----------
    values : array-like of shape (n, d), or CheckedRows
    like : array, optional
        An array whose library, device and precision the result has. Without it, float32 and float64
        stay, half precision and integers of up to 16 bits become float32, the rest float64.
    width : int, optional
        The number of columns they must have.
    name : str
        For messages.

    Returns
    -------
    array of shape (n, d)
        The same array where nothing must change.

    Raises
    ------
    InputError
        If they are not real numbers, empty, of another shape, not finite, or too large to square.

    Notes
    -----
    Costs one pass over the values, none over `CheckedRows`; copies only what must change.
    """
    if isinstance(values, CheckedRows):
        return _as_checked(values.rows, like, width, name)
    if _fits(values, like, width):
        _check_finite(values, name)
        return values
    array = _as_array(values, name)
    _check_shape(array, width, name)
    array = _as_float(array, name)
    if like is not None:
        array = move(array, like)
    _check_finite(array, name)
    return array


def _fits(values: Any, like: Array, width: int | None) -> bool:
    """Whether rows are a plain array of NumPy that is right but for what it holds: the usual."""
    return (
        type(values) is np.ndarray
        and values.ndim == 2
        and len(values) > 0
        and values.dtype in FLOATS
        and 0 < values.shape[1] == (width or values.shape[1])
        and (like is None or (type(like) is np.ndarray and values.dtype == like.dtype))
    )


def _as_checked(rows: Array, like: Array, width: int | None, name: str) -> Array:
    _check_shape(rows, width, name)
    moved = rows if like is None else move(rows, like)
    if moved.dtype != rows.dtype:  # it may have overflowed
        _check_finite(moved, name)
    return moved


def column_names(values: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame or an Arrow table; None where they are not all texts.

    >>> column_names(np.zeros((2, 3)))
    """
    names = getattr(values, "column_names", None)  # of Arrow
    if names is None:
        names = getattr(values, "columns", None)  # of pandas and polars
    if names is None or callable(names) or not len(names):
        return None
    return tuple(map(str, names)) if all(isinstance(one, str) for one in names) else None


def is_rows(values: Any) -> bool:
    """Whether something is one array of rows, or a frame, and not an iterable of such."""
    return getattr(values, "ndim", None) == 2 or column_names(values) is not None


def _check_names(values: object, name: str) -> None:
    """Refuse a frame with a column that by its name is not a coordinate."""
    for column in column_names(values) or ():
        if column.strip().lower() in NOT_COORDINATES:
            raise InputError(
                f"{name} have the column {column!r}, which by its name is not a coordinate: drop "
                f"it (ids are passed as ids=), or pass {name}.to_numpy() if it is one"
            )


def check_not_masked(values: object, name: str) -> None:
    """Refuse a masked array in which something is masked."""
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return
    place = ", ".join(str(int(where[0])) for where in np.nonzero(np.ma.getmaskarray(values)))
    raise InputError(f"{name}[{place}] is masked: drop or fill such rows")


def _as_array(values: object, name: str) -> Array:
    if isinstance(values, np.ndarray):
        check_not_masked(values, name)
        return np.asarray(values)  # a matrix is an array here, and a masked array that has no mask
    _check_names(values, name)
    if is_array_api_obj(values):
        return values
    if hasattr(values, "tocsr"):
        raise InputError(f"{name} is a sparse matrix; pass {name}.toarray()")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} cannot be read as an array: {error}") from error


def _check_shape(array: Array, width: int | None, name: str) -> None:
    if array.ndim == 1:
        raise InputError(
            f"{name} must be two-dimensional, one row per vector; got one dimension of length "
            f"{array.shape[0]}. Reshape your data: {name}.reshape(1, -1) for a single vector"
        )
    if array.ndim != 2:
        raise InputError(
            f"{name} must be two-dimensional, one row per vector; got shape {tuple(array.shape)}"
        )
    if array.shape[0] == 0:
        raise InputError(f"{name} is empty: 0 sample(s) (shape={tuple(array.shape)}); skip it")
    if array.shape[1] == 0:
        raise InputError(f"{name} has 0 feature(s) (shape={tuple(array.shape)})")
    if width is not None and array.shape[1] != width:
        raise InputError(
            f"{name} has {array.shape[1]} columns, but this was built for {width}: "
            f"pass {name} of shape (n, {width})"
        )


def _as_float(array: Array, name: str) -> Array:
    xp = array_namespace(array)
    if is_numpy_array(array) and array.dtype.kind not in "fiub":
        array = _parse_objects(array, name)
    if xp.isdtype(array.dtype, "complex floating"):
        raise InputError(
            f"{name} has the complex type {array.dtype}; Complex data not supported: "
            f"pass real numbers"
        )
    if array.dtype in (xp.float32, xp.float64):
        return array
    if xp.isdtype(array.dtype, "real floating"):  # half precision or long double
        small = xp.finfo(array.dtype).bits < 32
    else:
        small = array.dtype == xp.bool or xp.iinfo(array.dtype).bits <= 16
    return xp.astype(array, xp.float32 if small else xp.float64)


def _parse_objects(array: Array, name: str) -> Array:
    """Accept object arrays that hold real numbers; refuse text, dates and the rest."""
    if array.dtype.kind == "O" and not any(isinstance(v, str | bytes) for v in array.flat):
        if any(isinstance(v, complex) for v in array.flat):
            return array.astype(np.complex128)
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} holds something that is not a number: {error}") from error
    if array.dtype.kind == "c":
        return array
    raise InputError(f"{name} has the type {array.dtype}, which is not numeric: convert it first")


def _check_finite(array: Array, name: str) -> None:
    if type(array) is np.ndarray and array.dtype == np.float32:
        smallest, largest = np.minimum.reduce(array, axis=None), np.maximum.reduce(array, axis=None)
        if -math.inf < smallest and largest < math.inf:  # false for NaN
            return
    xp = array_namespace(array)
    limit = LARGEST if array.dtype == xp.float64 else float("inf")
    if bool(xp.max(array) < limit) and bool(xp.min(array) > -limit):  # false for NaN
        return
    row, column = (int(i[0]) for i in xp.nonzero(~(xp.abs(array) < limit)))
    value = float(array[row, column])
    if math.isfinite(value):
        raise InputError(f"{name}[{row}, {column}] is {value}, too large to square: scale the data")
    raise InputError(
        f"{name}[{row}, {column}] is {'NaN' if value != value else value}: "
        f"drop or fill such rows (NaN and infinity have no place in Euclidean space)"
    )


def to_numpy(array: Array) -> Array:
    """Return the same values as a NumPy array on the host, without a copy where possible."""
    if is_numpy_array(array):
        return array
    if is_torch_array(array):
        return array.detach().cpu().numpy()
    if is_cupy_array(array):
        return array.get()
    return np.from_dlpack(array)


def move(array: Array, like: Array, dtype: Any = None) -> Array:
    """Return `array` in the library and on the device of `like`, in its precision or in `dtype`."""
    xp = array_namespace(like)
    dtype = like.dtype if dtype is None else dtype
    if is_numpy_array(array) and is_numpy_array(like):
        with np.errstate(over="ignore"):  # what overflows is found by the finite check
            return array.astype(dtype, copy=False)
    if array_namespace(array) is not xp:
        array = xp.asarray(to_numpy(array), device=device(like))
    if device(array) != device(like):
        array = xp.asarray(array, device=device(like))
    return xp.astype(array, dtype, copy=False)


def zeros(shape: int | tuple[int, ...], like: Array) -> Array:
    """Return zeros in double precision, in the library and on the device of `like`."""
    xp = array_namespace(like)
    return xp.zeros(shape, dtype=xp.float64, device=device(like))


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array that nobody else holds read-only, and return it."""
    array.flags.writeable = False
    return array


def blocks(rows: Array, step: int) -> list[Array]:
    """Cut rows into a list of at most `step` each."""
    count = int(rows.shape[0])
    return [rows[i : min(i + step, count), :] for i in range(0, count, step)]


def take(rows: Array, places: Any) -> Array:
    """Select the rows at `places`, a NumPy array of whole numbers."""
    if is_numpy_array(rows):
        return rows[places]
    return array_namespace(rows).take(rows, upload(np.asarray(places), rows), axis=0)


def put(array: Array, places: Any, rows: Array, which: Any) -> None:
    """Copy some rows to places of an array; both are selected by NumPy arrays of whole numbers."""
    if is_numpy_array(array):
        array[places] = to_numpy(take(rows, which))
    elif is_torch_array(array) or is_cupy_array(array):
        if len(places):
            array[upload(places, array)] = take(rows, which)
    else:  # the standard has no assignment to several places
        for place, row in zip(places.tolist(), which.tolist(), strict=True):
            array[place, :] = rows[row, :]


def moved(state: Any, like: Array, *, but: tuple[str, ...] = ()) -> Any:
    """Return what `state` of a part gave, with its floating arrays on the device of `like`.

    Parameters
    ----------
    state : dict
        Arrays and plain values by name, also in further dicts.
    like : array
        In the library and on the device that arrays are moved to.
    but : tuple of str
        Names that stay where they are.
    """
    if isinstance(state, dict):
        return {
            name: value if name in but else moved(value, like, but=but)
            for name, value in state.items()
        }
    if is_array_api_obj(state) and array_namespace(state).isdtype(state.dtype, "real floating"):
        return to_device_of(state, like)
    return state


def double(array: Array) -> Array:
    """Return `array` in double precision, copied only if it has another."""
    xp = array_namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def to_device_of(array: Array, like: Array) -> Array:
    """Return `array` in the library and on the device of `like`, in its own precision."""
    xp = array_namespace(like)
    single = array_namespace(array).finfo(array.dtype).bits == 32
    return move(array, like, xp.float32 if single else xp.float64)


def squared_distances(rows: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """Compute squared distances by one product, in double precision on the host.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    others : ndarray of shape (m, d)

    Returns
    -------
    ndarray of shape (n, m)

    Notes
    -----
    The squares are expanded, so both should lie around 0; rounding may leave distances near 0 a
    little below it.
    """
    squares = np.vecdot(rows, rows)[:, None] + np.vecdot(others, others)
    return np.asarray(squares - 2 * (rows @ others.T))


def nbytes(*arrays: Array) -> int:
    """Count the bytes that floating arrays hold together."""
    return sum(math.prod(a.shape) * array_namespace(a).finfo(a.dtype).bits // 8 for a in arrays)


def same(left: object, right: object) -> bool:
    """Whether two arrays of any library, or two plain values, are equal."""
    if is_array_api_obj(left) and is_array_api_obj(right):
        return np.array_equal(to_numpy(left), to_numpy(right))
    return bool(left == right)


def as_count(value: object, name: str, *, least: int = 1, most: int | None = None) -> int:
    """Check that a value is a whole number from `least` to `most`, or raise InputError."""
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        count = None
    if count is None or isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; it must be a whole number")
    if count < least or (most is not None and count > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} is {count}; it must be {limits}")
    return count


def as_number(
    value: object,
    name: str,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
) -> float:
    """Check that a value is a finite real number, or raise InputError.

    Parameters
    ----------
    value : object
    name : str
        For messages.
    above, least, most : float
        It must be larger than `above`, at least `least` and at most `most`.

    Returns
    -------
    float
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} is {value!r}; it must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and above < number and least <= number <= most):
        limits = (
            (f" and above {above}" if above > -math.inf else "")
            + (f" and at least {least}" if least > -math.inf else "")
            + (f" and at most {most}" if most < math.inf else "")
        )
        raise InputError(f"{name} is {number}; it must be finite{limits}")
    return number


def as_choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    """Check that a value is one of a few names, or raise InputError."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; choose one of {', '.join(choices)}")
    return str(value)


def as_seed(seed: object) -> int:
    """Return an integer seed from an integer or a Generator (which is advanced by one draw)."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return as_count(seed, "seed", least=0)


def as_ids(values: Any, name: str = "ids") -> Ids:
    """Check ids: whole numbers of 64 bits, or texts.

    Parameters
    ----------
    values : array-like of whole numbers or of texts
        A single one is one id. UUIDs are texts.
    name : str
        For messages.

    Returns
    -------
    array of shape (n,), int64 or NumPy's StringDType

    Raises
    ------
    InputError
        If they are neither, or not in one dimension.

    Examples
    --------
    >>> as_ids([3, -1]).tolist(), as_ids(5).tolist(), as_ids(["a", "b"]).tolist()
    ([3, -1], [5], ['a', 'b'])
    """
    array = np.atleast_1d(_as_id_array(values, name))
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, one per code; got shape {array.shape}")
    if array.dtype.kind in "TUO":
        texts = [str(v) if isinstance(v, UUID) else v for v in array.tolist()]
        wrong = [v for v in texts if not isinstance(v, str) or not v]
        if not wrong:
            return np.array(texts, TEXT) if texts or array.dtype.kind == "T" else NO_IDS
        if array.dtype.kind != "O" or any(isinstance(v, str) for v in texts):
            raise InputError(f"{name} has {wrong[0]!r} among texts; each must be a text, not empty")
    if array.size == 0:
        return NO_IDS
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{name} have the type {array.dtype}, the first is {array[0]!r}; they must be whole "
            f"numbers of 64 bits or texts: convert them, for example with astype('int64')"
        )
    if array.dtype == np.uint64 and int(array.max()) > LAST_ID:
        raise InputError(f"{name} has {array.max()}, above {LAST_ID}: view them as int64 instead")
    return array.astype(np.int64, copy=False)


def concat_ids(parts: Iterable[Ids]) -> Ids:
    """All ids of some arrays, which must be of one kind; those without ids are of any.

    >>> concat_ids([as_ids([]), as_ids(["a"]), as_ids(["b"])]).tolist()
    ['a', 'b']
    """
    some = [part for part in parts if len(part)]
    if len({part.dtype.kind for part in some}) > 1:
        first, other = (next(p[0] for p in some if p.dtype.kind == kind) for kind in "iT")
        raise InputError(f"ids are whole numbers ({first}) and texts ({other!r}): use one kind")
    return np.concatenate(some) if some else NO_IDS


class IdPlaces:
    """Where ids are in an array of them, each of which is there once.

    Texts are looked up one by one: `np.searchsorted` compares texts of more than 15 bytes wrongly
    where the two arrays are not one, up to NumPy 2.4 (https://github.com/numpy/numpy/issues/31533).

    >>> IdPlaces(as_ids(["b", "a"]))(as_ids(["a", "c"])).tolist()
    [1, -1]
    """

    def __init__(self, ids: Ids) -> None:
        self._kind = ids.dtype.kind
        if self._kind == "T":
            self._places = {key: place for place, key in enumerate(ids.tolist())}
        else:
            self._order = np.argsort(ids, kind="stable")
            self._sorted = ids[self._order]

    def __call__(self, ids: Ids) -> NDArray[np.int64]:
        """The place of each id, or -1 where it is not there."""
        places = np.full(len(ids), -1, np.int64)
        if ids.dtype.kind != self._kind or not len(ids):
            return places
        if self._kind == "T":
            places[:] = [self._places.get(key, -1) for key in ids.tolist()]
        elif len(self._sorted):
            near = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
            there = self._sorted[near] == ids
            places[there] = self._order[near[there]]
        return places


def _as_id_array(values: Any, name: str) -> NDArray[Any]:
    check_not_masked(values, name)
    if is_array_api_obj(values):
        return np.asarray(to_numpy(values))
    if isinstance(values, list | tuple) and bool in set(map(type, values)):
        raise InputError(f"{name} contain truth values; they must be whole numbers of 64 bits")
    if isinstance(values, list | tuple) and any(isinstance(v, str | UUID) for v in values):
        return np.array(values, object)  # or NumPy makes texts of numbers among them
    try:
        return np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name} cannot be read as an array: {error}") from error
