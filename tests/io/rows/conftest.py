"""Writers of every format, and what the tests of all sources share."""

import gzip
import io
import json
import sys
import types

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from streambits.errors import StreambitsError
from streambits.io.rows import open_source


def _lists(rows):
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    return pa.table({"v": pa.ListArray.from_arrays(offsets, rows.ravel())})


def _fixed(rows):
    return pa.table({"v": pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])})


def _columns(rows):
    return pa.table({f"c{i}": column for i, column in enumerate(np.ascontiguousarray(rows.T))})


def _csv(rows, header=True, mark=",", end="\n"):
    lines = [[f"c{i}" for i in range(rows.shape[1])]] if header else []
    lines += [[repr(float(value)) for value in row] for row in rows]
    return "".join(mark.join(line) + end for line in lines).encode()


def _vecs(rows, dtype):
    records = np.empty(len(rows), [("d", "<i4"), ("v", dtype, (rows.shape[1],))])
    records["d"], records["v"] = rows.shape[1], rows
    return records.tobytes()


def _arrow(table, start):
    sink = io.BytesIO()
    with start(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=6)
    return sink.getvalue()


def _objects(rows):
    return "".join(json.dumps({"v": row}) + "\n" for row in rows.tolist()).encode()


WRITERS = {
    "C.npy": np.save,
    "Fortran.npy": lambda path, rows: np.save(path, np.asfortranarray(rows)),
    "stored.npz": lambda path, rows: np.savez(path, rows=rows, other=np.arange(3)),
    "packed.npz": lambda path, rows: np.savez_compressed(path, X=rows, Y=rows),
    "Fortran.npz": lambda path, rows: np.savez_compressed(path, np.asfortranarray(rows)),
    "a.fvecs": lambda path, rows: path.write_bytes(_vecs(rows, "<f4")),
    "a.bvecs": lambda path, rows: path.write_bytes(_vecs(rows, "u1")),
    "header.csv": lambda path, rows: path.write_bytes(_csv(rows)),
    "bare.csv": lambda path, rows: path.write_bytes(_csv(rows, False, ";", "\r\n")),
    "space.csv": lambda path, rows: path.write_bytes(_csv(rows, False, "  ")),
    "a.tsv": lambda path, rows: path.write_bytes(_csv(rows, True, "\t")[:-1]),
    "a.csv.gz": lambda path, rows: path.write_bytes(gzip.compress(_csv(rows), 1)),
    "arrays.jsonl": lambda path, rows: path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows.tolist())
    ),
    "objects.jsonl": lambda path, rows: path.write_bytes(_objects(rows)),
    "a.ndjson.gz": lambda path, rows: path.write_bytes(gzip.compress(_objects(rows), 1)),
    "lists.parquet": lambda path, rows: parquet.write_table(_lists(rows), path, row_group_size=7),
    "fixed.parquet": lambda path, rows: parquet.write_table(_fixed(rows), path, row_group_size=7),
    "columns.pq": lambda path, rows: parquet.write_table(_columns(rows), path, row_group_size=7),
    "file.arrow": lambda path, rows: path.write_bytes(_arrow(_lists(rows), pa.ipc.new_file)),
    "stream.ipc": lambda path, rows: path.write_bytes(_arrow(_columns(rows), pa.ipc.new_stream)),
    "packed.feather": lambda path, rows: feather.write_feather(
        _fixed(rows), path, compression="zstd", chunksize=6
    ),
}


@pytest.fixture(scope="session")
def write():
    """write(path, rows): a file by its name, which is a key of `WRITERS`, with or without a
    number before it.
    """

    def to(path, rows):
        WRITERS[path.name.split("-")[-1]](path, rows)
        return str(path)

    return to


@pytest.fixture(scope="session")
def gather():
    """gather(chunks): ids, rows and rejects of all together."""

    def of(chunks):
        chunks = list(chunks)
        rows = [chunk.rows for chunk in chunks if len(chunk.rows)]
        ids = [i for chunk in chunks for i in chunk.ids.tolist()]
        rejects = [reject for chunk in chunks for reject in chunk.rejects]
        return ids, np.concatenate(rows) if rows else np.empty((0, 0)), rejects

    return of


@pytest.fixture(scope="session")
def drain():
    """drain(chunks): those that come, and the error of ours that ended them, or None."""

    def of(chunks):
        found = []
        try:
            found.extend(chunks)  # keeps what came before an error
        except StreambitsError as error:
            return found, error
        return found, None

    return of


@pytest.fixture(scope="session")
def table_of():
    """table_of(chunks, table): id -> row and payload, after their rows and removals in order."""

    def of(chunks, table=()):
        table = dict(table)
        for chunk in chunks:
            gone = [] if chunk.removals is None else [*zip(*chunk.removals, strict=True)]
            payload = [None] * len(chunk.ids) if chunk.payload is None else chunk.payload.tolist()
            rows = zip(chunk.ids.tolist(), chunk.rows.tolist(), payload, strict=True)
            for place, (name, *row) in enumerate([*rows, (None,)]):
                for other in [one for one, at in gone if at == place]:
                    table.pop(other, None)
                if place < len(chunk.ids):
                    table[name] = row
        return table

    return of


@pytest.fixture
def read(tmp_path, gather):
    """read(name, content, **options): ids, rows and rejects of a file with this content."""

    def of(name, content, **options):
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(content)
        return gather(open_source(str(tmp_path / name), **options).read())

    return of


@pytest.fixture
def standard_input(monkeypatch):
    """standard_input(content): what a source may read once."""

    def give(content):
        raw = io.BytesIO(content)
        raw.seekable = lambda: False
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=raw))

    return give


def pytest_generate_tests(metafunc):
    """`kind` runs a test for every kind of file."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", WRITERS)
