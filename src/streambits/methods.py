"""Every method as a choice of parts; this file is the table to read first.

    code(x) = pack(sign(features(x) . directions . rotation - thresholds))

| method             | features         | directions                        | rotation | streams |
|--------------------|------------------|-----------------------------------|----------|---------|
| ssbc               | GaussianAffinity | auto, centred, half-whitened      | itq      | yes     |
| ssbc, paper=True   | GaussianAffinity | FrequentDirections, raw           | none     | yes     |
| nystrom            | GaussianAffinity | the landmarks' own Gram, fixed    | none     | no      |
| exact_d, exact_r   | GaussianAffinity | Gram, every point a landmark      | none, random | no  |
| osh                | Linear           | FrequentDirections, centred       | random   | yes     |
| pcah, itq          | Linear           | Gram, centred                     | none, itq | yes    |
| lsh                | Linear           | Fixed (random)                    | none     | no      |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streambits._arrays import Array, as_count, as_number, as_rows, as_seed, beside
from streambits._threads import one_blas_thread
from streambits.codes import MOST_BITS
from streambits.errors import InputError
from streambits.features import Bandwidth, GaussianAffinity, Linear, nearest
from streambits.learner import Learner
from streambits.sketches import Fixed, FrequentDirections, Gram, auto

Seed = int | np.random.Generator
EXACT_BYTES = 8 * 2**30  # what the exact methods may take


def ssbc(
    train: Array,
    bits: int,
    *,
    bandwidth: Bandwidth | float | None = None,
    epsilon: float = 1.0,
    whitening: float = 0.5,
    rotation: str = "itq",
    half_life: float | None = None,
    paper: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Streaming Spectral Binary Coding (Ghashami & Abdullah), with the rounding it needs.

    train: (m, d), the landmarks: a uniform sample of the stream (`reservoir`), or `centres`.
    bandwidth: denominator of the affinity, `nearest(30)` by default. epsilon: the sketch has
    l = ceil(bits + bits / epsilon) rows. whitening, rotation: see Learner.
    half_life: rows after which a row counts half, for streams that change; None: never.
    paper: Algorithm 1 to the letter instead: raw rows, one row freed at a time, no whitening, no
    rotation, no alignment, the landmarks first in the stream. Its codes of different moments do
    not compare, as in the paper.

    >>> rows = np.random.default_rng(0).random((2000, 8), dtype=np.float32)
    >>> learner = ssbc(rows[:100], bits=16).learn(rows)
    >>> learner.coder().encode(rows[:3])
    Codes(3 x 16 bits, epoch 0)
    """
    features = GaussianAffinity(train, bandwidth)
    bits = as_count(bits, "bits", most=MOST_BITS)
    size = _sketch_size(bits, epsilon)
    if paper:
        raw = FrequentDirections(
            features.width, size, 1, centred=False, half_life=half_life, like=features.like
        )
        learner = Learner(
            features, raw, bits=bits, whitening=0, rotation="none", steady=False, seed=seed
        )
        return learner.learn(features.landmarks)
    with one_blas_thread():
        sketch = auto(features(features.landmarks), bits, size, half_life=half_life)
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=whitening,
        rotation=rotation,
        prior=features.landmarks,
        seed=seed,
    )


