import numpy as np
import pytest

from streambits import Codes, HammingIndex
from streambits.errors import StorageError
from streambits.io.codes.table import from_parquet, to_parquet


@pytest.mark.parametrize("bits", [1, 12, 64, 100])
def test_an_index_comes_back_from_parquet(bits, tmp_path):
    rng = np.random.default_rng(bits)
    index = HammingIndex(bits)
    for epoch in (0, 3):
        codes = Codes.from_bits(rng.random((50, bits)) < 0.5, epoch)
        index.add(codes, rng.permutation(50) + 100 * epoch)
    to_parquet(index, tmp_path / "codes.parquet")
    back = from_parquet(tmp_path / "codes.parquet", strategy="scan")
    assert (back.bits, back.epochs, back.strategy, list(back)) == (
        bits,
        (0, 3),
        "scan",
        list(index),
    )
    for (ids, codes), (ids_back, codes_back) in zip(index.items(), back.items(), strict=True):
        assert np.array_equal(ids, ids_back)
        assert codes == codes_back


def test_an_empty_index_has_nothing_to_come_back_from(tmp_path):
    to_parquet(HammingIndex(8), tmp_path / "codes.parquet")
    with pytest.raises(StorageError, match="has no codes"):
        from_parquet(tmp_path / "codes.parquet")
