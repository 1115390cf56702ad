"""Every method as a choice of parts; this file is the table to read first.

    code(x) = pack(sign(features(x) . directions . rotation - thresholds))

| method             | features         | directions                        | rotation | streams |
|--------------------|------------------|-----------------------------------|----------|---------|
| ssbc               | GaussianAffinity | auto, centred, half-whitened      | itq      | yes     |
| ssbc, paper=True   | GaussianAffinity | FrequentDirections, raw           | none     | yes     |
| nystrom            | GaussianAffinity | the landmarks' own Gram, fixed    | none     | no      |
| exact_d, exact_r   | GaussianAffinity | Gram, every point a landmark      | none, random | no  |
| rff_fd             | Cosines          | auto, centred, half-whitened      | itq      | yes     |
| osh                | Linear           | FrequentDirections, centred       | random   | yes     |
| frosh              | Linear           | HadamardDirections, centred       | random   | yes     |
| pcah, itq          | Linear           | Gram, centred                     | none, itq | yes    |
| unifdiag           | Linear           | Gram, centred                     | uniform  | yes     |
| semi_supervised    | Linear           | Guided (labels), centred          | none     | yes     |
| lsh                | Linear           | Fixed (random)                    | none     | no      |
| lsbc, e2lsh, sh    | Cosines          | Fixed (identity)                  | none     | no      |
| ssh, mdsh          | Eigenfunctions   | Fixed (identity; ssh: or of labels) | none   | no      |
| spherical          | Spheres          | Fixed (identity)                  | none     | no      |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streambits._arrays import (
    Array,
    as_count,
    as_number,
    as_rows,
    as_seed,
    beside,
    double,
    to_numpy,
)
from streambits._threads import one_blas_thread
from streambits.codes import MOST_BITS
from streambits.errors import InputError
from streambits.features import (
    Bandwidth,
    Cosines,
    Eigenfunctions,
    Features,
    GaussianAffinity,
    Linear,
    Spheres,
    class_functions,
    nearest,
)
from streambits.learner import Learner
from streambits.sketches import (
    ETA,
    Fixed,
    FrequentDirections,
    Gram,
    Guided,
    HadamardDirections,
    auto,
    labelled_guide,
)

Seed = int | np.random.Generator
EXACT_BYTES = 8 * 2**30  # what the exact methods may take
FUNCTIONS = 100  # eigenfunctions that labels may combine
FOURIER = 500  # random Fourier features, if not said otherwise


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


def rff_fd(
    train: Array,
    bits: int,
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
    bits = as_count(bits, "bits", most=MOST_BITS)
    count = max(FOURIER, 2 * bits) if count is None else count
    seed = as_seed(seed)
    features = Cosines.random(train, count, bandwidth, seed)
    prior = as_rows(train, like=features.like)
    with one_blas_thread():
        sketch = auto(features(prior), bits, _sketch_size(bits, epsilon), half_life=half_life)
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=whitening,
        rotation=rotation,
        prior=prior,
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


def frosh(
    train: Array,
    bits: int,
    *,
    epsilon: float = 1.0,
    rotation: str = "random",
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Faster online sketching hashing (Chen 2017): osh of a few mixed rows a block.

    Its certificate is infinite as soon as a block was sampled: see HadamardDirections.
    """
    features, seed = Linear.around(train), as_seed(seed)
    size = _sketch_size(as_count(bits, "bits", most=MOST_BITS), epsilon)
    sketch = HadamardDirections(
        features.width, size, half_life=half_life, seed=seed, like=features.like
    )
    return Learner(
        features, sketch, bits=bits, whitening=0, rotation=rotation, prior=train, seed=seed
    )


