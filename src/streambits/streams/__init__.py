"""Streams: where rows come from, and the pieces they are handled in."""

from streambits.streams.batch import Batch, batches
from streambits.streams.blocks import Blocks

__all__ = ["Batch", "Blocks", "batches"]
