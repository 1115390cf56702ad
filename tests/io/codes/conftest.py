"""Places for sinks, and codes to write there."""

import itertools
import json

import numpy as np
import pytest

from streambits import Codes, load
from streambits.io.codes import open_sink
from streambits.io.codes.parquet import read_codes
from streambits.model.batches import CodeBatch

COUNT = itertools.count()


def read_jsonl(path):
    for line in path.read_text().splitlines():
        row = json.loads(line)
        packed = np.frombuffer(bytes.fromhex(row["code"]), np.uint8)[None]
        yield CodeBatch(np.array([row["id"]]), Codes(packed, 20, row["epoch"]))


def read_npy(path):
    ids, packed, epochs = (np.load(path / f"{name}.npy") for name in ("ids", "codes", "epochs"))
    for epoch in np.unique(epochs):
        yield CodeBatch(ids[epochs == epoch], Codes(packed[epochs == epoch], 20, int(epoch)))


def read_faiss(path):
    bridge = pytest.importorskip("streambits.interop.faiss")
    theirs = bridge.faiss.read_index_binary(str(path))
    return bridge.from_faiss(theirs, bits=20).items()


READERS = {
    "parquet": read_codes,
    "jsonl": read_jsonl,
    "npy": read_npy,
    "index": lambda path: load(path).items(),
    "faiss": read_faiss,
}


@pytest.fixture(scope="session")
def readers():
    """By kind, a function that reads back what a sink has left at a path."""
    return READERS


@pytest.fixture
def places(tmp_path):
    """places(kind): a function that makes an empty place, as the checks of sinks want it."""

    def of(kind, **options):
        def place():
            path = tmp_path / f"{kind}{next(COUNT)}"
            return (
                lambda: open_sink(f"{kind}:{path}", 20, **options),
                lambda: READERS[kind](path),
            )

        return place

    return of


@pytest.fixture(scope="session")
def codes():
    """(500,) codes of 20 bits, no two of them equal."""
    numbers = np.random.default_rng(0).permutation(2**20)[:500]
    return Codes.from_bits((numbers[:, None] >> np.arange(20)) & 1)
