"""The thread that reads ahead."""

import numpy as np

from jobs.conftest import Source
from streambits.jobs import reader


def read(count):
    source = Source(np.zeros((count, 8), np.float32), step=1)
    with reader.ReadAhead(source, None) as chunks:
        return [chunk for chunk in chunks if chunk is not None]


def test_what_is_handed_on_together_is_bounded_by_rows_and_bytes(monkeypatch):
    for name, most in (("TOGETHER", 3), ("BYTES", 3 * 4 * 8)):
        with monkeypatch.context() as patch:
            patch.setattr(reader, name, most)
            chunks = read(50)
        assert max(len(chunk.rows) for chunk in chunks) <= 3
        assert np.concatenate([chunk.ids for chunk in chunks]).tolist() == list(range(50))


def test_a_chunk_that_is_too_large_alone_is_handed_on_alone(monkeypatch):
    monkeypatch.setattr(reader, "BYTES", 10)
    assert [len(chunk.rows) for chunk in read(9)] == [1] * 9
