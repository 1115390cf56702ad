"""The exact covariance of the rows, with what labels say about pairs added to it."""

from typing import Any, Self

import numpy as np

from streambits._arrays import (
    Array,
    array_namespace,
    as_number,
    as_rows,
    device,
    double,
    move,
    nbytes,
    same,
)
from streambits.errors import InputError, MergeError
from streambits.sketches.base import Directions, check_mergeable
from streambits.sketches.gram import Gram
from streambits.sketches.wrapped import Wrapped

ETA = 0.03  # chosen by label precision on the digits (8, 16, 32 bits), of 0.001 to 10000


class SupervisedGram(Wrapped[Gram]):
    """Directions of guide + eta C: C the covariance of the stream, the guide fixed.

    Both are means, C over rows and the guide over pairs of rows (`pair_guide`), so `eta` weighs a
    row's variance along a direction against the agreement of a labelled pair, whatever the number
    of rows and labels. An energy here is what a direction gains: its part of the guide, plus eta
    times the variance. C is exact, and the certificate that of its Gram; memory 2 width^2.

    guide: (width, width), symmetric with no negative eigenvalue; half_life: as in Gram.

    Wang, Kumar & Chang, "Semi-Supervised Hashing for Large-Scale Search", PAMI 2012.
    """

    def __init__(self, guide: Array, *, eta: float = ETA, half_life: float | None = None) -> None:
        self.guide = double(as_rows(guide, name="guide"))
        rows, columns = self.guide.shape
        if rows != columns:
            raise InputError(f"guide has shape ({rows}, {columns}); it must be square")
        self.eta = as_number(eta, "eta", above=0)
        super().__init__(Gram(columns, half_life=half_life, like=self.guide))

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        state = self._inner.state()
        state["sum"] = self.eta * state["sum"] + self.weight * self.guide
        return Gram.from_state(state).directions(count, extra=extra)

    def merge(self, other: Self) -> None:
        check_mergeable(self, other, "width", "eta")
        if not same(self.guide, other.guide):
            raise MergeError("the guides differ: build both shards with the same labelled rows")
        self._inner.merge(other._inner)

    @property
    def nbytes(self) -> int:
        return self._inner.nbytes + nbytes(self.guide)

    def fresh(self) -> Self:
        return self.from_state({**self.state(), "inner": self._inner.fresh()})

    def state(self) -> dict[str, Any]:
        return super().state() | {"guide": self.guide, "eta": self.eta}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        self = cls(state["guide"], eta=state["eta"])
        self._inner = state["inner"]
        return self


def labelled_guide(rows: Array, labels: Any = None) -> Array:
    """`pair_guide` of the rows whose label is known, around their own mean: nothing is negative.

    rows: (n, width); labels: (n,) of any kind, -1 where unknown; None: all are, and the guide is 0.
    """
    rows = double(as_rows(rows))
    xp = array_namespace(rows)
    values = [-1] * rows.shape[0] if labels is None else np.asarray(labels).tolist()
    if len(values) != rows.shape[0]:
        raise InputError(f"there are {len(values)} labels for {rows.shape[0]} rows: pass one a row")
    known = [place for place, label in enumerate(values) if label != -1]
    some = xp.take(rows, xp.asarray(known, dtype=xp.int64, device=device(rows)), axis=0)
    some = some - xp.sum(some, axis=0) / max(1, len(known))
    return pair_guide(some, [values[place] for place in known])


def pair_guide(rows: Array, labels: Any) -> Array:
    """The mean over all pairs of S_ij x_i x_j', S_ij = 1 within a class and -1 between two.

    By class sums, with no matrix of pairs: sum_ij S_ij x_i x_j' = 2 sum_c s_c s_c' - s s', s_c the
    sum of class c and s of all. Of rows around their mean s = 0.

    rows: (n, width); labels: (n,).

    >>> pair_guide(np.array([[1.0], [2.0], [-3.0]]), ["a", "a", "b"])
    array([[4.]])
    """
    xp = array_namespace(rows)
    classes, member = np.unique(np.asarray(labels), return_inverse=True)
    belongs = np.arange(len(classes))[:, None] == member
    sums = move(belongs.astype(np.float64), rows) @ rows
    total = xp.sum(sums, axis=0)
    pairs = max(1, rows.shape[0]) ** 2
    return (2 * sums.T @ sums - total[:, None] * total[None, :]) / pairs