def linear(
    train: Array,
    bits: int,
    *,
    whitening: float = 0,
    rotation: str = "itq",
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Principal components of the rows themselves, with any rounding: ssbc without a kernel."""
    features = Linear.around(train)
    sketch = Gram(features.width, half_life=half_life, like=features.like)
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=whitening,
        rotation=rotation,
        prior=train,
        seed=seed,
    )


def pcah(train: Array, bits: int, *, half_life: float | None = None, seed: Seed = 0) -> Learner:
    """Signs of the principal components."""
    return linear(train, bits, rotation="none", half_life=half_life, seed=seed)


def itq(train: Array, bits: int, *, half_life: float | None = None, seed: Seed = 0) -> Learner:
    """Iterative quantisation (Gong & Lazebnik 2011): principal components, rotated to corners."""
    return linear(train, bits, rotation="itq", half_life=half_life, seed=seed)


def unifdiag(train: Array, bits: int, *, half_life: float | None = None, seed: Seed = 0) -> Learner:
    """Principal components turned to bits of equal variance (Morvan et al. 2018).

    The paper tracks the principal subspace by OPAST; here it is exact, which can only help.
    Turned once an epoch: later coders follow the first one, as those of all methods here.
    """
    return linear(train, bits, rotation="uniform", half_life=half_life, seed=seed)


def semi_supervised(
    train: Array,
    bits: int,
    *,
    labels: Array = None,
    eta: float = ETA,
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Leading eigenvectors of pairs + eta C (Wang, Kumar & Chang 2012): labels guide, rows stream.

    pairs: the mean of S_ij x_i x_j' over all pairs of labelled rows, S_ij = 1 within a class and -1
    between two; C: the covariance of the stream. Both are means, so eta does not depend on the
    numbers of rows and labels; with c equal classes, pairs is 2 / c of the covariance between
    classes. eta -> 0 is the labels alone, a large eta is pcah.
    labels: (m,), one a row of `train`, -1 where unknown. None: all unknown, and this is pcah.
    """
    features = Linear.around(train)
    guide = labelled_guide(features(as_rows(train, like=features.like)), labels)
    sketch = Guided(guide, eta=eta, half_life=half_life)
    return Learner(
        features, sketch, bits=bits, whitening=0, rotation="none", prior=train, seed=seed
    )


def lsh(train: Array, bits: int, *, seed: Seed = 0) -> Learner:
    """Random hyperplanes through the mean of `train` (Charikar 2002). Any number of bits."""
    features = Linear.around(train)
    bits = as_count(bits, "bits", most=MOST_BITS)
    seed = as_seed(seed)
    planes = np.random.default_rng(seed).standard_normal((features.width, bits))
    sketch = Fixed(beside(planes, features.like))
    return Learner(features, sketch, bits=bits, whitening=0, rotation="none", seed=seed)


def lsbc(
    train: Array, bits: int, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Locality-sensitive codes of a Gaussian kernel (Raginsky & Lazebnik 2009).

    Hamming distance grows with exp(-distance^2 / bandwidth) falling. Any number of bits; of
    `train` only its mean and `bandwidth` (`nearest(30)` by default) are used.
    """
    seed = as_seed(seed)
    return _signs(Cosines.random(train, _bits(bits), bandwidth, seed, spread=1.0), seed)


def e2lsh(train: Array, bits: int, *, width: float | None = None, seed: Seed = 0) -> Learner:
    """The parity of floor((a . x + b) / width), a normal, b uniform (Datar et al. 2004).

    width: of a stripe, 4 sigma_30 of `train` by default. Any number of bits.
    """
    seed = as_seed(seed)
    return _signs(Cosines.stable(train, _bits(bits), width, seed), seed)


def sh(train: Array, bits: int, *, seed: Seed = 0) -> Learner:
    """Spectral hashing (Weiss, Torralba & Fergus 2008): eigenfunctions of a box around `train`."""
    return _signs(Cosines.box(train, _bits(bits)), seed)


def ssh(
    train: Array,
    bits: int,
    *,
    labels: object = None,
    trust: float = 1.0,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Signs of the smoothest eigenfunctions of any density (Fergus, Weiss & Torralba 2009).

    The density is taken as separable along the principal components of `train`, with at most 50
    steps along each: so bits are at most 49 a column, and fewer where `train` has under 500 rows.
    labels: (m,) whole numbers, -1 where unknown. With them the first bits are the smoothest
    functions that tell one class from the others (one bit for two classes), and the remaining
    bits the unsupervised ones. trust: how much labels weigh against smoothness.
    bandwidth: `nearest(30)` by default.
    """
    bits = _bits(bits)
    if labels is None:
        return _signs(Eigenfunctions.smoothest(train, bits, bandwidth), seed)
    features = Eigenfunctions.smoothest(train, bits, bandwidth, most=FUNCTIONS, constant=True)
    values = to_numpy(double(features(as_rows(train, like=features.like, name="train"))))
    classes = class_functions(values, 1 - features.weights, labels, trust)
    if classes.shape[1] > bits:
        raise InputError(f"{classes.shape[1]} classes take a bit each, and bits is {bits}")
    plain = np.eye(features.width)[:, 1 : 1 + bits - classes.shape[1]]
    return _along(features, np.concatenate([classes, plain], axis=1), seed)


def mdsh(
    train: Array, bits: int, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Multidimensional spectral hashing (Weiss, Fergus & Torralba 2012). Any number of bits.

    Its codes are meant for `scoring.ProductAffinity`, with the weights and groups of its features.
    """
    return _signs(Eigenfunctions.heaviest(train, _bits(bits), bandwidth), seed)


def spherical(train: Array, bits: int, *, seed: Seed = 0) -> Learner:
    """Spherical hashing (Heo et al. 2012): each bit a ball that holds half of `train`.

    Its codes are meant for `scoring.spherical_distance`.
    """
    seed = as_seed(seed)
    return _signs(Spheres.balanced(train, _bits(bits), seed), seed)


@dataclass(frozen=True)
class Method:
    """A row of the table: how to build it, and what it cannot do.

    streams: rows of the stream change it, and shards that saw different rows merge.
    limit: 'columns' or 'landmarks' where it has at most as many bits, '' where it has any number.
    distance: how its codes are meant to be compared: 'hamming', 'product' or 'spherical'.
    most_rows: where every row must be a landmark, how many that can be in reasonable time.
    """

    build: Callable[..., Learner]
    streams: bool = True
    limit: str = ""
    distance: str = "hamming"
    most_rows: int | None = None

    def __call__(self, train: Array, bits: int, **settings: Any) -> Learner:
        """A learner of this method; settings as the function of that name takes them."""
        return self.build(train, bits, **settings)

    def refusal(self, bits: int, *, landmarks: int, columns: int, rows: int = 0) -> str:
        """Why it has no codes of this length for so many rows, or an empty text if it has."""
        if self.most_rows is not None and rows > self.most_rows:
            return f"at most {self.most_rows} rows: every one is a landmark, and there are {rows}"
        most = {"columns": columns, "landmarks": landmarks}.get(self.limit, MOST_BITS)
        return f"at most {most} bits: one per {self.limit[:-1]}" if bits > most else ""


METHODS: dict[str, Method] = {
    "ssbc": Method(ssbc, limit="landmarks"),
    "rff_fd": Method(rff_fd),
    "nystrom": Method(nystrom, streams=False, limit="landmarks"),
    "exact_d": Method(exact_d, streams=False, limit="landmarks", most_rows=4000),
    "exact_r": Method(exact_r, streams=False, limit="landmarks", most_rows=4000),
    "osh": Method(osh, limit="columns"),
    "frosh": Method(frosh, limit="columns"),
    "pcah": Method(pcah, limit="columns"),
    "itq": Method(itq, limit="columns"),
    "unifdiag": Method(unifdiag, limit="columns"),
    "semi_supervised": Method(semi_supervised, limit="columns"),
    "lsh": Method(lsh, streams=False),
    "lsbc": Method(lsbc, streams=False),
    "e2lsh": Method(e2lsh, streams=False),
    "sh": Method(sh, streams=False),
    "ssh": Method(ssh, streams=False),
    "mdsh": Method(mdsh, streams=False, distance="product"),
    "spherical": Method(spherical, streams=False, distance="spherical"),
}


def _bits(bits: int) -> int:
    return as_count(bits, "bits", most=MOST_BITS)


def _signs(features: Features, seed: Seed) -> Learner:
    """The signs of the features themselves."""
    return _along(features, np.eye(features.width), seed)


def _along(features: Features, vectors: Array, seed: Seed) -> Learner:
    """The signs of the features along given directions (width, bits)."""
    sketch, bits = Fixed(beside(vectors, features.like)), vectors.shape[1]
    return Learner(features, sketch, bits=bits, whitening=0, rotation="none", seed=seed)


def _sketch_size(bits: int, epsilon: float) -> int:
    """l = ceil(bits + bits / epsilon), the paper's."""
    rows = bits / as_number(epsilon, "epsilon", above=0)
    if not math.isfinite(rows):
        raise InputError(f"epsilon is {epsilon}; it must be larger: l = bits + bits / epsilon")
    return math.ceil(bits + rows)


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
