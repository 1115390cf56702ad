"""Methods on the rows themselves, with directions learned from the stream."""

import logging

from streambits._arrays import Array, as_count, as_rows
from streambits.epochs.monitor import DriftMonitor, monitor_for
from streambits.errors import InputError
from streambits.features import Features, GaussianAffinity, Linear
from streambits.methods.method import BITS, Seed
from streambits.model.learner import Learner
from streambits.sketches import Gram

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
