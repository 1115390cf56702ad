"""Where codes live: sorted by id, without a map from ids to places."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits.index.ids import Ids

Words = NDArray[np.uint64]
Places = NDArray[np.int64]
SLACK = 16  # a sixteenth is kept free for growth, and a sixteenth may be dead
LEAST = 256  # places, below which slack does not matter


class Store:
    """Codes as planes of 64-bit words, in the order of their ids.

    A place is found by bisection; what is removed is marked dead, and dropped by `compact`. So
    the same codes lie in the same order however they came. Only ids above all others are
    appended; any others make a store of their own, and `union` joins two in one pass.
    Memory: 8 bytes a word, 9 for id and mark, at most an eighth more: < 20 for a 64-bit code.

    >>> store = Store.of(np.array([9, 5]), np.array([[1], [2]], np.uint64))
    >>> store.remove(store.find(np.array([5]))[0])
    >>> store.ids.tolist(), len(store)
    ([9], 1)
    """

    def __init__(self, words: Words, ids: Ids, alive: NDArray[np.bool_], dead: int = 0) -> None:
        self.words, self.alive = words, alive
        self.end = len(ids)  # places in use, dead ones included
        self.dead = dead
        self._ids = ids

    @classmethod
    def of(cls, ids: Ids, words: Words) -> Self:
        """Codes, words (n, width), under unique ids in any order."""
        if (ids[1:] < ids[:-1]).any():
            order = np.argsort(ids)
            ids, words = ids[order], words[order]
        return cls._whole(np.ascontiguousarray(words.T), ids)

    @classmethod
    def _whole(cls, planes: Words, ids: Ids) -> Self:
        """All living, by ascending id."""
        return cls(np.ascontiguousarray(planes), ids, np.ones(len(ids), np.bool_))

    def __len__(self) -> int:
        return self.end - self.dead

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self._ids.nbytes + self.alive.nbytes

    @property
    def last(self) -> int:
        """The largest id that has a place, dead ones included."""
        return int(self._ids[self.end - 1])

    @property
    def ids(self) -> Ids:
        """The ids, ascending; a copy."""
        return self._ids[: self.end][self.alive[: self.end]]

    def at(self, places: Places) -> Ids:
        """The ids at places, of any shape."""
        return np.asarray(self._ids[places])

    def find(self, ids: Ids) -> tuple[Places, NDArray[np.bool_]]:
        """The place of every id, and whether it is there; places of the others mean nothing."""
        if self.end == 0:
            return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
        places = self._ids[: self.end].searchsorted(ids)
        np.minimum(places, self.end - 1, out=places)
        return places, np.asarray((self._ids[places] == ids) & self.alive[places])

    def append(self, ids: Ids, words: Words) -> None:
        """Codes, words (n, width), under ascending ids above `last`."""
        end = self.end + len(ids)
        if end > len(self._ids):
            self._grow(max(end, end if self.end == 0 else self.end + self.end // SLACK + LEAST))
        self.words[:, self.end : end] = words.T
        self._ids[self.end : end] = ids
        self.alive[self.end : end] = True
        self.end = end

    def remove(self, places: Places) -> None:
        """Mark as dead."""
        self.alive[places] = False
        self.dead += len(places)

    def update(self, places: Places, words: Words) -> None:
        self.words[:, places] = words.T

    def take(self, places: Places) -> tuple[Ids, Words]:
        """The ids at places, and their codes as planes."""
        return self.at(places), np.asarray(self.words[:, places])

    def compact(self) -> "Store":
        """The living alone."""
        ids, planes = self.take(np.flatnonzero(self.alive[: self.end]))
        return Store._whole(planes, ids)

    def union(self, other: "Store") -> "Store":
        """The living of both; no id is in both."""
        (mine, planes), (ids, more) = (
            store.take(np.flatnonzero(store.alive[: store.end])) for store in (self, other)
        )
        where = mine.searchsorted(ids)
        return Store._whole(np.insert(planes, where, more, axis=1), np.insert(mine, where, ids))

    def state(self) -> dict[str, Any]:
        end = self.end
        planes, alive = self.words[:, :end], self.alive[:end]
        return {"words": planes, "ids": self._ids[:end], "alive": alive, "dead": self.dead}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        words, ids, alive = state["words"], state["ids"], state["alive"]
        if not (words.ndim == 2 and words.shape[1] == len(ids) == len(alive)):
            raise ValueError(f"{words.shape} words for {len(ids)} ids and {len(alive)} marks")
        return cls(words, ids, alive, state["dead"])

    def _grow(self, room: int) -> None:
        words, ids = np.empty((len(self.words), room), np.uint64), np.empty(room, np.int64)
        alive = np.zeros(room, np.bool_)
        words[:, : self.end] = self.words[:, : self.end]
        ids[: self.end] = self._ids[: self.end]
        alive[: self.end] = self.alive[: self.end]
        self.words, self._ids, self.alive = words, ids, alive
