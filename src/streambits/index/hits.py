"""Hits: what a search finds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Hits:
    """Neighbours, nearest first; equal distances in the order of ids.

    ids: (queries, k) int64, or (hits,) for one query of `within`; distances: the same, int32.

    >>> hits = Hits(np.array([[7, 3]]), np.array([[0, 2]], np.int32))
    >>> hits
    Hits(1 x 2)
    >>> len(hits), hits.ids.tolist()
    (1, [[7, 3]])
    """

    ids: NDArray[np.int64]
    distances: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Hits({' x '.join(map(str, self.ids.shape))})"
