"""Methods on the rows themselves, with directions learned from the stream."""

import logging

from streambits._arrays import (
    Array,
    as_count,
    as_rows,
    as_seed,
)
from streambits.epochs.monitor import DriftMonitor, monitor_for
from streambits.errors import InputError
from streambits.features import Features, GaussianAffinity, Linear
from streambits.methods.method import BITS, Seed, sketch_size
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.sketches import (
    ETA,
    FrequentDirections,
    Gram,
    HadamardDirections,
    SupervisedGram,
    labelled_guide,
)

logger = logging.getLogger("streambits")
REFINED = 0.25  # whitening of refined codes by default
MARKS = 500  # rows of the sample, at most, by which a stream is judged


def linear(
    sample: Array,
    bits: int = BITS,
    *,
    whitening: float | None = None,
    rotation: str = "itq",
    half_life: float | None = None,
    epochs: str | int = "auto",
    refine: int = 0,
    certified: bool = False,
    reference: Array = None,
    seed: Seed = 0,
) -> Learner:
    """Principal components of the rows themselves, with any rounding: ssbc without a kernel.

    Parameters
    ----------
    sample : array of shape (m, d)
        Its mean is the origin, and it counts once beside the stream.
    bits : int, default 64
        At most d.
    whitening : float, optional
        Exponent of the division by singular values, from 0 to 1: 0 by default, and 0.25 for refined
        codes.
    rotation : {"itq", "random", "uniform", "none"}, default "itq"
    half_life : float, optional
        Number of rows after which a row counts half. By default rows are never forgotten.
    epochs : "auto", "never" or int, default "auto"
        When a new epoch is published: when the stream has moved away from the sample or its mixture
        has changed, by its affinity to at most 500 rows of it; never; or every so many rows (at
        least 512).
    refine, certified, reference
        As for `ssbc`.
    seed : int or Generator, default 0

    Returns
    -------
    Learner

    Notes
    -----
    Costs d^2 multiplications per row and d^2 values of memory.
    """
    features = Linear.around(sample)
    sketch = Gram(features.width, half_life=half_life, like=features.like)
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=(REFINED if refine else 0.0) if whitening is None else whitening,
        rotation=rotation,
        prior=sample,
        reference=reference,
        refine=refine,
        certified=certified,
        monitor=_monitor(epochs, features, sample, reference),
        seed=seed,
    )


def product(
    sample: Array,
    bits: int = 0,
    *,
    refine: int = 8,
    certified: bool = False,
    half_life: float | None = None,
    epochs: str | int = "auto",
    reference: Array = None,
    seed: Seed = 0,
) -> Learner:
    """Product quantisation, learned from a stream: codes of bytes, without sign bits.

    Parameters
    ----------
    sample : array of shape (m, d)
        Rows like those to come; it counts once beside the stream.
    bits : int, default 0
        These codes have no sign bits.
    refine : int, default 8
        Bytes per code, at most 256.
    certified, half_life, epochs, reference, seed
        As for `linear`.

    Returns
    -------
    Learner
        Its codes are found by a scan of all of them, which ranks by what they decode to; the best
        answers for their bytes, where a linear scan is acceptable.

    Raises
    ------
    InputError
        If `bits` is not 0.

    References
    ----------
    Jegou, Douze & Schmid, "Product Quantization for Nearest Neighbor Search", PAMI 2011.
    Ge, He, Ke & Sun, "Optimized Product Quantization", PAMI 2014.
    """
    if bits != 0:
        raise InputError(f"bits is {bits}, and product codes have no sign bits: leave it out")
    as_count(refine, "refine")
    return linear(
        sample,
        0,
        rotation="none",
        half_life=half_life,
        epochs=epochs,
        refine=refine,
        certified=certified,
        reference=reference,
        seed=seed,
    )


