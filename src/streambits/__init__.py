"""streambits learns short binary codes for vectors from one pass over a stream, and compares them.

`streambits.methods` is the file to read first.
"""

from typing import TYPE_CHECKING, Any

from streambits import errors
from streambits.diagnose import diagnose
from streambits.epochs.coder_set import CoderSet
from streambits.features import (
    Bandwidth,
    Cosines,
    Eigenfunctions,
    GaussianAffinity,
    Linear,
    Spheres,
    all_pairs,
    centres,
    nearest,
)
from streambits.index import HammingIndex, Hits, rerank
from streambits.io.codes import open_codes
from streambits.methods import (
    METHODS,
    e2lsh,
    exact_d,
    exact_r,
    frosh,
    itq,
    lsbc,
    lsh,
    mdsh,
    nystrom,
    osh,
    pcah,
    rff_fd,
    semi_supervised,
    sh,
    spherical,
    ssbc,
    ssh,
    unifdiag,
)
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.model.sampling import reservoir
from streambits.online import encode_online, encode_stream, reencode
from streambits.scoring import Asymmetric
from streambits.sketches import Fixed, FrequentDirections, Gram, HadamardDirections, SupervisedGram
from streambits.storage import load, save
from streambits.tune import tune

if TYPE_CHECKING:
    from streambits.evaluation.evaluate import evaluate

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Asymmetric",
    "Bandwidth",
    "Coder",
    "CoderSet",
    "Codes",
    "Cosines",
    "Eigenfunctions",
    "Fixed",
    "FrequentDirections",
    "GaussianAffinity",
    "Gram",
    "HadamardDirections",
    "HammingIndex",
    "Hits",
    "Learner",
    "Linear",
    "Spheres",
    "SupervisedGram",
    "all_pairs",
    "centres",
    "diagnose",
    "e2lsh",
    "encode_online",
    "encode_stream",
    "errors",
    "evaluate",
    "exact_d",
    "exact_r",
    "frosh",
    "itq",
    "load",
    "lsbc",
    "lsh",
    "mdsh",
    "nearest",
    "nystrom",
    "open_codes",
    "osh",
    "pcah",
    "reencode",
    "rerank",
    "reservoir",
    "rff_fd",
    "save",
    "semi_supervised",
    "sh",
    "spherical",
    "ssbc",
    "ssh",
    "tune",
    "unifdiag",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """`evaluate`, imported when it is first used: nothing else needs what it imports."""
        if name != "evaluate":
            raise AttributeError(f"module 'streambits' has no attribute {name!r}")
        from streambits.evaluation.evaluate import evaluate  # noqa: PLC0415

        return evaluate
