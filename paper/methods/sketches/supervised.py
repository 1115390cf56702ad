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
from streambits.sketches.base import RunningMean, check_mergeable
from streambits.sketches.gram import Gram

ETA = 0.03  # best by label precision on the digits (8, 16, 32 bits), of 0.001 to 10000


class SupervisedGram(Gram):
    """Directions of guide + eta C: C the covariance of the stream, the guide fixed.

    Parameters
    ----------
    guide : array of shape (width, width)
        Symmetric with no negative eigenvalue; `labelled_guide` makes it from labelled rows.
    eta : float, default 0.03
        Weight of a row's variance along a direction against the agreement of a labelled pair.
    half_life : float, optional
        Number of rows after which a row counts half.

    Notes
    -----
    Both terms are means, C over rows and the guide over pairs of rows (`pair_guide`), so `eta` has
    the same meaning for any number of rows and labels. An energy here is what a direction gains:
    its part of the guide, plus eta times the variance. C is exact: `matrix` and the certificate
    are those of a `Gram`. Memory is 2 width^2.

    References
    ----------
    Wang, Kumar & Chang, "Semi-Supervised Hashing for Large-Scale Search", PAMI 2012.

    Examples
    --------
    >>> sketch = SupervisedGram(np.diag([0.0, 1.0]), eta=0.1)
    >>> sketch.update(np.array([[0.0, 1.0], [4.0, 1.0]]))
    >>> sketch.directions(2).energies.tolist()
    [1.0, 0.4]
    """

    def __init__(self, guide: Array, *, eta: float = ETA, half_life: float | None = None) -> None:
        self.guide = double(as_rows(guide, name="guide"))
        rows, columns = self.guide.shape
        if rows != columns:
            raise InputError(f"guide has shape ({rows}, {columns}); it must be square")
        self.eta = as_number(eta, "eta", above=0)
        super().__init__(columns, half_life=half_life, like=self.guide)

    @property
    def _aim(self) -> Array:
        return self.eta * self._sum + self.weight * self.guide

    def merge(self, other: Self) -> None:
        """Add the sums; the guides and `eta` must be equal."""
        check_mergeable(self, other, "width", "eta")
        if not same(self.guide, other.guide):
            raise MergeError("the guides differ: build both shards with the same labelled rows")
        super().merge(other)

    @property
    def nbytes(self) -> int:
        return super().nbytes + nbytes(self.guide)

    def fresh(self) -> Self:
        return type(self)(self.guide, eta=self.eta, half_life=self.half_life)

    def state(self) -> dict[str, Any]:
        return super().state() | {"guide": self.guide, "eta": self.eta}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        running = RunningMean.from_state(state["centre"])
        self = cls(state["guide"], eta=state["eta"], half_life=running.half_life)
        self._restore(state, running)
        return self


def labelled_guide(rows: Array, labels: Any = None) -> Array:
    """`pair_guide` of the rows that have a label, around their own mean: nothing is negative.

    Parameters
    ----------
    rows : array of shape (n, width)
        Labelled and unlabelled rows.
    labels : sequence of length n, optional
        Of any kind, -1 where unknown. None: all are unknown, and the guide is 0.

    Returns
    -------
    array of shape (width, width)
        The guide that `SupervisedGram` takes.

    Raises
    ------
    InputError
        If there is not one label per row.
    """
    rows = double(as_rows(rows))
    xp = array_namespace(rows)
    values = [-1] * rows.shape[0] if labels is None else np.asarray(labels).tolist()
    if len(values) != rows.shape[0]:
        raise InputError(
            f"there are {len(values)} labels for {rows.shape[0]} rows: pass one per row"
        )
    labelled = [place for place, label in enumerate(values) if label != -1]
    some = xp.take(rows, xp.asarray(labelled, dtype=xp.int64, device=device(rows)), axis=0)
    some = some - xp.sum(some, axis=0) / max(1, len(labelled))
    return pair_guide(some, [values[place] for place in labelled])


def pair_guide(rows: Array, labels: Any) -> Array:
    """The mean over all pairs of S_ij x_i x_j', S_ij = 1 within a class and -1 between two.

    Parameters
    ----------
    rows : array of shape (n, width)
        Labelled rows.
    labels : sequence of length n
        Their classes, of any kind.

    Returns
    -------
    array of shape (width, width)
        Symmetric; of rows around their mean it has no negative eigenvalue.

    Notes
    -----
    By class sums, without the matrix of pairs: sum_ij S_ij x_i x_j' = 2 sum_c s_c s_c' - s s',
    where s_c is the sum of class c and s that of all rows. Of rows around their mean s = 0.

    Examples
    --------
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
