"""Coder: the frozen, shippable half of a learner."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    CheckedRows,
    array_namespace,
    as_rows,
    beside,
    blocks,
    frozen,
    is_numpy_array,
    take,
    to_numpy,
)
from streambits._threads import cached, ordered_map
from streambits.errors import ReachWarning
from streambits.features import Features, GaussianAffinity
from streambits.model.codes import Codes
from streambits.model.projection import Projection

BLOCK = 2048  # rows encoded at a time
DEVICE_BLOCK = 65536  # the same for arrays that do not live on the host
REACH = 0.01  # affinity to the nearest landmark below which a row is out of reach
MANY = 0.1  # share of rows out of reach from which it is worth a warning


class Coder:
    """A frozen function from rows to codes.

    code(x) = pack(sign(features(x) . matrix - thresholds))

    Parameters
    ----------
    features : Features
    projection : Projection
        From (n, width) features to (n, bits) values.
    epoch : int, default 0
        Codes compare only within an epoch.

    Notes
    -----
    A row has the same code alone and in any batch, with any number of threads, on the host and on
    a device: the few bits that lie within the rounding error are decided again in double
    precision, and those still in doubt are decided with the row on its own.

    Encoding costs n (d m + m bits) multiplications and n m exponentials for m landmarks; memory is
    2048 x m values per thread. Several threads may use one coder.
    """

    def __init__(self, features: Features, projection: Projection, epoch: int = 0) -> None:
        self.features = features
        self.projection = projection
        self.epoch = epoch
        self._single, self._double = _unit(projection)

    @property
    def bits(self) -> int:
        """Length of the codes."""
        return self.projection.bits

    @property
    def nbytes(self) -> int:
        """Bytes of the features and the projections."""
        projections = (self.projection, self._single, self._double)
        return self.features.nbytes + sum(projection.nbytes for projection in projections)

    def encode(self, rows: Array, *, warn: bool = True) -> Codes:
        """Encode rows.

        Parameters
        ----------
        rows : array of shape (n, d)
        warn : bool
            Whether to warn of rows out of reach.

        Returns
        -------
        Codes
            In the order of the rows, of the coder's epoch.

        Warns
        -----
        ReachWarning
            If a tenth of the rows or more are out of reach of every landmark: see `out_of_reach`.
        """
        checked = self._checked(rows)
        packed = ordered_map(self.packed, self._blocks(checked))
        codes = Codes(frozen(np.concatenate(list(packed))), self.bits, self.epoch)
        if warn:
            warn_of_reach(self.out_of_reach(checked, codes).sum(), len(codes), "encoded")
        return codes

    def out_of_reach(self, rows: Array, codes: Codes) -> NDArray[np.bool_]:
        """Find the rows that have an affinity of nearly 0 to every landmark.

        Such rows, usually of another scale or origin than those that were learned, all have one
        code, whatever they are. Only rows with that code are examined, so this costs next to
        nothing where there are none.

        Parameters
        ----------
        rows : array of shape (n, d)
            Rows that were checked, of any library and precision.
        codes : Codes
            The codes of these rows.

        Returns
        -------
        array of shape (n,), bool
        """
        found = np.zeros(len(codes), np.bool_)
        if not isinstance(self.features, GaussianAffinity):
            return found
        suspects = np.flatnonzero((codes.packed == self._far).all(axis=1))
        for start in range(0, len(suspects), BLOCK):
            some = suspects[start : start + BLOCK]
            like = as_rows(CheckedRows(take(rows, some)), like=self.features.like)
            found[some] = to_numpy(self.features.closest(like)) < REACH
        return found

    @cached
    def _far(self) -> NDArray[np.uint8]:
        """The code of a row that is far from every landmark: all its features are 0."""
        thresholds = to_numpy(self.projection.thresholds)
        return np.packbits(-thresholds > 0, bitorder="little")

    def project(self, rows: Array, *, warn: bool = True) -> Array:
        """Compute the real values whose signs are the bits, for asymmetric search.

        Parameters
        ----------
        rows : array of shape (n, d)
        warn : bool
            Whether to warn of rows out of reach, as `encode` does.

        Returns
        -------
        array of shape (n, bits)
        """
        checked = self._checked(rows)
        found = list(ordered_map(self._values, self._blocks(checked)))
        values = array_namespace(found[0]).concat(found, axis=0)
        if not warn:
            return values
        signs = Codes.from_bits(to_numpy(values > 0), self.epoch)
        warn_of_reach(self.out_of_reach(checked, signs).sum(), len(signs), "projected")
        return values

    def _checked(self, rows: Array) -> Array:
        return as_rows(rows, like=self.features.like, width=self.features.inputs)

    def _blocks(self, rows: Array) -> list[Array]:
        return blocks(rows, BLOCK if is_numpy_array(rows) else DEVICE_BLOCK)

    def _values(self, rows: Array) -> Array:
        return self.projection(self.features(rows))

    def packed(self, rows: Array, features: Array = None) -> NDArray[np.uint8]:
        """Encode one block of checked rows.

        Parameters
        ----------
        rows : array of shape (n, d)
        features : array of shape (n, width), optional
            The features of the rows, where they have been computed.

        Returns
        -------
        array of shape (n, ceil(bits / 8)), uint8
        """
        return np.packbits(self._bits(rows, features), axis=1, bitorder="little")

    def _bits(self, rows: Array, features: Array = None) -> NDArray[np.bool_]:
        """Signs, with those within the rounding error decided again one level more exactly."""
        values, error = self._measured(rows, features)
        xp = array_namespace(values)
        bits: NDArray[np.bool_] = to_numpy(values > 0)
        unsure = np.flatnonzero(to_numpy(xp.min(xp.abs(values), axis=1) <= error))
        if len(unsure):
            doubtful = to_numpy(take(rows, unsure))
            bits = np.array(bits)  # the library's memory may be read-only
            judge = self if is_numpy_array(rows) else self._host
            bits[unsure] = judge._decided_again(doubtful)
        return bits

    def _measured(self, rows: Array, features: Array = None) -> tuple[Array, Array]:
        """Values along directions of length one, and (n,) bounds on their rounding errors.

        A sum of m rounded products errs by about sqrt(m) units of the length of its terms.
        """
        features = self.features(rows) if features is None else features
        xp = array_namespace(features)
        unit = self._single if features.dtype == xp.float32 else self._double
        rounding = float(xp.finfo(features.dtype).eps) / 2
        relative = self.features.noise(rows, features) + 2 * features.shape[1] ** 0.5 * rounding
        length = xp.sqrt(xp.vecdot(features, features))
        return unit(features), length * relative + 4 * rounding * unit.farthest

    def _decided_again(self, rows: Array) -> NDArray[np.bool_]:
        if rows.dtype == np.float32:
            return self._bits(rows.astype(np.float64))
        return np.concatenate([self._measured(row[None, :])[0] > 0 for row in rows])

    @cached
    def _host(self) -> "Coder":
        """The twin on the host, for a coder on a device."""
        return self.on(np.zeros(1))

    def on(self, like: Array) -> "Coder":
        """Return the same coder with its arrays in the library and on the device of `like`.

        Its codes are the same, bit for bit.
        """
        projection = Projection(
            beside(self.projection.matrix, like), beside(self.projection.thresholds, like)
        )
        return Coder(self.features.on(like), projection, self.epoch)

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state` and files."""
        return {"features": self.features, "epoch": self.epoch} | self.projection.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a coder from what `state` returned."""
        return cls(state["features"], Projection.from_state(state), state["epoch"])

    def __repr__(self) -> str:
        return f"Coder({self.bits} bits, epoch {self.epoch}, {self.features!r})"


def warn_of_reach(count: int, rows: int, done: str) -> None:
    """Issue a ReachWarning if a tenth of the rows or more are out of reach.

    Parameters
    ----------
    count, rows : int
        Numbers of rows out of reach, and of all rows.
    done : str
        What was done with them, for the message.
    """
    if count and count >= MANY * rows:
        warnings.warn(
            f"{count:,} of {rows:,} rows {done} are out of reach of every landmark, so the model "
            f"cannot tell them apart: scale them as the rows it learned, learn rows like them "
            f"(epochs='auto' then draws new landmarks), or build a model from a sample of them",
            ReachWarning,
            stacklevel=3,
        )


def _unit(projection: Projection) -> tuple[Projection, Projection]:
    """The projection with columns of length one, which leaves the signs, in both precisions."""
    xp = array_namespace(projection.matrix)
    length = xp.sqrt(xp.sum(projection.matrix**2, axis=0))
    matrix, thresholds = projection.matrix / length, projection.thresholds / length
    single = Projection(xp.astype(matrix, xp.float32), xp.astype(thresholds, xp.float32))
    return single, Projection(matrix, thresholds)
