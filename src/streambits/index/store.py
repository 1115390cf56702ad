"""Where the codes of an index live: sorted by id, without a map from ids to places."""

import numpy as np
from numpy.typing import NDArray

from streambits.errors import InputError
from streambits.index.ids import Ids

Words = NDArray[np.uint64]
SLACK = 16  # a sixteenth is kept free for growth, and a sixteenth may be dead
LEAST = 256  # places, below which slack does not matter


class Store:
    """Codes as planes of 64-bit words, in the order of their ids.

    A place is found by bisection; what is removed is marked dead, and dropped when a sixteenth
    is. So the same codes lie in the same order however they came, and a removal costs one search
    and, amortised, 16 moves. Ids above all others are appended; any others cost a pass over
    everything, so add those in large batches.
    Memory: 8 bytes a word, 9 for id and mark, at most an eighth more: < 20 for a 64-bit code.

    >>> store = Store(1)
    >>> store.add(np.array([5, 9]), np.array([[1], [2]], np.uint64))
    >>> store.remove(store.places(np.array([5])))
    >>> store.ids.tolist(), len(store)
    ([9], 1)
    """

    def __init__(self, width: int) -> None:
        self.words: Words = np.empty((width, 0), np.uint64)
        self.alive = np.empty(0, np.bool_)
        self.end = 0  # places in use, dead ones included
        self.dead = 0
        self._ids: Ids = np.empty(0, np.int64)

    def __len__(self) -> int:
        return self.end - self.dead

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.alive.nbytes + self._ids.nbytes

    @property
    def ids(self) -> Ids:
        """The ids, ascending; a copy."""
        return self._ids[: self.end][self.alive[: self.end]]

    def at(self, places: NDArray[np.int64]) -> Ids:
        """The ids at places, of any shape."""
        return self._ids[places] if places.size else np.empty(places.shape, np.int64)

    def find(self, ids: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The place of every id, and whether it is there; places of the others mean nothing."""
        if self.end == 0:
            return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
        places = self._ids[: self.end].searchsorted(ids)
        np.minimum(places, self.end - 1, out=places)
        return places, (self._ids[places] == ids) & self.alive[places]

    def places(self, ids: Ids) -> NDArray[np.int64]:
        """The place of every id, all of which must be there."""
        places, there = self.find(ids)
        if not there.all():
            raise InputError(f"the id {ids[~there][0]} is not in the index: add it first")
        return places

    def add(self, ids: Ids, words: Words) -> None:
        """Insert codes, words (n, width), under ids that are unique and not there yet."""
        if (ids[1:] < ids[:-1]).any():
            order = np.argsort(ids)
            ids, words = ids[order], words[order]
        if self.end == 0 or (len(ids) and ids[0] > self._ids[self.end - 1]):
            self._append(ids, words)
        elif len(ids):
            self._merge(ids, words)

    def remove(self, places: NDArray[np.int64]) -> None:
        self.alive[places] = False
        self.dead += len(places)
        if self.dead * SLACK > max(self.end, LEAST):
            self._replace(*self.take(np.flatnonzero(self.alive[: self.end])))

    def update(self, places: NDArray[np.int64], words: Words) -> None:
        self.words[:, places] = words.T

    def take(self, places: NDArray[np.int64]) -> tuple[Ids, Words]:
        """The ids at ascending places, and their codes as planes."""
        return self._ids[places], self.words[:, places]

    def _append(self, ids: Ids, words: Words) -> None:
        end = self.end + len(ids)
        if end > len(self._ids):
            self._grow(max(end, end if self.end == 0 else self.end + self.end // SLACK + LEAST))
        self.words[:, self.end : end] = words.T
        self._ids[self.end : end] = ids
        self.alive[self.end : end] = True
        self.end = end

    def _grow(self, room: int) -> None:
        words, ids = np.empty((len(self.words), room), np.uint64), np.empty(room, np.int64)
        alive = np.zeros(room, np.bool_)
        words[:, : self.end] = self.words[:, : self.end]
        ids[: self.end] = self._ids[: self.end]
        alive[: self.end] = self.alive[: self.end]
        self.words, self._ids, self.alive = words, ids, alive

    def _merge(self, ids: Ids, words: Words) -> None:
        old, planes = self.take(np.flatnonzero(self.alive[: self.end]))
        where = old.searchsorted(ids)
        self._replace(np.insert(old, where, ids), np.insert(planes, where, words.T, axis=1))

    def _replace(self, ids: Ids, words: Words) -> None:
        """All living codes, by ascending id, as planes."""
        self.words, self._ids = np.ascontiguousarray(words), ids
        self.alive, self.end, self.dead = np.ones(len(ids), np.bool_), len(ids), 0