def pcah(
    sample: Array,
    bits: int = BITS,
    *,
    half_life: float | None = None,
    refine: int = 0,
    certified: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Signs of the principal components.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
    half_life, refine, certified, seed
        As for `linear`.

    Returns
    -------
    Learner
    """
    return linear(
        sample,
        bits,
        rotation="none",
        whitening=0,
        half_life=half_life,
        epochs="never",
        refine=refine,
        certified=certified,
        seed=seed,
    )


def itq(
    sample: Array,
    bits: int = BITS,
    *,
    half_life: float | None = None,
    refine: int = 0,
    certified: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Iterative quantisation: principal components, rotated towards the corners of a cube.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
    half_life, refine, certified, seed
        As for `linear`.

    Returns
    -------
    Learner

    References
    ----------
    Gong & Lazebnik, "Iterative Quantization", CVPR 2011.
    """
    return linear(
        sample,
        bits,
        rotation="itq",
        whitening=0,
        half_life=half_life,
        epochs="never",
        refine=refine,
        certified=certified,
        seed=seed,
    )


def unifdiag(
    sample: Array,
    bits: int = BITS,
    *,
    half_life: float | None = None,
    refine: int = 0,
    certified: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Principal components rotated to bits of equal variance.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
    half_life, refine, certified, seed
        As for `linear`.

    Returns
    -------
    Learner

    Notes
    -----
    The paper tracks the principal subspace by OPAST; here it is exact, which can only help. It is
    rotated once per epoch: later coders follow the first one, as for all methods here.

    References
    ----------
    Morvan, Souloumiac, Gouy-Pailler & Atif, "Streaming Binary Sketching based on Subspace Tracking
    and Diagonal Uniformization", ICASSP 2018.
    """
    return linear(
        sample,
        bits,
        rotation="uniform",
        whitening=0,
        half_life=half_life,
        epochs="never",
        refine=refine,
        certified=certified,
        seed=seed,
    )


def osh(
    sample: Array,
    bits: int = BITS,
    *,
    epsilon: float = 1.0,
    rotation: str = "random",
    half_life: float | None = None,
    refine: int = 0,
    certified: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Online sketching hashing: Frequent Directions of the centred rows themselves.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
    epsilon : float, default 1
        The sketch has l = ceil(bits + bits / epsilon) rows.
    rotation : {"random", "itq", "uniform", "none"}, default "random"
    half_life, refine, certified, seed
        As for `linear`.

    Returns
    -------
    Learner

    References
    ----------
    Leng, Wu, Cheng, Bai & Lu, "Online Sketching Hashing", CVPR 2015.
    """
    features = Linear.around(sample)
    size = sketch_size(as_bits(bits), epsilon)
    sketch = FrequentDirections(features.width, size, half_life=half_life, like=features.like)
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=0,
        rotation=rotation,
        prior=sample,
        refine=refine,
        certified=certified,
        seed=seed,
    )


def frosh(
    sample: Array,
    bits: int = BITS,
    *,
    epsilon: float = 1.0,
    rotation: str = "random",
    half_life: float | None = None,
    refine: int = 0,
    certified: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Faster online sketching hashing: osh of a few mixed rows per block.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
    epsilon, rotation, half_life, refine, certified, seed
        As for `osh`.

    Returns
    -------
    Learner
        Its certificate is infinite as soon as a block was sampled: see `HadamardDirections`.

    References
    ----------
    Chen, King & Lyu, "FROSH: FasteR Online Sketching Hashing", UAI 2017.
    """
    features, seed = Linear.around(sample), as_seed(seed)
    size = sketch_size(as_bits(bits), epsilon)
    sketch = HadamardDirections(
        features.width, size, half_life=half_life, seed=seed, like=features.like
    )
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=0,
        rotation=rotation,
        prior=sample,
        refine=refine,
        certified=certified,
        seed=seed,
    )


def semi_supervised(
    sample: Array,
    bits: int = BITS,
    *,
    labels: Array = None,
    eta: float = ETA,
    half_life: float | None = None,
    refine: int = 0,
    certified: bool = False,
    seed: Seed = 0,
) -> Learner:
    """Leading eigenvectors of pairs + eta C: the labels guide, the rows stream.

    Parameters
    ----------
    sample : array of shape (m, d)
    bits : int, default 64
        At most d.
    labels : array of shape (m,), optional
        One per row of `sample`, -1 where unknown. Without labels this is `pcah`.
    eta : float, default 0.03
        Weight of the covariance. Towards 0 the labels decide alone; a large `eta` is `pcah`.
    half_life, refine, certified, seed
        As for `linear`.

    Returns
    -------
    Learner

    Notes
    -----
    `pairs` is the mean of S_ij x_i x_j' over all pairs of labelled rows, with S_ij = 1 within a
    class and -1 between two; C is the covariance of the stream. Both are means, so `eta` does not
    depend on the numbers of rows and labels; with c equal classes, `pairs` is 2 / c of the
    covariance between classes.

    References
    ----------
    Wang, Kumar & Chang, "Semi-Supervised Hashing for Large-Scale Search", PAMI 2012.
    """
    features = Linear.around(sample)
    guide = labelled_guide(features(as_rows(sample, like=features.like)), labels)
    sketch = SupervisedGram(guide, eta=eta, half_life=half_life)
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=0,
        rotation="none",
        prior=sample,
        refine=refine,
        certified=certified,
        seed=seed,
    )


def _monitor(
    epochs: str | int, features: Features, sample: Array, reference: Array
) -> DriftMonitor | None:
    """A monitor that judges by some rows of the sample, as these features have no landmarks.

    Rows that are all equal tell nothing of where others may be, so there "auto" is "never".
    """
    if epochs == "never":
        return monitor_for(epochs, features)
    rows = as_rows(sample, like=features.like)
    try:
        marks = GaussianAffinity(rows[:: -(-rows.shape[0] // MARKS), :])
    except InputError:
        if epochs != "auto":
            raise
        logger.info("epochs 'auto' is 'never': rows of the sample have no distance from each other")
        return None
    return monitor_for(epochs, features, rows if reference is None else reference, marks)
