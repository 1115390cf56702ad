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

EXACT_BYTES = 8 * 2**30  # what the exact methods may take
FOURIER = 500  # random Fourier features, if not said otherwise


def ssbc(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    epsilon: float = 1.0,
    whitening: float = 0.5,
    rotation: str = "itq",
    half_life: float | None = None,
    epochs: str | int = "auto",
    reference: Array = None,
    paper: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Streaming Spectral Binary Coding (Ghashami & Abdullah), with the rounding it needs.

    landmarks: (m, d), a uniform sample of the stream (`reservoir`), or `centres`.
    bandwidth: denominator of the affinity, `nearest(30)` by default. epsilon: the sketch has
    l = ceil(bits + bits / epsilon) rows. whitening, rotation: see Learner.
    half_life: rows after which a row counts half, for streams that change; None: never.
    epochs: 'never', or when new landmarks are drawn and a new epoch is published: 'auto', when
    the stream has moved away from them, or a number of rows. reference: rows like those to come,
    where the landmarks are not, as centres: by them 'auto' judges.
    paper: Algorithm 1 to the letter instead: raw rows, one row freed at a time, no whitening, no
    rotation, no alignment, the landmarks first in the stream. Its codes of different moments do
    not compare, as in the paper.

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
        raw = FrequentDirections(
            features.width, size, 1, centred=False, half_life=half_life, like=features.like
        )
        learner = Learner(
            features, raw, bits=bits, whitening=0, rotation="none", steady=False, seed=seed
        )
        return learner.learn(features.landmarks)
    prior = features.landmarks
    sketch = _sketch(features, prior, bits, size, half_life)
    return Learner(
        features,
        sketch,
        bits=bits,
        prior=prior,
        whitening=whitening,
        rotation=rotation,
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
    whitening: float = 0.5,
    rotation: str = "itq",
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """SSBC with random Fourier features in place of landmarks (Rahimi & Recht 2007).

    count: features, 500 by default, or 2 bits if that is more. The rest: see ssbc. Shards of one
    seed, bandwidth and centre have the same features.
    """
    bits = as_bits(bits)
    count = max(FOURIER, 2 * bits) if count is None else count
    seed = as_seed(seed)
    features = Cosines.random(sample, count, bandwidth, seed)
    prior = as_rows(sample, like=features.like)
    sketch = _sketch(features, prior, bits, sketch_size(bits, epsilon), half_life)
    return Learner(
        features, sketch, bits=bits, prior=prior, whitening=whitening, rotation=rotation, seed=seed
    )


def nystrom(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Signs of the Nystrom coordinates Lambda^(-1/2) U' w(x): nothing learned from the stream."""
    return _spectral(landmarks, bits, bandwidth, whitening=0.5, rotation="none", seed=seed)


def exact_d(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Signs of the leading eigenvectors of the full affinity matrix: every point a landmark."""
    _check_exact(landmarks)
    return _spectral(landmarks, bits, bandwidth, whitening=1, rotation="none", seed=seed)


def exact_r(
    landmarks: Array,
    bits: int = BITS,
    *,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Exact-D after a random rotation of the eigenvectors."""
    _check_exact(landmarks)
    return _spectral(landmarks, bits, bandwidth, whitening=1, rotation="random", seed=seed)


def _sketch(
    features: Features, prior: Array, bits: int, size: int, half_life: float | None
) -> Sketch:
    """The faster of the two sketches, told by the features of the prior."""
    with one_blas_thread():
        return auto(features(prior), bits, size, half_life=half_life)


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
