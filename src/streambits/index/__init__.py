"""Indexes: codes kept for search in Hamming space."""

from streambits.index.hamming import HammingIndex
from streambits.index.hits import Hits
from streambits.index.rerank import rerank

__all__ = ["HammingIndex", "Hits", "rerank"]
