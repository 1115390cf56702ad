"""Checking ids: any 64-bit integers, each at most once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import is_array_api_obj, to_numpy
from streambits.errors import InputError

Ids = NDArray[np.int64]
LAST = int(np.iinfo(np.int64).max)


def as_ids(values: Any, name: str = "ids") -> Ids:
    """Check ids and return them as a flat int64 array; a single number is one id.

    >>> as_ids([3, -1]).tolist(), as_ids(5).tolist()
    ([3, -1], [5])
    """
    array = np.atleast_1d(_as_array(values, name))
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, one per code; got shape {array.shape}")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{name} have the type {array.dtype}, the first is {array[0]!r}; they must be whole "
            f"numbers of 64 bits: convert them, for example with astype('int64')"
        )
    if array.dtype == np.uint64 and int(array.max()) > LAST:
        raise InputError(f"{name} has {array.max()}, above {LAST}: view them as int64 instead")
    return array.astype(np.int64, copy=False)


def _as_array(values: Any, name: str) -> NDArray[Any]:
    if is_array_api_obj(values):
        return np.asarray(to_numpy(values))
    if isinstance(values, list | tuple) and bool in set(map(type, values)):
        raise InputError(f"{name} contain truth values; they must be whole numbers of 64 bits")
    try:
        return np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name} cannot be read as an array: {error}") from error


def check_unique(ids: Ids) -> None:
    """Refuse an id that comes twice."""
    if len(ids) < 2 or (ids[1:] > ids[:-1]).all():
        return
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(f"ids has {twice[0]} more than once: pass each id once")
