"""Methods on affinities: to landmarks, to every point, or by random Fourier features."""

from streambits._arrays import (
    Array,
    as_rows,
    as_seed,
)
from streambits._threads import one_blas_thread
from streambits.epochs.monitor import monitor_for
from streambits.errors import InputError
from streambits.features import Bandwidth, Cosines, Features, GaussianAffinity
from streambits.methods.method import BITS, Seed, sketch_size
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.sketches import (
    Fixed,
    FrequentDirections,
    Gram,
    Sketch,
    auto,
)

EXACT_BYTES = 8 * 2**30  # limit of the exact methods
PLAIN, REFINED = 0.5, 0.75  # whitening by default, without a refinement and with one
FOURIER = 500  # random Fourier features by default


def ssbc(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    epsilon: float = 1.0,
    whitening: float | None = None,
    rotation: str = "itq",
    half_life: float | None = None,
    epochs: str | int = "auto",
    reference: Array = None,
    refine: int = 0,
    certified: bool = False,
    precision: str = "auto",
    paper: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Streaming Spectral Binary Coding, with the rounding it needs.

    Parameters
    ----------
    landmarks : array of shape (m, d)
        A uniform sample of the stream (`reservoir`), or `centres`.
    bits : int, default 64
        At most m.
    bandwidth : Bandwidth or float, optional
        Denominator b of the affinity exp(-distance^2 / b), `nearest(30)` by default.
    epsilon : float, default 1
        The sketch has l = ceil(bits + bits / epsilon) rows.
    whitening : float, optional
        Exponent of the division by singular values, from 0 (the paper) to 1: 0.5 by default, and
        0.75 for refined codes, whose bits need only find candidates.
    rotation : {"itq", "random", "uniform", "none"}, default "itq"
        Rotation of the directions before they become bits: see `Learner`.
    half_life : float, optional
        Number of rows after which a row counts half, for streams that change. By default rows are
        never forgotten.
    epochs : "auto", "never" or int, default "auto"
        When new landmarks are drawn and a new epoch is published: when the stream has moved away
        from the landmarks or its mixture has changed, never, or every so many rows (at least 512).
    reference : array of shape (n, d), optional
        Rows like those to come, by which `epochs="auto"` judges, and on which the first
        refinement is fitted while few rows were learned. Needed where the landmarks are not such
        rows, as centres are not; the landmarks by default.
    refine : int, default 0
        Bytes beside the bits, at most 256, for what the bits leave over: codes then decode to rows
        (`Coder.decode`), and a search ranks candidates by what they decode to.
    certified : bool, default False
        Whether one byte more bounds the distance of a row from what its code decodes to, for
        answers that are proven: `HammingIndex.search`.
    precision : {"auto", "double", "single", "tf32"}, default "auto"
        Of the products of the Gram matrix: single where that leaves the directions intact, or as
        told. "tf32" is fast on NVIDIA GPUs: `streambits.sketches.Gram`.
    paper : bool, default False
        Whether to follow Algorithm 1 to the letter: raw rows, one row freed at a time, the
        landmarks first in the stream, no alignment; `whitening`, `rotation`, `epochs` and
        `reference` are then ignored, and there is no refinement. Codes of different moments do not
        compare, as in the paper.
    seed : int or Generator, default 0
        Seed of the sample, the rotation and new landmarks.

    Returns
    -------
    Learner

    Raises
    ------
    InputError
        If a setting is out of its limits, or `bits` exceeds m.

    Notes
    -----
    Within an epoch all codes compare, whichever coder of the learner made them. Features cost d m
    multiplications and m exponentials per row. The sketch is the exact Gram matrix (m x m) up to
    m = 12 l, and Frequent Directions beyond, where they are faster. Memory is fixed at
    construction: see `Learner.nbytes`.

    References
    ----------
    Ghashami & Abdullah, "Binary Coding in Stream"; docs/paper-notes.md says where this differs.
    Gong & Lazebnik, "Iterative Quantization", CVPR 2011, for the rotation.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).random((2000, 8), dtype=np.float32)
    >>> learner = ssbc(rows[:100], bits=16).learn(rows)
    >>> learner.coder().encode(rows[:3])
    Codes(3 x 16 bits, epoch 0)
    """
    features = GaussianAffinity(landmarks, bandwidth)
    bits = as_bits(bits)
    size = sketch_size(bits, epsilon)
    if paper:
        if refine:
            raise InputError("the paper's codes have no refinement: leave refine or paper out")
        raw = FrequentDirections(
            features.width, size, 1, centred=False, half_life=half_life, like=features.like
        )
        learner = Learner(
            features, raw, bits=bits, whitening=0, rotation="none", steady=False, seed=seed
        )
        return learner.learn(features.landmarks)
    prior = features.landmarks
    sketch = _sketch(features, prior, bits, size, half_life=half_life, precision=precision)
    return Learner(
        features,
        sketch,
        bits=bits,
        prior=prior,
        whitening=_whitening(whitening, refine),
        rotation=rotation,
        reference=reference,
        refine=refine,
        certified=certified,
        monitor=monitor_for(epochs, features, reference),
        seed=seed,
    )


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
    sketch = _sketch(features, prior, bits, sketch_size(bits, epsilon), half_life=half_life)
    return Learner(
        features,
        sketch,
        bits=bits,
        prior=prior,
        whitening=_whitening(whitening, refine),
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


def _whitening(value: float | None, refine: int) -> float:
    """As asked for, or the default."""
    return (REFINED if refine else PLAIN) if value is None else value


def _sketch(
    features: Features,
    prior: Array,
    bits: int,
    size: int,
    *,
    half_life: float | None,
    precision: str = "auto",
) -> Sketch:
    """The sketch expected to be faster, chosen by the features of the prior."""
    with one_blas_thread():
        return auto(features(prior), bits, size, half_life=half_life, precision=precision)


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
