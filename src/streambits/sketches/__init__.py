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
    """The exact Gram matrix where it is the faster one, Frequent Directions elsewhere.

    sample: (n, width), feature rows like those to come; they say whether single precision will do.
    `benchmarks/sketches.py` measures where the crossing lies.
    """
    width = sample.shape[1]
    if width <= CROSSING * size:
        single = single_suffices(sample, bits)
        return Gram(width, single=single, half_life=half_life, like=sample)
    return FrequentDirections(width, size, half_life=half_life, like=sample)
