"""The method on affinities to landmarks: Streaming Spectral Binary Coding."""

from streambits._arrays import Array
from streambits._threads import one_blas_thread
from streambits.epochs.monitor import monitor_for
from streambits.errors import InputError
from streambits.features import Bandwidth, Features, GaussianAffinity
from streambits.methods.method import BITS, Seed, sketch_size
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.sketches import FrequentDirections, Sketch, auto

PLAIN, REFINED = 0.5, 0.75  # whitening by default, without a refinement and with one


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
    sketch = sketch_of(features, prior, bits, size, half_life=half_life, precision=precision)
    return Learner(
        features,
        sketch,
        bits=bits,
        prior=prior,
        whitening=default_whitening(whitening, refine),
        rotation=rotation,
        reference=reference,
        refine=refine,
        certified=certified,
        monitor=monitor_for(epochs, features, reference),
        seed=seed,
    )


def default_whitening(value: float | None, refine: int) -> float:
    """As asked for, or the default."""
    return (REFINED if refine else PLAIN) if value is None else value


def sketch_of(
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
