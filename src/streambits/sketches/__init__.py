"""Sketches: small summaries of all feature rows seen, in fixed memory."""

from streambits._arrays import Array, as_choice
from streambits._device import doubles_are_fast
from streambits.sketches.base import Directions, Sketch
from streambits.sketches.frequent_directions import FrequentDirections
from streambits.sketches.gram import PRECISIONS, Gram, single_suffices

__all__ = [
    "PRECISIONS",
    "Directions",
    "FrequentDirections",
    "Gram",
    "Sketch",
    "auto",
]

CROSSING = 12  # widths up to this many times the sketch size go to Gram


def auto(
    sample: Array,
    bits: int,
    size: int,
    *,
    half_life: float | None = None,
    precision: str = "auto",
) -> Sketch:
    """Choose the exact Gram matrix where it is faster, and Frequent Directions elsewhere.

    Parameters
    ----------
    sample : array of shape (n, width)
        Feature rows like those to come; they decide whether single precision will do.
    bits : int
        Number of directions that will be read.
    size : int
        Size of the Frequent Directions.
    half_life : float, optional
        Number of rows after which a row counts half.
    precision : {"auto", "double", "single", "tf32"}, default "auto"
        Of a `Gram`'s products; "auto" is "single" where that is faster and leaves the directions
        intact (`single_suffices`), and "double" elsewhere.

    Returns
    -------
    Gram or FrequentDirections
        An empty sketch; a Gram up to 12 times as many columns as `size`.
    """
    width = sample.shape[1]
    as_choice(precision, "precision", ("auto", *PRECISIONS))
    if width <= CROSSING * size:
        if precision == "auto":
            slow = not doubles_are_fast(sample)
            precision = "single" if slow and single_suffices(sample, bits) else "double"
        return Gram(width, precision=precision, half_life=half_life, like=sample)
    return FrequentDirections(width, size, half_life=half_life, like=sample)
