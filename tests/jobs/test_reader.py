"""The thread that reads ahead."""

import numpy as np

from streambits.jobs import reader
from streambits.model.batches import RowBatch


class Source:
    """So many rows of so many columns, one a chunk."""

    name = "memory"
    length = None

    def __init__(self, count, width):
        self.count, self.width = count, width

    def identity(self):
        return None

    def read(self, offset=None):
        for row in range(offset or 0, self.count):
            yield RowBatch(np.array([row]), np.full((1, self.width), row, np.float32), row + 1)


def read(source):
    with reader.ReadAhead(source, None) as chunks:
        return [chunk for chunk in chunks if chunk is not None]


def test_what_is_handed_on_together_is_bounded_by_rows_and_bytes(monkeypatch):
    for name, most in (("TOGETHER", 3), ("BYTES", 3 * 4 * 8)):
        with monkeypatch.context() as patch:
            patch.setattr(reader, name, most)
            chunks = read(Source(50, 8))
        assert max(len(chunk.rows) for chunk in chunks) <= 3
        assert np.concatenate([chunk.ids for chunk in chunks]).tolist() == list(range(50))


def test_a_chunk_that_is_too_large_alone_is_handed_on_alone(monkeypatch):
    monkeypatch.setattr(reader, "BYTES", 10)
    assert [len(chunk.rows) for chunk in read(Source(9, 8))] == [1] * 9
