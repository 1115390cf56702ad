"""Indexes: codes kept for search in Hamming space."""

from streambits.index.hamming import HammingIndex
from streambits.index.hits import Hits
from streambits.index.multi_index import Tables
from streambits.index.rerank import rerank

__all__ = ["HammingIndex", "Hits", "Tables", "rerank"]
