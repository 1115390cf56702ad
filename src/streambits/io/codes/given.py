"""What sinks are given: ids and codes, checked, and each id once."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_ids
from streambits.errors import InputError
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes

LAST = int(np.iinfo(np.int32).max)  # epoch


class Rows(NamedTuple):
    """Rows of codes in their order. ids: (n,); packed: (n, bytes); epochs: (n,)."""

    ids: NDArray[np.int64]
    packed: NDArray[np.uint8]
    epochs: NDArray[np.int32]

    @classmethod
    def of(cls, ids: NDArray[np.int64], codes: Codes) -> "Rows":
        """Rows of one epoch, which must have room in 32 bits."""
        if codes.epoch > LAST:
            raise InputError(
                f"codes are of epoch {codes.epoch}, and this sink takes epochs up to {LAST:,}: "
                f"use an index"
            )
        return cls(ids, codes.packed, np.full(len(ids), codes.epoch, np.int32))

    @classmethod
    def concat(cls, parts: list["Rows"]) -> "Rows":
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def take(self, which: Any) -> "Rows":
        return Rows(*(column[which] for column in self))

    def coded(self, bits: int) -> list[CodeBatch]:
        """The same, in order, as many pieces as needed for one epoch each."""
        cuts = [0, *(np.flatnonzero(np.diff(self.epochs)) + 1).tolist(), len(self.ids)]
        return [
            CodeBatch(self.ids[a:b], Codes(self.packed[a:b], bits, int(self.epochs[a])))
            for a, b in pairwise(cuts)
            if b > a
        ]


def as_given(ids: Any, codes: Codes, bits: int) -> NDArray[np.int64]:
    """Check what a sink for codes of `bits` bits is given."""
    chosen = as_ids(ids)
    if codes.bits != bits:
        raise InputError(f"codes have {codes.bits} bits, and the sink is for {bits}")
    if len(chosen) != len(codes):
        raise InputError(f"there are {len(chosen)} ids for {len(codes)} codes: pass one id a code")
    return chosen


def last_of_each(ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the ids do not come again. Memory: about 24 bytes an id.

    >>> last_of_each(np.array([1, 2, 1])).tolist()
    [False, True, True]
    """
    keep = np.zeros(len(ids), np.bool_)
    keep[len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]] = True
    return keep
