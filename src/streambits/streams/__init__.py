"""Streams: where rows come from."""

from streambits.streams.batch import Batch, batches

__all__ = ["Batch", "batches"]
