"""Keys: ids as an index holds them, where every id has a number of 64 bits.

The number of a whole number is itself. That of a text is a hash of it, so it needs no table, and is
the same in every index, in every file and whatever came before: what is found depends on the texts,
and not on the order in which they came. Equal distances are therefore in the order of numbers, for
texts that of their hashes. (The order of the texts themselves would need numbers that rise with
them, and all codes would move whenever a text came for which there is no room in between; numbers
in the order of arrival would be history.) Two texts of one hash are refused, not mixed up: with ten
million texts that happens in 1 of 370,000 indexes.
"""

from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import TEXT, Ids
from streambits.errors import InputError
from streambits.kernels.texts import compare_pieces, copy_pieces

Numbers = NDArray[np.int64]
HASH_BYTES = 8
STEP = 1 << 16  # texts that are checked at a time
TRIED = 256  # texts of a file whose hashes are checked


class Texts:
    """Texts one behind the other as UTF-8, never changed.

    Memory: the bytes of the texts, and 8 for each.

    >>> texts = Texts.of(np.array(["one", "deux"], TEXT))
    >>> texts.some(np.array([1])).strings().tolist(), texts.nbytes
    (['deux'], 23)
    """

    def __init__(self, content: NDArray[np.uint8], ends: Numbers) -> None:
        self.content, self.ends = content, ends

    @classmethod
    def of(cls, ids: Ids) -> Self:
        return cls.of_bytes(_encoded(ids))

    @classmethod
    def of_bytes(cls, parts: list[bytes]) -> Self:
        """From UTF-8."""
        content = np.frombuffer(bytearray().join(parts), np.uint8)
        return cls(content, np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts))))

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        return self.content.nbytes + self.ends.nbytes

    def some(self, which: Any) -> "Texts":
        """Those at places, or where a mark is set."""
        places = np.asarray(which)
        starts, lengths = self._pieces(places.nonzero()[0] if places.dtype == np.bool_ else places)
        ends = np.cumsum(lengths)
        content = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        copy_pieces(self.content, starts, lengths, content)
        return Texts(content, ends)

    def followed_by(self, other: "Texts") -> "Texts":
        """These and others."""
        ends = np.concatenate([self.ends, other.ends + len(self.content)])
        return Texts(np.concatenate([self.content, other.content]), ends)

    def equal(self, other: "Texts") -> NDArray[np.bool_]:
        """Which are the same as the others at their places."""
        (starts, lengths), (others, wanted) = (
            texts._pieces(np.arange(len(texts))) for texts in (self, other)
        )
        same = lengths == wanted
        pieces = (starts[same], lengths[same], other.content, others[same])
        same[same] = compare_pieces(self.content, *pieces)
        return np.asarray(same)

    def strings(self) -> Ids:
        """As an array of NumPy."""
        content, bounds = self.content.tobytes(), [0, *self.ends.tolist()]
        return np.array([content[i:j].decode() for i, j in pairwise(bounds)], TEXT)

    def _pieces(self, places: Numbers) -> tuple[Numbers, Numbers]:
        """Where the texts at places start, and their lengths."""
        starts = np.where(places > 0, self.ends[places - 1], 0)
        return starts, self.ends[places] - starts

    def check(self, numbers: Numbers) -> None:
        """Refuse contents that cannot be those of texts with these hashes, of which some are tried.

        All of them would take longer than to read the file.
        """
        bounds = np.concatenate([[0], self.ends])
        if not (np.diff(bounds) > 0).all() or bounds[-1] != len(self.content):
            raise ValueError("the ends of texts are not in ascending order up to the last byte")
        if (self.content[bounds[:-1]] & 0xC0 == 0x80).any():
            raise ValueError("texts begin in the middle of a character")
        for start in range(0, len(self), STEP):
            low, high = bounds[start], bounds[min(start + STEP, len(self))]
            self.content[low:high].tobytes().decode()
        tried = np.arange(0, len(self), -(-len(self) // TRIED) or 1)
        if (numbers_of(self.some(tried).strings()) != numbers[tried]).any():
            raise ValueError("texts have other hashes")


class Keys(NamedTuple):
    """Ids, and what an index knows them by.

    ids: as they were passed; numbers: what the index orders and finds them by; texts: None for
    whole numbers, which are their own numbers.
    """

    ids: Ids
    numbers: Numbers
    texts: Texts | None = None

    @classmethod
    def of(cls, ids: Ids) -> Self:
        """From ids that were checked."""
        if ids.dtype.kind != "T":
            return cls(ids, ids)
        parts = _encoded(ids)
        return cls(ids, _hashes(parts), Texts.of_bytes(parts))

    def some(self, which: NDArray[np.bool_]) -> "Keys":
        """Those where a mark is set."""
        if self.texts is None:
            return Keys.of(self.ids[which])
        return Keys(self.ids[which], self.numbers[which], self.texts.some(which))

    def check_unique(self) -> None:
        """Refuse an id that comes twice."""
        numbers = self.numbers
        if len(numbers) < 2 or (numbers[1:] > numbers[:-1]).all():
            return
        ordered = np.sort(numbers)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            self.check_apart()
            found = self.ids[numbers == twice[0]]
            raise InputError(f"ids has {first(found)} more than once: pass each id once")

    def check_apart(self) -> None:
        """Refuse two texts of one hash."""
        if self.texts is None or len(self.ids) < 2:
            return
        order = np.argsort(self.numbers, kind="stable")
        numbers, ids = self.numbers[order], self.ids[order]
        clash = (numbers[1:] == numbers[:-1]) & (ids[1:] != ids[:-1])
        if clash.any():
            raise clashing(ids[1:][clash], ids[:-1][clash])


def numbers_of(ids: Ids) -> Numbers:
    """The numbers by which ids of either kind are ordered.

    >>> numbers_of(np.array([3, -1])).tolist(), numbers_of(np.array(["a"], TEXT)).tolist()
    ([3, -1], [3405396810240292928])
    """
    return ids if ids.dtype.kind != "T" else _hashes(_encoded(ids))


def first(ids: Ids) -> str:
    """The first of some ids, for messages."""
    return repr(ids[:1].tolist()[0])


def clashing(ids: Ids, others: Ids) -> InputError:
    """What is said of two texts, the first of each, that have the same hash."""
    return InputError(
        f"the ids {first(ids)} and {first(others)} have the same hash, by which an index knows "
        f"texts: change one of them"
    )


def _encoded(ids: Ids) -> list[bytes]:
    return [text.encode() for text in ids.ravel().tolist()]


def _hashes(parts: list[bytes]) -> Numbers:
    digests = [blake2b(part, digest_size=HASH_BYTES).digest() for part in parts]
    return np.frombuffer(bytearray().join(digests), "<i8").astype(np.int64, copy=False)
