"""Indexes: codes kept for search in Hamming space."""

from streambits.index.hamming import HammingIndex
from streambits.index.hits import Hits

__all__ = ["HammingIndex", "Hits"]
