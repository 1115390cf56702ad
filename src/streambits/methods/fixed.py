"""Methods whose bits are fixed when they are made: nothing is learned from the stream."""

import numpy as np

from streambits._arrays import (
    Array,
    as_rows,
    as_seed,
    beside,
    double,
    to_numpy,
)
from streambits.errors import InputError
from streambits.features import (
    Bandwidth,
    Cosines,
    Eigenfunctions,
    Features,
    Linear,
    Spheres,
    class_functions,
)
from streambits.methods.method import BITS, Seed
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.sketches import (
    Fixed,
)

FUNCTIONS = 100  # eigenfunctions that labels may combine


def lsh(sample: Array, bits: int = BITS, *, seed: Seed = 0) -> Learner:
    """Random hyperplanes through the mean of `sample` (Charikar 2002). Any number of bits."""
    features = Linear.around(sample)
    bits = as_bits(bits)
    seed = as_seed(seed)
    planes = np.random.default_rng(seed).standard_normal((features.width, bits))
    sketch = Fixed(beside(planes, features.like))
    return Learner(features, sketch, bits=bits, whitening=0, rotation="none", seed=seed)


def lsbc(
    sample: Array, bits: int = BITS, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Locality-sensitive codes of a Gaussian kernel (Raginsky & Lazebnik 2009).

    Hamming distance grows with exp(-distance^2 / bandwidth) falling. Any number of bits; of
    `sample` only its mean and `bandwidth` (`nearest(30)` by default) are used.
    """
    seed = as_seed(seed)
    return _signs(Cosines.random(sample, as_bits(bits), bandwidth, seed, spread=1.0), seed)


def e2lsh(
    sample: Array, bits: int = BITS, *, width: float | None = None, seed: Seed = 0
) -> Learner:
    """The parity of floor((a . x + b) / width), a normal, b uniform (Datar et al. 2004).

    width: of a stripe, 4 sigma_30 of `sample` by default. Any number of bits.
    """
    seed = as_seed(seed)
    return _signs(Cosines.stable(sample, as_bits(bits), width, seed), seed)


def sh(sample: Array, bits: int = BITS, *, seed: Seed = 0) -> Learner:
    """Spectral hashing (Weiss, Torralba & Fergus 2008): eigenfunctions of a box around `sample`."""
    return _signs(Cosines.box(sample, as_bits(bits)), seed)


def ssh(
    sample: Array,
    bits: int = BITS,
    *,
    labels: object = None,
    trust: float = 1.0,
    bandwidth: Bandwidth | float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Signs of the smoothest eigenfunctions of any density (Fergus, Weiss & Torralba 2009).

    The density is taken as separable along the principal components of `sample`, with at most 50
    steps along each: so bits are at most 49 a column, and fewer where `sample` has under 500 rows.
    labels: (m,) whole numbers, -1 where unknown. With them the first bits are the smoothest
    functions that tell one class from the others (one bit for two classes), and the remaining
    bits the unsupervised ones. trust: how much labels weigh against smoothness.
    bandwidth: `nearest(30)` by default.
    """
    bits = as_bits(bits)
    if labels is None:
        return _signs(Eigenfunctions.smoothest(sample, bits, bandwidth), seed)
    features = Eigenfunctions.smoothest(sample, bits, bandwidth, most=FUNCTIONS, constant=True)
    values = to_numpy(double(features(as_rows(sample, like=features.like, name="sample"))))
    classes = class_functions(values, 1 - features.weights, labels, trust)
    if classes.shape[1] > bits:
        raise InputError(f"{classes.shape[1]} classes take a bit each, and bits is {bits}")
    plain = np.eye(features.width)[:, 1 : 1 + bits - classes.shape[1]]
    return _along(features, np.concatenate([classes, plain], axis=1), seed)


def mdsh(
    sample: Array, bits: int = BITS, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Multidimensional spectral hashing (Weiss, Fergus & Torralba 2012). Any number of bits.

    Its codes are meant for `scoring.ProductAffinity`, with the weights and groups of its features.
    """
    return _signs(Eigenfunctions.heaviest(sample, as_bits(bits), bandwidth), seed)


def spherical(sample: Array, bits: int = BITS, *, seed: Seed = 0) -> Learner:
    """Spherical hashing (Heo et al. 2012): each bit a ball that holds half of `sample`.

    Its codes are meant for `scoring.spherical_distance`.
    """
    seed = as_seed(seed)
    return _signs(Spheres.balanced(sample, as_bits(bits), seed), seed)


def _signs(features: Features, seed: Seed) -> Learner:
    """The signs of the features themselves."""
    return _along(features, np.eye(features.width), seed)


def _along(features: Features, vectors: Array, seed: Seed) -> Learner:
    """The signs of the features along given directions (width, bits)."""
    sketch, bits = Fixed(beside(vectors, features.like)), vectors.shape[1]
    return Learner(features, sketch, bits=bits, whitening=0, rotation="none", seed=seed)
