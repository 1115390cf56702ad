"""Codes to write, and what a place holds."""

import numpy as np
import pytest

from streambits import Codes
from streambits._arrays import as_ids
from streambits.io.codes import open_codes
from streambits.io.codes.parquet import read_codes
from streambits.model.batches import CodeBatch


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


@pytest.fixture(scope="session")
def pairs():
    """pairs(batches): by id, the last code with its epoch."""

    def of(batches):
        return {
            key: (code.epoch, code.packed.tobytes(), np.array(code.refinement).tobytes())
            for ids, codes in batches
            for key, code in zip(ids.tolist(), codes, strict=True)
        }

    return of


@pytest.fixture(scope="session")
def codes_in(pairs):
    """codes_in(where): the same of codes that lie somewhere; every id is there once."""

    def of(where, bits=None, **options):
        batches = list(open_codes(where, bits=bits, **options))
        found = pairs(batches)
        assert len(found) == sum(len(ids) for ids, _ in batches)
        return found

    return of


@pytest.fixture(scope="session")
def last_of_each_id():
    """last_of_each_id(where): what a reader makes of Parquet parts that are still written to."""

    def of(where):
        found = {}
        for ids, codes in read_codes(where):
            found |= dict(zip(ids.tolist(), codes, strict=True))
        return [CodeBatch(as_ids([key]), code) for key, code in found.items()]

    return of
