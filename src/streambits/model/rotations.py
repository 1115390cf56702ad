"""Orthogonal rotations of a projection: they keep all distances, and change where the bits fall."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    array_namespace,
    blocks,
    double,
    is_numpy_array,
    move,
    to_numpy,
)
from streambits._threads import ordered_map, scratch

ROTATIONS = ("none", "random", "itq", "uniform")
ITQ_STEPS = 12  # extrapolated; they bring rows as close to corners as 50 plain ones
ITQ_ROWS = 3  # per bit, for each step but two: more steps would fit the noise of few rows
EASE = 0.1
PIECE = 2560  # rows that a thread takes at a time, of a step of ITQ
STEEP = 1e-8  # ratio of squared singular values below which they need a decomposition of their own


def random_rotation(bits: int, like: Array, seed: int) -> Array:
    """Draw a uniformly random orthogonal matrix (bits, bits), the same for the same seed."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((bits, bits)))
    return move(q * np.sign(np.diag(r)), like)


def itq_rotation(projected: Array, seed: int, steps: int | None = None) -> Array:
    """Iterative quantisation: the rotation R that brings projected rows Z close to corners.

    Parameters
    ----------
    projected : array of shape (n, bits)
        Centred rows Z.
    seed : int
        Seed of the rotation to start from.
    steps : int, optional
        By default 12, or fewer with less than 30 rows per bit: few rows are soon overfitted.

    Returns
    -------
    array of shape (bits, bits)

    Notes
    -----
    Alternates B = sign(Z R) with the R that best rotates Z to B, after which ||B - Z R|| is never
    larger. B is taken not at R but as far beyond it as the last step went, which saves two steps of
    three. Costs `steps` times two products of n x bits x bits, all but the last in single
    precision.

    References
    ----------
    Gong & Lazebnik, "Iterative Quantization", CVPR 2011.
    """
    xp, (rows, bits) = array_namespace(projected), projected.shape
    steps = min(ITQ_STEPS, 2 + rows // (ITQ_ROWS * bits)) if steps is None else steps
    rotation = last = random_rotation(bits, projected, seed)
    rough = xp.astype(projected, xp.float32)
    for _ in range(steps - 1):
        rotation, last = _itq_step(rough, 2 * rotation - last), rotation
    return _itq_step(projected, rotation)


def _itq_step(projected: Array, rotation: Array) -> Array:
    """The rotation that brings rows closest to the corners that they are nearest to now."""
    xp = array_namespace(projected)
    near = xp.astype(rotation, projected.dtype)
    if is_numpy_array(projected):
        crosses = ordered_map(lambda rows: _cross(rows, near), blocks(projected, PIECE))
        return procrustes(double(sum(crosses)))
    turned = projected @ near
    return procrustes(double(projected.T @ xp.copysign(xp.ones_like(turned), turned)))


def _cross(rows: NDArray[Any], rotation: NDArray[Any]) -> NDArray[Any]:
    """Products of rows and the corners nearest to them, without new memory for the corners."""
    turned = np.matmul(rows, rotation, out=scratch("turned", rows.shape, rows.dtype))
    return rows.T @ np.copysign(1, turned, out=turned)


def ease(projected: Array, rotation: Array) -> Array:
    """Move a rotation a tenth of the way to the next step of iterative quantisation.

    A rotation that was fitted on few rows improves as more arrive, slowly enough that the codes
    made before still compare.

    Parameters
    ----------
    projected : array of shape (n, bits)
    rotation : array of shape (bits, bits)

    Returns
    -------
    array of shape (bits, bits)
    """
    xp = array_namespace(projected)
    ahead = _itq_step(xp.astype(projected, xp.float32), rotation)
    return _orthogonal(rotation + EASE * (ahead - rotation))


def _orthogonal(matrix: Array, steps: int = 5) -> Array:
    """The nearest orthogonal matrix, of one that is near: five steps of Newton and Schulz.

    An error of 0.36 in R'R, the most that `ease` makes, is below rounding after them; one of 1e-8,
    as by rounding, after one.
    """
    for _ in range(steps):
        matrix = 1.5 * matrix - 0.5 * (matrix @ (matrix.T @ matrix))
    return matrix


def itq_steps(projected: Array, rotation: Array, steps: int) -> Iterator[Array]:
    """Yield the rotation (bits, bits) after each step of iterative quantisation."""
    for _ in range(steps):
        rotation = _itq_step(projected, rotation)
        yield rotation


def uniform_diagonal(energies: Array) -> Array:
    """The orthogonal R that gives every bit the same variance.

    Parameters
    ----------
    energies : array of shape (bits,)
        Variances of uncorrelated columns.

    Returns
    -------
    array of shape (bits, bits)
        R' diag(energies) R has the mean of the energies all along its diagonal.

    Notes
    -----
    At most bits - 1 Givens rotations: each rotates a column above the mean and one below until the
    first has the mean; the remainder is the other's, which is still uncorrelated with all columns
    not yet done.

    References
    ----------
    Morvan, Souloumiac, Gouy-Pailler & Atif, "Streaming Binary Sketching based on Subspace Tracking
    and Diagonal Uniformization", ICASSP 2018.
    """
    left = np.array(to_numpy(energies), np.float64)
    rotation, mean = np.eye(len(left)), left.mean()
    for _ in range(len(left) - 1):
        high, low = int(np.argmax(left)), int(np.argmin(left))
        if not left[low] < mean < left[high]:
            break  # all that is left is rounding
        cosine = ((mean - left[low]) / (left[high] - left[low])) ** 0.5
        sine = (1 - cosine**2) ** 0.5
        pair = rotation[:, [high, low]]
        rotation[:, [high, low]] = pair @ [[cosine, -sine], [sine, cosine]]
        left[low], left[high] = left[high] + left[low] - mean, mean
    return move(rotation, energies)


def procrustes(cross: Array) -> Array:
    """The orthogonal R that maximises trace(R^T cross): argmin ||Z R - B|| for cross = Z^T B.

    It is cross (cross^T cross)^-1/2: an eigenproblem, in half the time of a singular value
    decomposition, which remains for a cross that is nearly singular.
    """
    xp = array_namespace(cross)
    squares, vectors = xp.linalg.eigh(cross.T @ cross)
    if not float(squares[0]) > STEEP * float(squares[-1]):
        left, _, right = xp.linalg.svd(cross, full_matrices=False)
        return left @ right
    return _orthogonal(cross @ ((vectors / xp.sqrt(squares)) @ vectors.T), steps=1)
