"""Who takes part in the experiments: each name, what it is called in figures, and how it codes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from paper import methods as rivals
from streambits import methods
from streambits.errors import InputError
from streambits.features import Bandwidth, GaussianAffinity, all_pairs, nearest
from streambits.methods.method import sketch_size
from streambits.model.learner import Learner
from streambits.sketches import FrequentDirections, Gram

BANDWIDTHS = {  # the kernel's width at each level of similarity: the paper sets both to one number
    "sigma_30": nearest(30),
    "sigma_30 / 4": nearest(30) / 16,
    "sigma_all": all_pairs(),
}
LEVELS = tuple(BANDWIDTHS)
Build = Callable[..., Learner]


class Contestant(NamedTuple):
    """title: its name in figures; build: (train, bits, seed=) -> Learner, None for FAISS's own.

    kernel: takes a bandwidth; exact: every row is a landmark.
    """

    title: str
    build: Build | None
    kernel: bool = False
    exact: bool = False


def _without_centring(train: Any, bits: int, *, bandwidth: Bandwidth, seed: int) -> Learner:
    features = GaussianAffinity(train, bandwidth)
    sketch = Gram(features.width, centred=False, like=features.like)
    return Learner(features, sketch, bits=bits, prior=features.landmarks, seed=seed)


def _sketched(train: Any, bits: int, *, bandwidth: Bandwidth, seed: int, epsilon: float) -> Learner:
    """ssbc by Frequent Directions, whatever would be faster."""
    features = GaussianAffinity(train, bandwidth)
    size = sketch_size(bits, epsilon)
    sketch = FrequentDirections(features.width, size, like=features.like)
    return Learner(features, sketch, bits=bits, prior=features.landmarks, seed=seed)


def _printed(
    train: Any, bits: int, *, bandwidth: Bandwidth, seed: int, spare: int | None = None
) -> Learner:
    """The paper's algorithm, with as many rows freed at a time as the sketch has.

    `methods.ssbc(paper=True)` frees one, with a decomposition per row, and takes 20 times as long
    for a grid of hundreds of cells; 'ssbc-letter' measures on a few that the codes rank the same.
    """
    features = GaussianAffinity(train, bandwidth)
    size = sketch_size(bits, 1.0)
    sketch = FrequentDirections(
        features.width, size, spare or size, centred=False, like=features.like
    )
    learner = Learner(
        features, sketch, bits=bits, whitening=0, rotation="none", steady=False, seed=seed
    )
    return learner.learn(features.landmarks)


def _literal(train: Any, bits: int, *, bandwidth: Bandwidth, seed: int) -> Learner:
    """The kernel of Algorithm 2: exp(-d^2 / sigma), a distance where a square belongs."""
    power = Bandwidth(bandwidth.neighbour, 1, bandwidth.factor**0.5)
    return _printed(train, bits, bandwidth=power, seed=seed)


def _product(train: Any, bits: int, *, seed: int) -> Learner:
    """Codes of as many bits in whole bytes, without sign bits."""
    if bits % 8:
        raise InputError("whole bytes only: 8 bits per group")
    return methods.product(train, refine=bits // 8, epochs="never", seed=seed)


CONTESTANTS: dict[str, Contestant] = {
    "ssbc": Contestant("SSBC (ours)", partial(methods.ssbc, epochs="never"), kernel=True),
    "ssbc-paper": Contestant("SSBC (as printed)", _printed, kernel=True),
    "ssbc-letter": Contestant(
        "SSBC (to the letter)", partial(methods.ssbc, paper=True, epochs="never"), kernel=True
    ),
    "mdsh": Contestant("MDSH", rivals.mdsh, kernel=True),
    "lsh": Contestant("LSH", rivals.lsh),
    "sh": Contestant("SH", rivals.sh),
    "exact_d": Contestant("Exact-D", rivals.exact_d, kernel=True, exact=True),
    "exact_r": Contestant("Exact-R", rivals.exact_r, kernel=True, exact=True),
    "itq": Contestant("ITQ (linear)", methods.METHODS["itq"]),
    "lsbc": Contestant("LSBC", rivals.lsbc, kernel=True),
    "spherical": Contestant("Spherical", rivals.spherical),
    "osh": Contestant("OSH", rivals.osh),
    "rff_fd": Contestant("RFF and FD", rivals.rff_fd, kernel=True),
    "nystrom": Contestant("Nystrom", rivals.nystrom, kernel=True),
    "frosh": Contestant("FROSH", rivals.frosh),
    "pcah": Contestant("PCAH", methods.METHODS["pcah"]),
    "unifdiag": Contestant("UnifDiag", rivals.unifdiag),
    "product": Contestant("Product codes (ours)", _product),
    "semi_supervised": Contestant("Semi-supervised", rivals.semi_supervised),
    "e2lsh": Contestant("E2LSH", rivals.e2lsh),
    "ssh": Contestant("SSH", rivals.ssh),
    "faiss-lsh": Contestant("FAISS LSH", None),
    "faiss-itq": Contestant("FAISS ITQ", None),
    "faiss-rabitq": Contestant("FAISS RaBitQ", None),
    "faiss-pq": Contestant("FAISS PQ", None),
    "faiss-opq": Contestant("FAISS OPQ", None),
    "no-centring": Contestant("without centring", _without_centring, kernel=True),
    "no-whitening": Contestant(
        "without whitening", partial(methods.ssbc, whitening=0), kernel=True
    ),
    "no-rotation": Contestant(
        "without rotation", partial(methods.ssbc, rotation="none"), kernel=True
    ),
    "random-rotation": Contestant(
        "random rotation", partial(methods.ssbc, rotation="random"), kernel=True
    ),
    "fd-1": Contestant("FD sketch, epsilon 1", partial(_sketched, epsilon=1.0), kernel=True),
    "fd-8": Contestant("FD sketch, epsilon 8", partial(_sketched, epsilon=8.0), kernel=True),
    "ssbc-literal": Contestant("as printed, kernel by sigma", _literal, kernel=True),
}
