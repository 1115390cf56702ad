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
        packed, more = (
            np.frombuffer(bytes.fromhex(row.get(name, "")), np.uint8)[None]
            for name in ("code", "refinement")
        )
        bits, more = 20 if packed.size else 0, more if more.size else None
        yield CodeBatch(np.array([row["id"]]), Codes(packed, bits, row["epoch"], more))


def read_npy(path):
    ids, packed, epochs = (np.load(path / f"{name}.npy") for name in ("ids", "codes", "epochs"))
    refined = (path / "refinements.npy").exists()
    more, bits = np.load(path / "refinements.npy") if refined else None, 20 if packed.size else 0
    for epoch in np.unique(epochs):
        some = epochs == epoch
        refinement = more[some] if refined else None
        yield CodeBatch(ids[some], Codes(packed[some], bits, int(epoch), refinement))


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

    def of(kind, bits=20, **options):
        def place():
            path = tmp_path / f"{kind}{next(COUNT)}"
            return (
                lambda: open_sink(f"{kind}:{path}", bits, **options),
                lambda: READERS[kind](path),
            )

        return place

    return of


@pytest.fixture(scope="session")
def codes():
    """(500,) codes of 20 bits, no two of them equal."""
    numbers = np.random.default_rng(0).permutation(2**20)[:500]
    return Codes.from_bits((numbers[:, None] >> np.arange(20)) & 1)


@pytest.fixture(scope="session")
def lengths(codes):
    """By name, codes with refinements and without: (500,) of 20 bits, 20 and 3 bytes, 6 bytes."""
    more = np.random.default_rng(1).integers(0, 256, (500, 3), np.uint8)
    both = np.concatenate([codes.packed, more], axis=1)
    return {
        "plain": codes,
        "refined": Codes(codes.packed, 20, 0, more),
        "pure": Codes(both[:, :0], 0, 0, both),
    }
