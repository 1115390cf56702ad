"""Rivals on affinities: to landmarks, to every point, or by random Fourier features."""

from paper.methods.features import Cosines
from paper.methods.sketches import Fixed
from streambits._arrays import Array, as_rows, as_seed
from streambits._threads import one_blas_thread
from streambits.errors import InputError
from streambits.features import Bandwidth, GaussianAffinity
from streambits.methods.kernel import default_whitening, sketch_of
from streambits.methods.method import BITS, Seed, sketch_size
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.sketches import Gram

EXACT_BYTES = 8 * 2**30  # limit of the exact methods
FOURIER = 500  # random Fourier features by default


def rff_fd(
    sample: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    count: int | None = None,
    epsilon: float = 1.0,
    whitening: float | None = None,
    rotation: str = "itq",
    half_life: float | None = None,
    refine: int = 0,
    certified: bool = False,
    seed: Seed = 0,
) -> Learner:
    """SSBC with random Fourier features in place of landmarks.

    Parameters
    ----------
    sample : array of shape (m, d)
        Its mean, the bandwidth and a prior of the directions are estimated from it.
    bits : int, default 64
    bandwidth : Bandwidth or float, optional
    count : int, optional
        Number of features: 500, or 2 `bits` if that is more.
    epsilon, whitening, rotation, half_life, refine, certified, seed
        As for `ssbc`.

    Returns
    -------
    Learner

    Notes
    -----
    Shards of one seed, bandwidth and centre have the same features, and so can be merged.

    References
    ----------
    Rahimi & Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
    """
    bits = as_bits(bits)
    count = max(FOURIER, 2 * bits) if count is None else count
    seed = as_seed(seed)
    features = Cosines.random(sample, count, bandwidth, seed)
    prior = as_rows(sample, like=features.like)
    sketch = sketch_of(features, prior, bits, sketch_size(bits, epsilon), half_life=half_life)
    return Learner(
        features,
        sketch,
        bits=bits,
        prior=prior,
        whitening=default_whitening(whitening, refine),
        rotation=rotation,
        refine=refine,
        certified=certified,
        seed=seed,
    )


def nystrom(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Signs of the Nystrom coordinates Lambda^(-1/2) U' w(x).

    U Lambda U' are the affinities of the landmarks among themselves, w(x) those of a row to them.
    Nothing is learned from the stream.

    Parameters
    ----------
    landmarks : array of shape (m, d)
    bits : int, default 64
        At most m.
    bandwidth : Bandwidth or float, optional
        `nearest(30)` by default.
    seed : int or Generator, default 0

    Returns
    -------
    Learner

    References
    ----------
    Drineas & Mahoney, "On the Nystrom Method for Approximating a Gram Matrix for Improved
    Kernel-Based Learning", JMLR 2005.
    """
    return _spectral(landmarks, bits, bandwidth, whitening=0.5, rotation="none", seed=seed)


def exact_d(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Signs of the leading eigenvectors of the full affinity matrix: every point is a landmark.

    Parameters
    ----------
    landmarks : array of shape (n, d)
        All points.
    bits, bandwidth, seed
        As for `nystrom`.

    Returns
    -------
    Learner

    Raises
    ------
    InputError
        If the matrices would need more than 8 GiB (16,384 points).

    Notes
    -----
    Time grows with n^3, memory is about 32 n^2 bytes.

    References
    ----------
    Ghashami & Abdullah, "Binary Coding in Stream" (Exact-D).
    """
    _check_exact(landmarks)
    return _spectral(landmarks, bits, bandwidth, whitening=1, rotation="none", seed=seed)


def exact_r(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Exact-D after a random rotation of the eigenvectors (Exact-R of the paper).

    Parameters, errors and cost are those of `exact_d`.

    Parameters
    ----------
    landmarks : array of shape (n, d)
    bits, bandwidth, seed
        As for `exact_d`; the rotation is drawn by `seed`.

    Returns
    -------
    Learner
    """
    _check_exact(landmarks)
    return _spectral(landmarks, bits, bandwidth, whitening=1, rotation="random", seed=seed)


def _spectral(
    landmarks: Array,
    bits: int,
    bandwidth: Bandwidth | float | None,
    *,
    whitening: float,
    rotation: str,
    seed: Seed,
) -> Learner:
    """Directions from the affinities of the landmarks among themselves."""
    features = GaussianAffinity(landmarks, bandwidth)
    own = Gram(features.width, centred=False, like=features.like)
    with one_blas_thread():
        own.update(features(features.landmarks))
        sketch = Fixed.of(own, as_bits(bits))
    return Learner(features, sketch, bits=bits, whitening=whitening, rotation=rotation, seed=seed)


def _check_exact(landmarks: Array) -> None:
    points = as_rows(landmarks, name="landmarks").shape[0]
    needed = 4 * 8 * points**2
    if needed > EXACT_BYTES:
        raise InputError(
            f"the exact methods make every point a landmark: {points} points take about "
            f"{needed:,} bytes, more than {EXACT_BYTES:,}: pass fewer points, or use ssbc"
        )
