"""Methods on the rows themselves, with directions learned from the stream."""

from streambits._arrays import (
    Array,
    as_rows,
    as_seed,
)
from streambits.features import Linear
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


def linear(
    sample: Array,
    bits: int = BITS,
    *,
    whitening: float = 0,
    rotation: str = "itq",
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Principal components of the rows themselves, with any rounding: ssbc without a kernel."""
    features = Linear.around(sample)
    sketch = Gram(features.width, half_life=half_life, like=features.like)
    return Learner(
        features,
        sketch,
        bits=bits,
        whitening=whitening,
        rotation=rotation,
        prior=sample,
        seed=seed,
    )


def pcah(
    sample: Array, bits: int = BITS, *, half_life: float | None = None, seed: Seed = 0
) -> Learner:
    """Signs of the principal components."""
    return linear(sample, bits, rotation="none", half_life=half_life, seed=seed)


def itq(
    sample: Array, bits: int = BITS, *, half_life: float | None = None, seed: Seed = 0
) -> Learner:
    """Iterative quantisation (Gong & Lazebnik 2011): principal components, rotated to corners."""
    return linear(sample, bits, rotation="itq", half_life=half_life, seed=seed)


def unifdiag(
    sample: Array, bits: int = BITS, *, half_life: float | None = None, seed: Seed = 0
) -> Learner:
    """Principal components turned to bits of equal variance (Morvan et al. 2018).

    The paper tracks the principal subspace by OPAST; here it is exact, which can only help.
    Turned once an epoch: later coders follow the first one, as those of all methods here.
    """
    return linear(sample, bits, rotation="uniform", half_life=half_life, seed=seed)


def osh(
    sample: Array,
    bits: int = BITS,
    *,
    epsilon: float = 1.0,
    rotation: str = "random",
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Online sketching hashing (Leng 2015): Frequent Directions on the centred rows themselves."""
    features = Linear.around(sample)
    size = sketch_size(as_bits(bits), epsilon)
    sketch = FrequentDirections(features.width, size, half_life=half_life, like=features.like)
    return Learner(
        features, sketch, bits=bits, whitening=0, rotation=rotation, prior=sample, seed=seed
    )


def frosh(
    sample: Array,
    bits: int = BITS,
    *,
    epsilon: float = 1.0,
    rotation: str = "random",
    half_life: float | None = None,
    seed: Seed = 0,
) -> Learner:
    """Faster online sketching hashing (Chen 2017): osh of a few mixed rows a block.

    Its certificate is infinite as soon as a block was sampled: see HadamardDirections.
    """
    features, seed = Linear.around(sample), as_seed(seed)
    size = sketch_size(as_bits(bits), epsilon)
    sketch = HadamardDirections(
        features.width, size, half_life=half_life, seed=seed, like=features.like
    )
    return Learner(
        features, sketch, bits=bits, whitening=0, rotation=rotation, prior=sample, seed=seed
    )


def semi_supervised(
    sample: Array,
    bits: int = BITS,
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
    labels: (m,), one a row of `sample`, -1 where unknown. None: all unknown, and this is pcah.
    """
    features = Linear.around(sample)
    guide = labelled_guide(features(as_rows(sample, like=features.like)), labels)
    sketch = SupervisedGram(guide, eta=eta, half_life=half_life)
    return Learner(
        features, sketch, bits=bits, whitening=0, rotation="none", prior=sample, seed=seed
    )
