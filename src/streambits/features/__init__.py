"""Features: frozen, row-wise functions that come before the sketch."""

from streambits.features.affinity import Affinities, GaussianAffinity, measured
from streambits.features.bandwidth import Bandwidth, all_pairs, nearest
from streambits.features.base import Features
from streambits.features.cosines import Cosines
from streambits.features.eigenfunctions import Eigenfunctions, class_functions
from streambits.features.kmeans import centres
from streambits.features.linear import Linear
from streambits.features.spheres import Spheres

__all__ = [
    "Affinities",
    "Bandwidth",
    "Cosines",
    "Eigenfunctions",
    "Features",
    "GaussianAffinity",
    "Linear",
    "Spheres",
    "all_pairs",
    "centres",
    "class_functions",
    "measured",
    "nearest",
]
