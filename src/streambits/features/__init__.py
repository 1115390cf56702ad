"""Features: frozen, row-wise functions that come before the sketch."""

from streambits.features.affinity import GaussianAffinity
from streambits.features.bandwidth import Bandwidth, all_pairs, nearest
from streambits.features.base import Features
from streambits.features.landmarks import Reservoir, centres, reservoir
from streambits.features.linear import Linear

__all__ = [
    "Bandwidth",
    "Features",
    "GaussianAffinity",
    "Linear",
    "Reservoir",
    "all_pairs",
    "centres",
    "nearest",
    "reservoir",
]
