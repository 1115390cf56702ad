"""Methods whose bits are fixed at construction: nothing is learned from the stream."""

import numpy as np

from paper.methods.features import Cosines, Eigenfunctions, Spheres, class_functions
from paper.methods.sketches import Fixed
from streambits._arrays import (
    Array,
    as_rows,
    as_seed,
    double,
    to_device_of,
    to_numpy,
)
from streambits.errors import InputError
from streambits.features import Bandwidth, Features, Linear
from streambits.methods.method import BITS, Seed
from streambits.model.codes import as_bits
from streambits.model.learner import Learner

FUNCTIONS = 100  # eigenfunctions that labels may combine


def lsh(sample: Array, bits: int = BITS, *, seed: Seed = 0) -> Learner:
    """Random hyperplanes through the mean of a sample.

    Parameters
    ----------
    sample : array of shape (m, d)
        Only its mean is used.
    bits : int, default 64
        Any number up to 4096.
    seed : int or Generator, default 0

    Returns
    -------
    Learner

    References
    ----------
    Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002.
    """
    features = Linear.around(sample)
    bits = as_bits(bits)
    seed = as_seed(seed)
    planes = np.random.default_rng(seed).standard_normal((features.width, bits))
    sketch = Fixed(to_device_of(planes, features.like))
    return Learner(features, sketch, bits=bits, whitening=0, rotation="none", seed=seed)


def lsbc(
    sample: Array, bits: int = BITS, *, bandwidth: Bandwidth | float | None = None, seed: Seed = 0
) -> Learner:
    """Locality-sensitive binary codes of a Gaussian kernel.

    The expected Hamming distance grows as exp(-distance^2 / bandwidth) falls.

    Parameters
    ----------
    sample : array of shape (m, d)
        Only its mean and the bandwidth are used.
    bits : int, default 64
        Any number up to 4096.
    bandwidth : Bandwidth or float, optional
        Denominator of the affinity, `nearest(30)` by default.
    seed : int or Generator, default 0

    Returns
    -------
    Learner

    References
    ----------
    Raginsky & Lazebnik, "Locality-Sensitive Binary Codes from Shift-Invariant Kernels", NIPS 2009.
    """
    seed = as_seed(seed)
    return _signs(Cosines.random(sample, as_bits(bits), bandwidth, seed, spread=1.0), seed)


def e2lsh(
    sample: Array, bits: int = BITS, *, width: float | None = None, seed: Seed = 0
) -> Learner:
    """Parities of random stripes: floor((a . x + b) / width) mod 2, a normal, b uniform.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
        Any number up to 4096.
    width : float, optional
        Width of a stripe, 4 sigma_30 of `sample` by default.
    seed : int or Generator, default 0

    Returns
    -------
    Learner

    References
    ----------
    Datar, Immorlica, Indyk & Mirrokni, "Locality-Sensitive Hashing Scheme Based on p-Stable
    Distributions", SoCG 2004.
    """
    seed = as_seed(seed)
    return _signs(Cosines.stable(sample, as_bits(bits), width, seed), seed)


def sh(sample: Array, bits: int = BITS, *, seed: Seed = 0) -> Learner:
    """Spectral hashing: the smoothest eigenfunctions of a box around a sample.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
    seed : int or Generator, default 0

    Returns
    -------
    Learner

    References
    ----------
    Weiss, Torralba & Fergus, "Spectral Hashing", NIPS 2008.
    """
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
    """Signs of the smoothest eigenfunctions of a density, with or without labels.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
        At most 49 per column, and fewer where `sample` has under 500 rows.
    labels : array of shape (m,), optional
        Whole numbers, -1 where unknown. The first bits are then the smoothest functions that
        separate one class from the others (one bit for two classes), and the remaining bits are
        the unsupervised ones.
    trust : float, default 1
        Weight of the labels against smoothness.
    bandwidth : Bandwidth or float, optional
        `nearest(30)` by default.
    seed : int or Generator, default 0

    Returns
    -------
    Learner

    Raises
    ------
    InputError
        If there are more classes than bits.

    Notes
    -----
    The density is assumed to be separable along the principal components of `sample`, with at most
    50 steps along each.

    References
    ----------
    Fergus, Weiss & Torralba, "Semi-Supervised Learning in Gigantic Image Collections", NIPS 2009.
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
    """Multidimensional spectral hashing.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
        Any number up to 4096.
    bandwidth : Bandwidth or float, optional
        `nearest(30)` by default.
    seed : int or Generator, default 0

    Returns
    -------
    Learner
        Its codes are meant for `scoring.ProductAffinity`, with the weights and groups of its
        features.

    References
    ----------
    Weiss, Fergus & Torralba, "Multidimensional Spectral Hashing", ECCV 2012.
    """
    return _signs(Eigenfunctions.heaviest(sample, as_bits(bits), bandwidth), seed)


def spherical(sample: Array, bits: int = BITS, *, seed: Seed = 0) -> Learner:
    """Spherical hashing: each bit is a ball that holds half of a sample.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
    seed : int or Generator, default 0

    Returns
    -------
    Learner
        Its codes are meant for `scoring.spherical_distance`.

    References
    ----------
    Heo, Lee, He, Chang & Yoon, "Spherical Hashing", CVPR 2012.
    """
    seed = as_seed(seed)
    return _signs(Spheres.balanced(sample, as_bits(bits), seed), seed)


def _signs(features: Features, seed: Seed) -> Learner:
    """The signs of the features themselves."""
    return _along(features, np.eye(features.width), seed)


def _along(features: Features, vectors: Array, seed: Seed) -> Learner:
    """The signs of the features along directions (width, bits)."""
    sketch, bits = Fixed(to_device_of(vectors, features.like)), vectors.shape[1]
    return Learner(features, sketch, bits=bits, whitening=0, rotation="none", seed=seed)
