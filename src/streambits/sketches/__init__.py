"""Sketches: small summaries of all feature rows seen, in fixed memory."""

from streambits._arrays import Array
from streambits.sketches.base import Directions, Sketch
from streambits.sketches.fixed import Fixed
from streambits.sketches.frequent_directions import FrequentDirections
from streambits.sketches.gram import Gram, single_suffices
from streambits.sketches.hadamard import HadamardDirections
from streambits.sketches.supervised import ETA, SupervisedGram, labelled_guide

__all__ = [
    "ETA",
    "Directions",
    "Fixed",
    "FrequentDirections",
    "Gram",
    "HadamardDirections",
    "Sketch",
    "SupervisedGram",
    "auto",
    "labelled_guide",
]

CROSSING = 12  # widths up to this many times the sketch size go to Gram


def auto(sample: Array, bits: int, size: int, *, half_life: float | None = None) -> Sketch:
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

    Returns
    -------
    Gram or FrequentDirections
        An empty sketch; a Gram up to 12 times as many columns as `size`, where
        `benchmarks/sketches.py` measures the crossing.
    """
    width = sample.shape[1]
    if width <= CROSSING * size:
        single = single_suffices(sample, bits)
        return Gram(width, single=single, half_life=half_life, like=sample)
    return FrequentDirections(width, size, half_life=half_life, like=sample)
