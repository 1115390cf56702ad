"""streambits learns short binary codes for vectors from one pass over a stream, and compares them.

`streambits.methods` is the file to read first.
"""

from streambits import errors
from streambits.coder import Coder
from streambits.codes import Codes
from streambits.features import (
    Bandwidth,
    GaussianAffinity,
    Linear,
    all_pairs,
    centres,
    nearest,
    reservoir,
)
from streambits.flows import encode_online, encode_stream
from streambits.learner import Learner
from streambits.methods import METHODS, exact_d, exact_r, itq, lsh, nystrom, osh, pcah, ssbc
from streambits.sketches import Fixed, FrequentDirections, Gram
from streambits.storage import load, save

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Bandwidth",
    "Coder",
    "Codes",
    "Fixed",
    "FrequentDirections",
    "GaussianAffinity",
    "Gram",
    "Learner",
    "Linear",
    "all_pairs",
    "centres",
    "encode_online",
    "encode_stream",
    "errors",
    "exact_d",
    "exact_r",
    "itq",
    "load",
    "lsh",
    "nearest",
    "nystrom",
    "osh",
    "pcah",
    "reservoir",
    "save",
    "ssbc",
]
