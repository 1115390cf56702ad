"""Codes in Parquet files, read and searched by DuckDB and Polars, which know nothing of us.

pgvector: `test_postgres.py`; FAISS: `tests/interop/test_faiss.py`.
"""

import duckdb
import numpy as np
import polars as pl
import pytest

import streambits as sb
from streambits.io.codes import open_sink

LENGTHS = [13, 64]
K = 12
SQL = """
SELECT id, bit_count(xor(code::BIT, ?::BLOB::BIT)) AS distance
FROM read_parquet(?) WHERE epoch = ? ORDER BY distance, id LIMIT ?
"""


@pytest.fixture(params=LENGTHS)
def written(request, tmp_path):
    """A folder of Parquet files of two epochs, the codes of the second, and an index of these."""
    rng = np.random.default_rng(request.param)
    sink = open_sink(str(tmp_path / "codes"), request.param)
    for epoch in range(2):
        codes = sb.Codes.from_bits(rng.random((700, request.param)) < 0.5, epoch)
        ids = np.arange(700) + 1000 * epoch
        for start in range(0, 700, 300):
            sink.write(ids[start : start + 300], codes[start : start + 300])
            sink.commit()
    sink.close()
    index = sb.HammingIndex(request.param)
    index.add(codes, ids)
    return str(tmp_path / "codes" / "*.parquet"), codes, index


def asked(codes):
    """Queries: codes that are there, and others."""
    flipped = sb.Codes.from_bits(~codes[:3].unpack().astype(bool), codes.epoch)
    return sb.Codes.concat([codes[10:13], flipped])


def test_duckdb_finds_what_the_index_finds(written):
    files, codes, index = written
    for query in asked(codes):
        hits = index.search(query, K)
        with duckdb.connect() as base:
            found = base.execute(SQL, [query.packed[0].tobytes(), files, 1, K]).fetchall()
        assert found == list(zip(hits.ids[0].tolist(), hits.distances[0].tolist(), strict=True))


def test_polars_finds_what_the_index_finds(written):
    files, codes, index = written
    table = pl.scan_parquet(files).filter(epoch=1)
    for query in asked(codes):
        bytes_ = [
            pl.col("code").bin.slice(place, 1).bin.reinterpret(dtype=pl.UInt8)
            ^ pl.lit(value, pl.UInt8)
            for place, value in enumerate(query.packed[0].tolist())
        ]
        far = pl.sum_horizontal(one.bitwise_count_ones() for one in bytes_).alias("distance")
        found = table.select("id", far).sort("distance", "id").head(K).collect()
        hits = index.search(query, K)
        assert found["id"].to_list() == hits.ids[0].tolist()
        assert found["distance"].to_list() == hits.distances[0].tolist()
