"""Frequent Directions (Algorithm 1 of the paper): the whole algorithm on one screen."""

from typing import Any, Self

import numpy as np

from streambits._arrays import Array, array_namespace, as_count, nbytes, zeros
from streambits.errors import StorageError
from streambits.sketches.base import (
    SMALLEST,
    CentredSketch,
    Contribution,
    Directions,
    RunningMean,
    check_mergeable,
    check_rank,
    eigh,
)

EPS = float(np.finfo(np.float64).eps)


class FrequentDirections(CentredSketch):
    """B with 0 <= A'A - B'B <= certificate I, for any rows A in any order.

    Parameters
    ----------
    width : int
        Number of columns of the rows.
    size : int
        The l of the paper, at least 2; at most size - 1 directions survive a shrink.
    spare : int, optional
        Number of rows freed at a time. 1 is the paper to the letter; `size`, the default, is 20
        times faster.
    centred : bool, default True
        Sketch the rows minus their mean, by one more row per block (exact, as in online PCA).
    half_life : float, optional
        Number of rows after which a row counts half; A then holds the weighted rows.
    like : array, optional
        The sketch is held in the library and on the device of this array; NumPy by default.

    Notes
    -----
    When the buffer is full, the `size`-th squared singular value is subtracted from all, which
    frees `spare` rows. The certificate is the sum of all that was subtracted, plus what rounding
    can add; it is at most ||A||_F^2 / size, and ||A - A_j||_F^2 / (size - j) for every j < size.

    Memory is (size + spare - 1) x width; a row costs about width (size + spare)^2 / spare. With
    more than `width` rows nothing is lost, so a larger size takes no more memory than width + 1.

    References
    ----------
    Liberty, "Simple and Deterministic Matrix Sketching", KDD 2013. Ghashami & Phillips, "Relative
    Errors for Deterministic Low-Rank Matrix Approximations", SODA 2014. Robust energies: Luo et
    al., "Robust Frequent Directions with Application in Online Learning", JMLR 2019.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((1000, 8)) * np.arange(8, 0, -1)
    >>> sketch = FrequentDirections(8, 6)
    >>> sketch.update(rows)
    >>> sketch.seen, sketch.directions(2).vectors.shape
    (1000, (8, 2))
    >>> bool(0 < sketch.certificate < (rows**2).sum() / 6)
    True
    """

    def __init__(
        self,
        width: int,
        size: int,
        spare: int | None = None,
        *,
        centred: bool = True,
        half_life: float | None = None,
        like: Array = None,
    ) -> None:
        like = np.zeros(1) if like is None else like
        super().__init__(width, like, centred=centred, half_life=half_life)
        self.size = as_count(size, "size", least=2)
        self.spare = self.size if spare is None else as_count(spare, "spare")
        freed = self.spare if self.size == self._rows else min(self.spare, self._rows)
        self._buffer = zeros((self._rows + freed - 1, self.width), like)
        self._filled = 0
        self._shrinkage = 0.0
        self._rounding = 0.0

    @property
    def _rows(self) -> int:
        """The size, as far as it matters: of width + 1 rows, one is always free."""
        return min(self.size, self.width + 1)

    def _insert(self, rows: Array) -> None:
        """Fill free rows; shrink whenever none is left."""
        while rows.shape[0]:
            fits = min(rows.shape[0], self._buffer.shape[0] - self._filled)
            self._buffer[self._filled : self._filled + fits, :] = rows[:fits, :]
            self._filled += fits
            rows = rows[fits:, :]
            if self._filled == self._buffer.shape[0]:
                self._shrink()

    def _shrink(self) -> None:
        energies, turned = _svd(self._buffer)
        xp = array_namespace(energies)
        delta = float(energies[self._rows - 1]) if self._rows <= energies.shape[0] else 0.0
        kept = xp.clip(energies - delta, min=0.0)
        scale = xp.sqrt(kept / xp.where(energies > 0, energies, xp.ones_like(energies)))
        self._buffer = scale[:, None] * turned
        self._filled = int(xp.sum(xp.astype(kept > 0, xp.int64)))
        self._shrinkage += delta
        self._rounding += 4 * EPS * float(xp.sum(energies))

    @property
    def matrix(self) -> Array:
        """B: at most (size + spare - 1, width), pending rows included."""
        return self._buffer[: self._filled, :]

    @property
    def certificate(self) -> float:
        return self._shrinkage + self._rounding

    def captured(self, basis: Array) -> float:
        """The share of all energy in the span of orthonormal columns (width, k)."""
        xp, rows = array_namespace(basis), self.matrix
        return float(xp.sum((rows @ basis) ** 2)) / max(float(xp.sum(rows**2)), SMALLEST)

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        """Directions of B; half of all shrinkage is added back to the energies.

        That halves the error of an energy; B and the certificate stay the same.
        """
        energies, turned = _svd(self.matrix)
        xp = array_namespace(energies)
        count = min(count + extra, check_rank(energies, count, self.width * EPS))
        vectors = xp.linalg.qr(turned[:count, :].T)[0]  # orthonormal also where s_i is tiny
        return Directions(vectors, (energies[:count] + self._shrinkage / 2) / self.weight)

    def _accumulate(self, contribution: Contribution, correction: Array) -> None:
        self._insert(contribution.body)
        self._insert(correction)

    def _scale(self, factor: float) -> None:
        self._buffer *= factor**0.5
        self._shrinkage *= factor
        self._rounding *= factor

    def merge(self, other: Self) -> None:
        """Stack and shrink: the certificates add up."""
        check_mergeable(self, other, "width", "size", "spare", "centred", "half_life")
        self._combine(Contribution(other.seen, other.weight, other.mean, other.matrix))
        self._shrinkage += other._shrinkage
        self._rounding += other._rounding

    @property
    def capacity(self) -> int:
        return min(self.width, self.size + self.spare - 1)

    @property
    def nbytes(self) -> int:
        return nbytes(self._buffer, self.mean)

    def fresh(self) -> Self:
        return self.with_size(self.size)

    def with_size(self, size: int) -> Self:
        """Return an empty sketch of another size; `spare` follows the size where it was equal."""
        return type(self)(
            self.width,
            size,
            None if self.spare == self.size else self.spare,
            centred=self.centred,
            half_life=self.half_life,
            like=self._buffer,
        )

    def state(self) -> dict[str, Any]:
        return {
            "centre": self._running.state(),
            "size": self.size,
            "spare": self.spare,
            "filled": self._filled,
            "shrinkage": self._shrinkage,
            "rounding": self._rounding,
            "buffer": array_namespace(self._buffer).asarray(self._buffer, copy=True),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        if not state.get("robust", True):
            raise StorageError(
                "the sketch was saved with robust=False, which streambits has no more: learn again"
            )
        running = RunningMean.from_state(state["centre"])
        self = cls(
            running.mean.shape[0],
            state["size"],
            state["spare"],
            centred=running.tracked,
            half_life=running.half_life,
            like=state["buffer"],
        )
        self._restore(state, running)
        return self

    def _restore(self, state: dict[str, Any], running: RunningMean) -> None:
        self._running, self._buffer, self._filled = running, state["buffer"], state["filled"]
        self._shrinkage, self._rounding = state["shrinkage"], state["rounding"]


def _svd(rows: Array) -> tuple[Array, Array]:
    """Squared singular values, largest first, and U'B: row i is s_i v_i.

    By the eigenvectors of the small matrix B B'.
    """
    xp = array_namespace(rows)
    energies, left = eigh(rows @ rows.T)
    energies, left = xp.flip(energies, axis=0), xp.flip(left, axis=1)
    return xp.clip(energies, min=0.0), left.T @ rows
