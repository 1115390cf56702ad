"""Indexes: codes kept for search in Hamming space."""

from streambits.index.hamming import HammingIndex
from streambits.index.hits import Hits
from streambits.index.rerank import rerank
from streambits.index.tables import Tables

__all__ = ["HammingIndex", "Hits", "Tables", "rerank"]
