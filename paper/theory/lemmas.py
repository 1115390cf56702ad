"""The paper's lemmas and its theorem, measured on data: W are the affinities of n points.

`sampling` is Lemma 2, `sketching` and `theorem` are Lemma 3 and Theorem 1; Lemma 1 and its
corollary are `paper.theory.columns`. W takes n^2 doubles, so n is a few thousand at most.
C_i is the squared norm of column i of W, What the columns of W that belong to the landmarks.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from streambits._arrays import Array, double, to_numpy
from streambits._threads import one_blas_thread
from streambits.features import Bandwidth, GaussianAffinity
from streambits.sketches import FrequentDirections

Matrix = NDArray[np.float64]
CHANCE = 0.05  # that a bound on a random sample does not hold


def affinities(points: Array, bandwidth: Bandwidth | float | None = None) -> Matrix:
    """W, (n, n), in double precision."""
    rows = to_numpy(double(points))
    return np.asarray(GaussianAffinity(rows, bandwidth)(rows))


class Sampling(NamedTuple):
    """||W^2 - What What'||_2 / ||W||_F^2 for m uniform columns, scaled by sqrt(n / m).

    error, worst: mean and largest over the draws; nothing: the error of What = 0, which is
    1 / (numeric rank of W): an error near it says nothing. bound: what Bernstein's inequality
    gives with this W's own coherence, with a chance of 0.05 to fail.
    """

    m: int
    error: float
    worst: float
    nothing: float
    bound: float


def sampling(
    w: Matrix, sizes: Sequence[int], *, draws: int = 5, seed: int = 0
) -> Iterator[Sampling]:
    """Lemma 2 for each m, columns drawn with replacement as in the paper.

    The bound: E_i = W^2 / m - (n / m) w_i w_i' has norm at most n C_max / m, and the sum of their
    squares has a mean of norm at most n C_max ||W||^2 / m. So m must grow as 1 / error^2; the
    paper's proof loses a factor m on its way to 1 / error.
    """
    n, energy = len(w), float(np.sum(w * w))
    nothing = _spectral(lambda v: w @ (w @ v), n) / energy
    coherence = n * float(np.vecdot(w, w).max()) / energy
    rng, log = np.random.default_rng(seed), math.log(2 * n / CHANCE)
    for m in sizes:
        found = [sampling_error(w, sample(w, m, rng)) for _ in range(draws)]
        b = coherence * log / m
        bound = b + math.sqrt(b * b + 3 * nothing * b)
        yield Sampling(m, float(np.mean(found)), max(found), nothing, bound)


def sample(w: Matrix, m: int, rng: np.random.Generator) -> Matrix:
    """What: m columns of W drawn with replacement, scaled so that E[What What'] = W^2."""
    return math.sqrt(len(w) / m) * w[:, rng.integers(len(w), size=m)]


def sampling_error(w: Matrix, hat: Matrix) -> float:
    """||W^2 - What What'||_2 / ||W||_F^2."""
    difference = _spectral(lambda v: w @ (w @ v) - hat @ (hat.T @ v), len(w))
    return difference / float(np.sum(w * w))


class Sketching(NamedTuple):
    """||A'A - B'B||_2 of Frequent Directions, and what bounds it; all relative to ||A||_F^2.

    size: l; certificate: known while running; tail: the least ||A - A_j||_F^2 / (l - j) over
    j < l; flat: 1 / l. Each bounds all before it, to rounding.
    """

    size: int
    error: float
    certificate: float
    tail: float
    flat: float


def sketching(
    rows: Matrix, sizes: Sequence[int], *, spare: int | None = None
) -> Iterator[Sketching]:
    """The error for each l on rows (n, m); spare=1 is the paper's, None the default."""
    gram = rows.T @ rows
    energies = np.clip(np.linalg.eigvalsh(gram)[::-1], 0, None)
    total = float(energies.sum())
    left = total - np.concatenate([[0.0], np.cumsum(energies)])
    for size in sizes:
        sketch = _sketch(rows, size, spare)
        error = np.abs(np.linalg.eigvalsh(gram - sketch.matrix.T @ sketch.matrix)).max()
        j = np.arange(min(size, len(left)))
        tail = np.clip(left[j] / (size - j), 0, None).min()
        figures = (error / total, sketch.certificate / total, tail / total, 1 / size)
        yield Sketching(size, *map(float, figures))


class Theorem(NamedTuple):
    """Theorem 1 with m columns and a sketch of l rows; errors relative to ||W||_F^2.

    condition: ||What|| ||What^+||, which the proof of Lemma 3 takes for 1; rank: of What, to
    rounding; factor: ||What D What^+|| / ||D|| with D = What'What - B'B, which it takes to be at
    most 1 (of no meaning where l > m, and D is rounding).
    printed: ||W^2 - What B'B What^+||, the theorem's own; mended: ||W^2 - Q B'B Q'|| with Q the
    orthogonal factor of What = Q (What'What)^(1/2), for which the proof does hold; bound: of the
    mended one, the error of the sample plus the certificate.
    """

    m: int
    size: int
    condition: float
    rank: int
    factor: float
    printed: float
    mended: float
    bound: float


def theorem(w: Matrix, m: int, size: int, *, seed: int = 0) -> Theorem:
    """Theorem 1 on one draw of m columns."""
    hat = sample(w, m, np.random.default_rng(seed))
    sketch = _sketch(hat, size)
    u, s, v = _thin_svd(hat)
    turned = sketch.matrix @ v
    kept = turned.T @ turned  # V'B'B V, so that Q B'B Q' = U kept U'
    lost = np.diag(s**2) - kept
    return Theorem(
        m,
        size,
        float(s[0] / s[-1]),
        len(s),
        float(np.linalg.norm(_bent(lost, s), 2) / np.linalg.norm(lost, 2)),
        _distance_to_square(w, u, _bent(kept, s)),
        _distance_to_square(w, u, kept),
        sampling_error(w, hat) + sketch.certificate / float(np.sum(w * w)),
    )


def _sketch(rows: Matrix, size: int, spare: int | None = None) -> FrequentDirections:
    sketch = FrequentDirections(rows.shape[1], size, spare, centred=False)
    with one_blas_thread():  # many small eigenproblems: more threads only get in their way
        sketch.update(rows)
    return sketch


def _thin_svd(hat: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """U, S, V without what is zero to rounding."""
    u, s, vt = np.linalg.svd(hat, full_matrices=False)
    rank = int((s > s[0] * max(hat.shape) * np.finfo(np.float64).eps).sum())
    return u[:, :rank], s[:rank], vt[:rank].T


def _bent(core: Matrix, s: Matrix) -> Matrix:
    """S core S^-1: What V core V' What^+ = U bent U'."""
    return s[:, None] * core / s


def _distance_to_square(w: Matrix, u: Matrix, core: Matrix) -> float:
    """||W^2 - U core U'||_2 / ||W||_F^2; core need not be symmetric."""

    def square(v: Matrix) -> Matrix:
        once = w @ (w @ v) - u @ (core @ (u.T @ v))
        return np.asarray(w @ (w @ once) - u @ (core.T @ (u.T @ once)))

    return math.sqrt(_spectral(square, len(w))) / float(np.sum(w * w))


def _spectral(product: Callable[[Matrix], Matrix], n: int) -> float:
    """The largest absolute eigenvalue of a symmetric matrix, given by its products."""
    start = np.random.default_rng(0).standard_normal(n)
    operator: Any = LinearOperator((n, n), matvec=product, dtype=np.float64)
    space = min(8, n)  # few products: each reads all of W
    values = eigsh(operator, 1, v0=start, ncv=space, tol=1e-4, return_eigenvectors=False)
    return float(abs(values[0]))
