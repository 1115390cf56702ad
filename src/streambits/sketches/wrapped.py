"""What sketches built around another sketch share."""

from typing import Any, Generic, Self, TypeVar

from streambits._arrays import Array
from streambits.sketches.base import Directions, Part
from streambits.sketches.frequent_directions import FrequentDirections
from streambits.sketches.gram import Gram

Inner = TypeVar("Inner", bound=FrequentDirections | Gram)


class Wrapped(Generic[Inner]):
    """A sketch that keeps its rows in another one; a subclass changes what goes in or comes out.

    It has no `matrix`: what the inner one holds is no summary B of the rows, or not all of it.
    """

    learns = True

    def __init__(self, inner: Inner) -> None:
        self._inner: Inner = inner

    @property
    def width(self) -> int:
        return self._inner.width

    @property
    def capacity(self) -> int:
        return self._inner.capacity

    @property
    def centred(self) -> bool:
        """Whether the rows are taken relative to their mean."""
        return self._inner.centred

    @property
    def half_life(self) -> float | None:
        return self._inner.half_life

    @property
    def seen(self) -> int:
        return self._inner.seen

    @property
    def weight(self) -> float:
        return self._inner.weight

    @property
    def mean(self) -> Array:
        return self._inner.mean

    @property
    def certificate(self) -> float:
        return self._inner.certificate

    @property
    def nbytes(self) -> int:
        return self._inner.nbytes

    def fade(self, rows: int) -> None:
        self._inner.fade(rows)

    def stand_for(self, seen: int, weight: float) -> None:
        self._inner.stand_for(seen, weight)

    def prepare(self, rows: Array) -> Part:
        return self._inner.prepare(rows)

    def absorb(self, part: Part) -> None:
        self._inner.absorb(part)

    def update(self, rows: Array) -> None:
        self.absorb(self.prepare(rows))

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        return self._inner.directions(count, extra=extra)

    def copy(self) -> Self:
        return self.from_state(self.state())

    def state(self) -> dict[str, Any]:
        return {"inner": self._inner.copy()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        raise NotImplementedError
