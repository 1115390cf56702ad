"""How codes are compared, beyond the number of bits that differ."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper.methods.features import Eigenfunctions
from streambits._arrays import Array, as_choice, double, to_numpy
from streambits.errors import EpochError, InputError
from streambits.model.coder import Coder
from streambits.model.codes import Codes

BLOCK = 4096  # codes unpacked at a time
DISTANCES = ("hamming", "product", "spherical")

Matrix = NDArray[np.float64]
Distance = Callable[[Codes, Codes], Matrix]


def spherical_distance(codes: Codes, other: Codes) -> Matrix:
    """|b xor b'| / |b and b'|, the distance of spherical hashing.

    Parameters
    ----------
    codes, other : Codes
        n and m codes of the same length and epoch.

    Returns
    -------
    ndarray of shape (n, m)
        Equal codes are at distance 0, also where they share no bit because both are empty; codes
        that differ and share no bit are at infinity. Memory: 8 bytes per pair.

    References
    ----------
    Heo, Lee, He, Chang & Yoon, "Spherical Hashing", CVPR 2012.

    Examples
    --------
    >>> codes = Codes.from_bits([[1, 1, 0], [1, 0, 1], [0, 0, 0]])
    >>> spherical_distance(codes, codes)
    array([[ 0.,  2., inf], [ 2.,  0., inf], [inf, inf,  0.]])
    """
    differing = codes.hamming(other).astype(np.float64)
    ones = [np.bitwise_count(each.packed).sum(axis=1, dtype=np.int64) for each in (codes, other)]
    shared = (ones[0][:, None] + ones[1] - differing) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(differing == 0, 0.0, differing / shared)


class ProductAffinity:
    """prod over groups of (1 + sum of w_i y_i y'_i over the group's bits) - 1, with bits y = +-1.

    Parameters
    ----------
    weights : sequence of float of length bits
        Zero or more.
    groups : sequence of int of length bits
        Equal for bits of one dimension.

    Notes
    -----
    The affinity of multidimensional spectral hashing: multiplied out it is a sum over all products
    of bits of different groups, of which none is stored. Larger is nearer. n codes against m cost
    n m (bits + groups); memory: 8 bytes per pair, and a block of 4096 codes.

    References
    ----------
    Weiss, Fergus & Torralba, "Multidimensional Spectral Hashing", ECCV 2012.

    Examples
    --------
    >>> codes = Codes.from_bits([[1, 1], [1, 0]])
    >>> ProductAffinity([1.0, 0.5], [0, 1])(codes, codes)
    array([[2., 0.], [0., 2.]])
    """

    def __init__(self, weights: Any, groups: Any) -> None:
        self.weights, self.groups = np.asarray(weights, np.float64), np.asarray(groups)
        if self.weights.ndim != 1 or self.weights.shape != self.groups.shape:
            raise InputError(
                f"weights and groups are one number per bit; got shapes {self.weights.shape} and "
                f"{self.groups.shape}"
            )

    def __call__(self, codes: Codes, other: Codes) -> Matrix:
        """Affinities (n, m) of n codes and m others."""
        _check(codes, len(self.weights), codes.epoch)
        _check(other, len(self.weights), codes.epoch)
        mine, affinities = _signs(codes), np.empty((len(codes), len(other)))
        for start, block in _blocks(other):
            theirs, found = _signs(block), affinities[:, start : start + len(block)]
            found[:] = 1.0
            for group in np.unique(self.groups):
                bits = np.flatnonzero(self.groups == group)
                found *= 1 + (mine[:, bits] * self.weights[bits]) @ theirs[:, bits].T
        affinities -= 1
        return affinities


class Asymmetric:
    """Distances from rows to codes: the row keeps its real values.

    Parameters
    ----------
    coder : Coder
        The coder of the codes.
    sample : array of shape (n, d)
        Rows like the data.

    Attributes
    ----------
    table : ndarray of shape (bits, 2)
        The value that each bit stands for, when 0 and when 1.

    Notes
    -----
    A bit stands for the mean value of the sample rows that have it: with z = coder.project(row),
    the distance is sum_j (z_j - table[j, bit_j])^2. A bit value that no sample row has stands for
    0, the edge between the two, which is the nearest it can be.

    References
    ----------
    Gordo, Perronnin, Gong & Lazebnik, "Asymmetric Distances for Binary Embeddings", PAMI 2014.
    """

    def __init__(self, coder: Coder, sample: Array) -> None:
        self.coder = coder
        values, bits = self._values(sample), coder.encode(sample).unpack()
        self.table = np.stack([_mean_where(values, ~bits), _mean_where(values, bits)], axis=1)

    def distances(self, rows: Array, codes: Codes) -> Matrix:
        """Distances from rows to codes.

        Parameters
        ----------
        rows : array of shape (n, d)
            Queries.
        codes : Codes
            m codes of the coder's length and epoch.

        Returns
        -------
        ndarray of shape (n, m)
            Costs one product of n x bits x m; memory: 8 bytes per pair.
        """
        _check(codes, self.coder.bits, self.coder.epoch)
        values, (low, high) = self._values(rows), self.table.T
        base = ((values - low) ** 2).sum(axis=1)[:, None]
        gain = (high - low) * (high + low - 2 * values)  # of bit 1 over bit 0
        distances = np.empty((len(values), len(codes)))
        for start, block in _blocks(codes):
            product = gain @ block.unpack().astype(np.float64).T
            distances[:, start : start + len(block)] = np.maximum(base + product, 0)
        return distances

    def _values(self, rows: Array) -> Matrix:
        return np.asarray(to_numpy(double(self.coder.project(rows))))


def scorer(distance: str, coder: Coder) -> Distance:
    """The function by which the codes of a method are compared.

    Parameters
    ----------
    distance : {'hamming', 'product', 'spherical'}
        As in `Method.distance`.
    coder : Coder
        For 'product' a coder of mdsh: its features say how much each bit counts.

    Returns
    -------
    callable
        (codes, codes) -> (n, m) numbers, smaller for nearer.

    Raises
    ------
    InputError
        If the distance is unknown, or does not fit the coder.
    """
    distance = as_choice(distance, "distance", DISTANCES)
    if distance == "hamming":
        return lambda codes, other: codes.hamming(other).astype(np.float64)
    if distance == "spherical":
        return spherical_distance
    features = coder.features
    if not isinstance(features, Eigenfunctions):
        raise InputError("distance is 'product', and the coder's bits have no weights: use mdsh")
    affinity = ProductAffinity(features.weights, features.groups)
    return lambda codes, other: -affinity(codes, other)


def _blocks(codes: Codes) -> Iterator[tuple[int, Codes]]:
    return ((start, codes[start : start + BLOCK]) for start in range(0, len(codes), BLOCK))


def _signs(codes: Codes) -> Matrix:
    return np.where(codes.unpack(), 1.0, -1.0)


def _mean_where(values: Matrix, mask: NDArray[np.bool_]) -> Matrix:
    """The mean of each column over the entries of a mask, 0 where there are none."""
    total = np.where(mask, values, 0).sum(axis=0)
    return np.asarray(total / np.maximum(mask.sum(axis=0), 1))


def _check(codes: Codes, bits: int, epoch: int) -> None:
    if codes.bits != bits:
        raise InputError(f"codes of {codes.bits} bits do not compare by a measure of {bits} bits")
    if codes.epoch != epoch:
        raise EpochError(
            f"codes of epochs {codes.epoch} and {epoch} do not compare: encode the rows again"
        )