def nystrom(
    train: Array, bits: int, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Signs of the Nystrom coordinates Lambda^(-1/2) U' w(x): nothing learned from the stream."""
    return _spectral(train, bits, bandwidth, whitening=0.5, rotation="none", seed=seed)


def exact_d(
    train: Array, bits: int, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Signs of the leading eigenvectors of the full affinity matrix: every point a landmark."""
    _check_exact(train)
    return _spectral(train, bits, bandwidth, whitening=1, rotation="none", seed=seed)


def exact_r(
    train: Array, bits: int, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Exact-D after a random rotation of the eigenvectors."""
    _check_exact(train)
    return _spectral(train, bits, bandwidth, whitening=1, rotation="random", seed=seed)


def osh(
    train: Array,
    bits: int,
    *,
    epsilon: float = 1.0,
    rotation: str = "random",
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Online sketching hashing (Leng 2015): Frequent Directions on the centred rows themselves."""
    features = Linear.around(train)
    size = _sketch_size(as_count(bits, "bits", most=MOST_BITS), epsilon)
    sketch = FrequentDirections(features.width, size, half_life=half_life, like=features.like)
    return Learner(
        features, sketch, bits=bits, whitening=0, rotation=rotation, prior=train, seed=seed
    )


def pcah(train: Array, bits: int, *, half_life: float | None = None, seed: Seed = 0) -> Learner:
    """Signs of the principal components."""
    return _principal(train, bits, "none", half_life, seed)


def itq(train: Array, bits: int, *, half_life: float | None = None, seed: Seed = 0) -> Learner:
    """Iterative quantisation (Gong & Lazebnik 2011): principal components, rotated to corners."""
    return _principal(train, bits, "itq", half_life, seed)


def lsh(train: Array, bits: int, *, seed: Seed = 0) -> Learner:
    """Random hyperplanes through the mean of `train` (Charikar 2002). Any number of bits."""
    features = Linear.around(train)
    bits = as_count(bits, "bits", most=MOST_BITS)
    seed = as_seed(seed)
    planes = np.random.default_rng(seed).standard_normal((features.width, bits))
    sketch = Fixed(beside(planes, features.like))
    return Learner(features, sketch, bits=bits, whitening=0, rotation="none", seed=seed)


@dataclass(frozen=True)
class Method:
    """A row of the table: how to build it, and what it cannot do.

    streams: rows of the stream change it, and shards that saw different rows merge.
    limit: 'columns' or 'landmarks' where it has at most as many bits, '' where it has any number.
    distance: how its codes are meant to be compared: 'hamming', 'product' or 'spherical'.
    """

    build: Callable[..., Learner]
    streams: bool = True
    limit: str = ""
    distance: str = "hamming"

    def __call__(self, train: Array, bits: int, **settings: Any) -> Learner:
        """A learner of this method; settings as the function of that name takes them."""
        return self.build(train, bits, **settings)

    def refusal(self, bits: int, *, landmarks: int, columns: int) -> str:
        """Why it has no codes of this length, or an empty text if it has."""
        most = {"columns": columns, "landmarks": landmarks}.get(self.limit, MOST_BITS)
        return f"at most {most} bits: one per {self.limit[:-1]}" if bits > most else ""


METHODS: dict[str, Method] = {
    "ssbc": Method(ssbc, limit="landmarks"),
    "nystrom": Method(nystrom, streams=False, limit="landmarks"),
    "exact_d": Method(exact_d, streams=False, limit="landmarks"),
    "exact_r": Method(exact_r, streams=False, limit="landmarks"),
    "osh": Method(osh, limit="columns"),
    "pcah": Method(pcah, limit="columns"),
    "itq": Method(itq, limit="columns"),
    "lsh": Method(lsh, streams=False),
}


def _sketch_size(bits: int, epsilon: float) -> int:
    """l = ceil(bits + bits / epsilon), the paper's."""
    rows = bits / as_number(epsilon, "epsilon", above=0)
    if not math.isfinite(rows):
        raise InputError(f"epsilon is {epsilon}; it must be larger: l = bits + bits / epsilon")
    return math.ceil(bits + rows)


def _principal(
    train: Array, bits: int, rotation: str, half_life: float | None, seed: Seed
) -> Learner:
    features = Linear.around(train)
    sketch = Gram(features.width, half_life=half_life, like=features.like)
    return Learner(
        features, sketch, bits=bits, whitening=0, rotation=rotation, prior=train, seed=seed
    )


def _spectral(
    train: Array,
    bits: int,
    bandwidth: Bandwidth | float | None,
    *,
    whitening: float,
    rotation: str,
    seed: Seed,
) -> Learner:
    """Directions from the affinities of the landmarks among themselves."""
    features = GaussianAffinity(train, nearest(30) if bandwidth is None else bandwidth)
    own = Gram(features.width, centred=False, like=features.like)
    with one_blas_thread():
        own.update(features(features.landmarks))
        sketch = Fixed.of(own, as_count(bits, "bits", most=MOST_BITS))
    return Learner(features, sketch, bits=bits, whitening=whitening, rotation=rotation, seed=seed)


def _check_exact(train: Array) -> None:
    points = as_rows(train, name="train").shape[0]
    needed = 4 * 8 * points**2
    if needed > EXACT_BYTES:
        raise InputError(
            f"the exact methods make every point a landmark: {points} points take about "
            f"{needed:,} bytes, more than {EXACT_BYTES:,}: pass fewer points, or use ssbc"
        )
