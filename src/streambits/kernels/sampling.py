"""The heap of a uniform sample: which of its rows new ones displace."""

import heapq
from typing import Any

import numpy as np

from streambits.kernels import compiled


@compiled
def displace(held: Any, largest: Any, asking: Any, keys: Any) -> Any:
    """Let keys displace the largest held ones, one after the other.

    held: (size,) keys; largest: places of the largest of them, as many as keys may displace;
    asking, keys: (n,) numbers of rows and their keys. Returns the places, in the order of
    `largest`, with the number of the row that has each of them in the end, or -1.
    """
    taken = np.full(len(held), -1, np.int64)
    heap = [(-held[place], place) for place in largest]
    heapq.heapify(heap)
    for i in range(len(asking)):
        if -keys[i] > heap[0][0]:
            place = heap[0][1]
            heapq.heapreplace(heap, (-keys[i], place))
            taken[place] = asking[i]
    return taken[largest]
