"""Rivals on the rows themselves, with directions learned from the stream."""

from paper.methods.sketches import ETA, HadamardDirections, SupervisedGram, labelled_guide
from streambits._arrays import Array, as_rows, as_seed
from streambits.features import Linear
from streambits.methods import linear
from streambits.methods.method import BITS, Seed, sketch_size
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.sketches import FrequentDirections


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
