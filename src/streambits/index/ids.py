"""Ids: any 64-bit integers, each at most once."""

import numpy as np
from numpy.typing import NDArray

from streambits.errors import InputError

Ids = NDArray[np.int64]


def check_unique(ids: Ids) -> None:
    """Refuse an id that comes twice."""
    if len(ids) < 2 or (ids[1:] > ids[:-1]).all():
        return
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(f"ids has {twice[0]} more than once: pass each id once")
