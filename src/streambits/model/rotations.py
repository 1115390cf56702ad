"""Orthogonal rotations of a projection: they keep all distances, and change where the bits fall."""

from collections.abc import Iterator

import numpy as np

from streambits._arrays import Array, array_namespace, move, to_numpy

ROTATIONS = ("none", "random", "itq", "uniform")
ITQ_STEPS = 50
EASE = 0.1


def random_rotation(bits: int, like: Array, seed: int) -> Array:
    """Draw a uniformly random orthogonal matrix (bits, bits), the same for the same seed."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((bits, bits)))
    return move(q * np.sign(np.diag(r)), like)


def itq_rotation(projected: Array, seed: int, steps: int = ITQ_STEPS) -> Array:
    """Iterative quantisation: the rotation R that brings projected rows Z close to corners.

    Parameters
    ----------
    projected : array of shape (n, bits)
        Centred rows Z.
    seed : int
        Seed of the rotation to start from.
    steps : int, default 50

    Returns
    -------
    array of shape (bits, bits)

    Notes
    -----
    Alternates B = sign(Z R) with the R that best rotates Z to B; ||B - Z R|| never rises. Costs
    `steps` products of n x bits x bits.

    References
    ----------
    Gong & Lazebnik, "Iterative Quantization", CVPR 2011.
    """
    start = random_rotation(projected.shape[1], projected, seed)
    *_, rotation = itq_steps(projected, start, steps)
    return rotation


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
    (ahead,) = itq_steps(projected, rotation, 1)
    return procrustes(rotation + EASE * (ahead - rotation))


def itq_steps(projected: Array, rotation: Array, steps: int) -> Iterator[Array]:
    """Yield the rotation (bits, bits) after each step of iterative quantisation."""
    xp = array_namespace(projected)
    for _ in range(steps):
        turned = projected @ rotation
        corners = xp.where(turned > 0, xp.ones_like(turned), -xp.ones_like(turned))
        rotation = procrustes(projected.T @ corners)
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
    """The orthogonal R that maximises trace(R^T cross): argmin ||Z R - B|| for cross = Z^T B."""
    xp = array_namespace(cross)
    left, _, right = xp.linalg.svd(cross, full_matrices=False)
    return left @ right
