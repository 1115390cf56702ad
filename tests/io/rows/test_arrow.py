import os

import numpy as np
import pyarrow as pa
import pytest

from streambits.errors import StorageError
from streambits.io.rows import open_source


@pytest.fixture(params=[pa.ipc.new_file, pa.ipc.new_stream])
def path(request, tmp_path):
    """40 batches of 1000 rows, in a file or a stream; the column `text` is not wanted."""
    rows = np.arange(160_000.0).reshape(40_000, 4)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 4)
    table = pa.table({"text": ["x" * 50] * 40_000, "v": lists})
    with request.param(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    return tmp_path / "a.arrow"


def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(path):
    """One that is mapped would end the process by SIGBUS."""
    chunks = iter(open_source(str(path), columns=["v"], rows=500).read())
    assert next(chunks).rows[-1].tolist() == [1996, 1997, 1998, 1999]
    os.truncate(path, 200_000)
    with pytest.raises(StorageError, match=r"a.arrow cannot be read as Arrow from row \d+ on"):
        list(chunks)


def test_columns_that_are_not_wanted_are_not_kept(path):
    before = pa.total_allocated_bytes()
    most, count = 0, 0
    for chunk in open_source(str(path), columns=["v"]).read():
        most = max(most, pa.total_allocated_bytes() - before)
        count += len(chunk.rows)
    assert count == 40_000
    assert most < 10 * 1000 * 90  # some batches, of 40


def test_chunks_are_bounded_by_bytes(path, monkeypatch):
    monkeypatch.setattr("streambits.io.rows.inputs.LARGEST_BATCH", 32 * 70)
    chunks = list(open_source(str(path)).read())
    assert {len(chunk.rows) for chunk in chunks} == {70, 20}
