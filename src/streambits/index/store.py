"""Where codes live: sorted by id, without a map from ids to places."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits.index.keys import Numbers, Texts
from streambits.model.codes import Codes

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
SLACK = 16  # a sixteenth is kept free for growth, and a sixteenth may be dead
MIN_SLACK = 256  # places, below which slack does not matter


class Contents(NamedTuple):
    """Codes row by row. words: (n, width); refinement: (n, r), of no columns for plain codes.

    texts: the ids, where these are texts.
    """

    words: Words
    refinement: Bytes
    texts: Texts | None = None

    @classmethod
    def of(cls, codes: Codes, texts: Texts | None = None) -> Self:
        refinement = codes.refinement
        if refinement is None:
            refinement = np.empty((len(codes), 0), np.uint8)
        return cls(codes.words(), refinement, texts)

    def some(self, which: Any) -> "Contents":
        """Those at places, or where a mark is set."""
        texts = None if self.texts is None else self.texts.some(which)
        return Contents(self.words[which], self.refinement[which], texts)


class Store:
    """Codes as planes of 64-bit words, in the order of their ids, and their refinements as rows.

    Ids are numbers here; where they stand for texts, these lie beside the codes.

    A place is found by bisection; what is removed is marked dead, and dropped by `compact`. So
    the same codes lie in the same order however they came. Only ids above all others are
    appended; any others make a store of their own, and `union` joins two in one pass.
    Memory: 8 bytes per word, 9 for id and mark, those of the refinement, at most an eighth more:
    < 20 for a 64-bit code; of a text its bytes and 8 more.

    A store never changes for those who hold it: every change gives a new one, which shares the
    arrays where that cannot be seen. What is appended lies beyond the `end` of the old store;
    marks and codes are written in place only if the caller says that nobody reads the old one.
    So of several stores made from one only the last may be appended to.

    >>> codes = Contents.of(Codes.from_bits([[1, 0], [0, 1]]))
    >>> store = Store.of(np.array([9, 5]), codes)
    >>> store = store.without(store.find(np.array([5]))[0])
    >>> store.ids.tolist(), len(store)
    ([9], 1)
    """

    def __init__(
        self,
        words: Words,
        ids: Numbers,
        alive: NDArray[np.bool_],
        refinement: Bytes,
        *,
        end: int | None = None,
        dead: int = 0,
        texts: Texts | None = None,
    ) -> None:
        self.words, self.alive, self.refinement = words, alive, refinement
        self.end = len(ids) if end is None else end  # places in use, dead ones included
        self.dead = dead
        self.texts = texts  # one per place in use
        self._ids = ids

    @classmethod
    def of(cls, ids: Numbers, codes: Contents) -> Self:
        """Codes under unique ids in any order."""
        if (ids[1:] < ids[:-1]).any():
            order = np.argsort(ids)
            ids, codes = ids[order], codes.some(order)
        refinement = codes.refinement.copy()  # others hold it too
        return cls._whole(codes.words.T, ids, refinement, codes.texts)

    @classmethod
    def _whole(cls, planes: Words, ids: Numbers, refinement: Bytes, texts: Texts | None) -> Self:
        """All living, by ascending id."""
        alive, rows = np.ones(len(ids), np.bool_), np.ascontiguousarray(refinement)
        return cls(np.ascontiguousarray(planes), ids, alive, rows, texts=texts)

    def __len__(self) -> int:
        return self.end - self.dead

    @property
    def nbytes(self) -> int:
        arrays = (self.words, self._ids, self.alive, self.refinement)
        return sum(array.nbytes for array in arrays) + (self.texts.nbytes if self.texts else 0)

    @property
    def last(self) -> int:
        """The largest id that has a place, dead ones included."""
        return int(self._ids[self.end - 1])

    @property
    def ids(self) -> Numbers:
        """The ids, ascending; a copy."""
        return self._ids[: self.end][self.alive[: self.end]]

    def at(self, places: Places) -> Numbers:
        """The ids at places, of any shape."""
        return np.asarray(self._ids[places])

    def find(self, ids: Numbers) -> tuple[Places, NDArray[np.bool_]]:
        """The place of every id, and whether it is there; places of the others mean nothing."""
        if self.end == 0:
            return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
        places = self._ids[: self.end].searchsorted(ids)
        np.minimum(places, self.end - 1, out=places)
        return places, np.asarray((self._ids[places] == ids) & self.alive[places])

    def appended(self, ids: Numbers, codes: Contents) -> "Store":
        """With codes under ascending ids above `last`."""
        end, room = self.end + len(ids), len(self._ids)
        if end > room:
            room = max(end, end if self.end == 0 else self.end + self.end // SLACK + MIN_SLACK)
        new = self._with_room(room)
        new.words[:, self.end : end] = codes.words.T
        new.refinement[self.end : end] = codes.refinement
        new._ids[self.end : end] = ids
        new.alive[self.end : end] = True
        new.end = end
        if self.texts is not None and codes.texts is not None:
            new.texts = self.texts.followed_by(codes.texts)
        return new

    def without(self, places: Places) -> "Store":
        """With these places marked as dead."""
        alive = self.alive.copy()
        alive[places] = False
        dead = self.dead + len(places)
        return Store(
            self.words,
            self._ids,
            alive,
            self.refinement,
            end=self.end,
            dead=dead,
            texts=self.texts,
        )

    def codes_at(self, places: Places) -> Contents:
        """The codes at places, without texts."""
        return Contents(self.words[:, places].T, self.refinement[places])

    def compact(self) -> "Store":
        """The living alone."""
        living = np.flatnonzero(self.alive[: self.end])
        codes = self.codes_at(living)
        texts = None if self.texts is None else self.texts.some(living)
        return Store._whole(codes.words.T, self.at(living), codes.refinement, texts)

    def union(self, other: "Store") -> "Store":
        """The living of both; no id is in both."""
        own, others = (np.flatnonzero(store.alive[: store.end]) for store in (self, other))
        (mine, codes), (ids, more) = (
            (store.at(living), store.codes_at(living))
            for store, living in ((self, own), (other, others))
        )
        where, texts = mine.searchsorted(ids), None
        planes = np.insert(codes.words.T, where, more.words.T, axis=1)
        refinement = np.insert(codes.refinement, where, more.refinement, axis=0)
        if self.texts is not None and other.texts is not None:
            places = np.insert(own, where, self.end + others)
            texts = self.texts.followed_by(other.texts).some(places)
        return Store._whole(planes, np.insert(mine, where, ids), refinement, texts)

    def state(self) -> dict[str, Any]:
        end = self.end
        planes, alive = self.words[:, :end], self.alive[:end]
        name = (
            "ids" if self.texts is None else "hashes"
        )  # so that no old version takes them for ids
        state = {"words": planes, name: self._ids[:end], "alive": alive, "dead": self.dead}
        if self.texts is not None:
            state |= {"texts": self.texts.content, "ends": self.texts.ends}
        if self.refinement.shape[1]:
            state["refinement"] = self.refinement[:end]
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any], bits: int, refine: int = 0) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        name = "hashes" if "texts" in state else "ids"
        words, ids, alive, dead = (state[each] for each in ("words", name, "alive", "dead"))
        count = len(ids)
        refinement = state.get("refinement", np.empty((count, 0), np.uint8))
        expected = {
            "words": (words, np.uint64, (-(-bits // 64), count)),
            name: (ids, np.int64, (count,)),
            "alive": (alive, np.bool_, (count,)),
            "refinement": (refinement, np.uint8, (count, refine)),
        }
        texts = Texts(state["texts"], state["ends"]) if "texts" in state else None
        if texts is not None:
            expected["texts"] = (texts.content, np.uint8, (texts.content.size,))
            expected["ends"] = (texts.ends, np.int64, (count,))
        check_shapes(expected)
        if type(dead) is not int or not 0 <= dead <= count:
            raise ValueError(f"{dead} of {count} codes are dead")
        return cls(words, ids, alive, refinement, dead=dead, texts=texts)

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
        if self.texts is not None:
            self.texts.check(self._ids)

    def _with_room(self, room: int) -> "Store":
        """The same codes, in arrays of their own if these have other room."""
        words, ids, alive, refinement = self.words, self._ids, self.alive, self.refinement
        if room != len(self._ids):
            words, ids = np.empty((len(self.words), room), np.uint64), np.empty(room, np.int64)
            alive = np.zeros(room, np.bool_)
            refinement = np.empty((room, self.refinement.shape[1]), np.uint8)
            words[:, : self.end] = self.words[:, : self.end]
            ids[: self.end] = self._ids[: self.end]
            alive[: self.end] = self.alive[: self.end]
            refinement[: self.end] = self.refinement[: self.end]
        return Store(words, ids, alive, refinement, end=self.end, dead=self.dead, texts=self.texts)


def check_shapes(expected: dict[str, tuple[NDArray[Any], Any, tuple[int, ...]]]) -> None:
    """Refuse arrays of other types and shapes than a kernel takes for granted."""
    for name, (array, kind, shape) in expected.items():
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {np.dtype(kind)} {shape}")
