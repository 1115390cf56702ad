"""Features: frozen, row-wise functions that come before the sketch."""

from streambits.features.affinity import Affinities, GaussianAffinity, measured
from streambits.features.bandwidth import Bandwidth, all_pairs, nearest
from streambits.features.base import Features
from streambits.features.kmeans import centres
from streambits.features.linear import Linear

__all__ = [
    "Affinities",
    "Bandwidth",
    "Features",
    "GaussianAffinity",
    "Linear",
    "all_pairs",
    "centres",
    "measured",
    "nearest",
]
