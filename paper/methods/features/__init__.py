"""Features that only rivals of ssbc use: cosines, eigenfunctions and balls."""

from paper.methods.features.cosines import Cosines
from paper.methods.features.eigenfunctions import Eigenfunctions, class_functions
from paper.methods.features.spheres import Spheres

__all__ = ["Cosines", "Eigenfunctions", "Spheres", "class_functions"]
