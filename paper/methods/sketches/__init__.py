"""Sketches that only rivals of ssbc use: fixed directions, sampled blocks, labels."""

from paper.methods.sketches.fixed import Fixed
from paper.methods.sketches.hadamard import HadamardDirections
from paper.methods.sketches.supervised import ETA, SupervisedGram, labelled_guide

__all__ = ["ETA", "Fixed", "HadamardDirections", "SupervisedGram", "labelled_guide"]
