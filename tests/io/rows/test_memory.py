"""Ten times the file, the same memory: NumPy's and Python's, and pyarrow's."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from forks import in_child
from streambits.io.rows import open_source

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
KINDS = (
    "C.npy",
    "Fortran.npy",
    "a.fvecs",
    "header.csv",
    "a.csv.gz",
    "arrays.jsonl",
    "objects.jsonl",
    "columns.parquet",
    "lists.parquet",
    "packed.feather",
)
ROWS = 1024  # batches far larger than what CPython keeps of the tuples around them (80 bytes each)


def peak(path, folder):
    """Bytes above what there was before, at the worst moment; of a child without other threads."""
    found = folder / "peak"
    assert in_child(lambda: found.write_text(str(traced(path))), seconds=300) == "done"
    return int(found.read_text())


def traced(path):
    list(open_source(path, rows=ROWS).read())  # what is imported and compiled once
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    for chunk in open_source(path, rows=ROWS).read():
        assert len(chunk.rows) <= ROWS
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pa.set_memory_pool(before)
    return most + pool.max_memory()


def write_table(path, rows):
    columns = {f"c{i}": column for i, column in enumerate(rows.T)}
    table = pa.table(columns if "columns" in path.name else {"v": list(rows)})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=ROWS)
    else:
        feather.write_feather(table, path, compression="zstd", chunksize=ROWS)


@pytest.mark.parametrize("name", KINDS)
def test_memory_does_not_grow_with_the_file(write, tmp_path, name):
    found = []
    for factor in (1, 10):
        path, count = tmp_path / name, factor * ROWS * (20 if "np" in name or "vecs" in name else 3)
        rows = np.random.default_rng(0).random((count, 16), np.float32)
        if name.endswith((".parquet", ".feather")):
            write_table(path, rows)
        else:
            write(path, rows)
        found.append(peak(str(path), tmp_path))
    assert found[1] < 1.2 * found[0]
