"""Where codes live: sorted by id, without a map from ids to places."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Words = NDArray[np.uint64]
Places = NDArray[np.int64]
SLACK = 16  # a sixteenth is kept free for growth, and a sixteenth may be dead
LEAST = 256  # places, below which slack does not matter


class Store:
    """Codes as planes of 64-bit words, in the order of their ids.

    A place is found by bisection; what is removed is marked dead, and dropped by `compact`. So
    the same codes lie in the same order however they came. Only ids above all others are
    appended; any others make a store of their own, and `union` joins two in one pass.
    Memory: 8 bytes per word, 9 for id and mark, at most an eighth more: < 20 for a 64-bit code.

    A store never changes for those who hold it: every change gives a new one, which shares the
    arrays where that cannot be seen. What is appended lies beyond the `end` of the old store;
    marks and words are written in place only if the caller says that nobody reads the old one.
    So of several stores made from one only the last may be appended to.

    >>> store = Store.of(np.array([9, 5]), np.array([[1], [2]], np.uint64))
    >>> store = store.without(store.find(np.array([5]))[0])
    >>> store.ids.tolist(), len(store)
    ([9], 1)
    """

    def __init__(
        self,
        words: Words,
        ids: Ids,
        alive: NDArray[np.bool_],
        *,
        end: int | None = None,
        dead: int = 0,
    ) -> None:
        self.words, self.alive = words, alive
        self.end = len(ids) if end is None else end  # places in use, dead ones included
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

    def appended(self, ids: Ids, words: Words) -> "Store":
        """With codes, words (n, width), under ascending ids above `last`."""
        end, room = self.end + len(ids), len(self._ids)
        if end > room:
            room = max(end, end if self.end == 0 else self.end + self.end // SLACK + LEAST)
        new = self._with_room(room)
        new.words[:, self.end : end] = words.T
        new._ids[self.end : end] = ids
        new.alive[self.end : end] = True
        new.end = end
        return new

    def without(self, places: Places, *, in_place: bool = False) -> "Store":
        """With these places marked as dead. in_place: nobody reads this store any more."""
        alive = self.alive if in_place else self.alive.copy()
        alive[places] = False
        dead = self.dead + len(places)
        return Store(self.words, self._ids, alive, end=self.end, dead=dead)

    def overwrite(self, places: Places, words: Words) -> None:
        """Other codes at places, for all that hold this store: only if nobody reads it."""
        self.words[:, places] = words.T

    def codes_at(self, places: Places) -> tuple[Ids, Words]:
        """The ids at places, and their codes as planes."""
        return self.at(places), np.asarray(self.words[:, places])

    def compact(self) -> "Store":
        """The living alone."""
        ids, planes = self.codes_at(np.flatnonzero(self.alive[: self.end]))
        return Store._whole(planes, ids)

    def union(self, other: "Store") -> "Store":
        """The living of both; no id is in both."""
        (mine, planes), (ids, more) = (
            store.codes_at(np.flatnonzero(store.alive[: store.end])) for store in (self, other)
        )
        where = mine.searchsorted(ids)
        return Store._whole(np.insert(planes, where, more, axis=1), np.insert(mine, where, ids))

    def state(self) -> dict[str, Any]:
        end = self.end
        planes, alive = self.words[:, :end], self.alive[:end]
        return {"words": planes, "ids": self._ids[:end], "alive": alive, "dead": self.dead}

    @classmethod
    def from_state(cls, state: dict[str, Any], bits: int) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        words, ids, alive, dead = (state[name] for name in ("words", "ids", "alive", "dead"))
        count = len(ids)
        expected = {
            "words": (words, np.uint64, (-(-bits // 64), count)),
            "ids": (ids, np.int64, (count,)),
            "alive": (alive, np.bool_, (count,)),
        }
        check_shapes(expected)
        if type(dead) is not int or not 0 <= dead <= count:
            raise ValueError(f"{dead} of {count} codes are dead")
        return cls(words, ids, alive, dead=dead)

    def check(self, bits: int) -> None:
        """Refuse contents that cannot be: what a search relies on, in one pass over the arrays."""
        if not (self._ids[1:] > self._ids[:-1]).all():
            raise ValueError("the ids are not in ascending order")
        if self.alive.view(np.uint8).max(initial=0) > 1:
            raise ValueError("marks of the living are neither 0 nor 1")
        if self.dead != self.end - np.count_nonzero(self.alive):
            raise ValueError(f"{self.dead} codes are said to be dead, and others are")
        past = bits % 64
        if past and int(self.words[-1].max(initial=0)) >> past:
            raise ValueError(f"bits past the {bits}th are set")

    def _with_room(self, room: int) -> "Store":
        """The same codes, in arrays of their own if these have other room."""
        if room == len(self._ids):
            return Store(self.words, self._ids, self.alive, end=self.end, dead=self.dead)
        words, ids = np.empty((len(self.words), room), np.uint64), np.empty(room, np.int64)
        alive = np.zeros(room, np.bool_)
        words[:, : self.end] = self.words[:, : self.end]
        ids[: self.end] = self._ids[: self.end]
        alive[: self.end] = self.alive[: self.end]
        return Store(words, ids, alive, end=self.end, dead=self.dead)


def check_shapes(expected: dict[str, tuple[NDArray[Any], Any, tuple[int, ...]]]) -> None:
    """Refuse arrays of other types and shapes than a kernel takes for granted."""
    for name, (array, kind, shape) in expected.items():
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {np.dtype(kind)} {shape}")
