"""An index on a device finds what it finds on the host."""

import numpy as np
import pytest

import streambits as sb
from streambits import Codes, HammingIndex
from streambits.errors import InputError

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RNG = np.random.default_rng(0)
ROWS = RNG.random((6000, 20), dtype=np.float32)


def same(left, right):
    return (left.ids == right.ids).all() and (left.distances == right.distances).all()


def codes_of(count, bits, distinct=None):
    packed = RNG.integers(0, 256, (distinct or count, -(-bits // 8)), dtype=np.uint8)
    packed[:, -1] &= (1 << ((bits - 1) % 8 + 1)) - 1
    return Codes(packed[RNG.integers(0, len(packed), count)], bits)


@pytest.mark.parametrize("bits", [5, 64, 130])
@pytest.mark.parametrize("distinct", [30, None])
def test_hits_are_those_of_the_host(bits, distinct):
    codes = codes_of(3000, bits, distinct)
    index = HammingIndex(bits)
    index.add(codes, RNG.permutation(9000)[:3000])
    there = index.on(DEVICE)
    queries = codes_of(20, bits)
    for k in (1, 10, 700, 5000):
        assert same(there.search(queries, k), index.search(queries, k))


def test_changes_are_seen():
    codes = codes_of(1000, 64)
    host, there = HammingIndex(64), HammingIndex(64, device=DEVICE)
    queries = codes[:10]
    for index in (host, there):
        index.add(codes)
    assert same(there.search(queries, 5), host.search(queries, 5))
    for index in (host, there):
        index.remove(np.arange(3))
        index.upsert(codes[:4], [5, 6, 2000, 2001])
    assert same(there.search(queries, 5), host.search(queries, 5))
    for index in (host, there):
        index.update(codes[20:22], [8, 9])
    assert same(there.search(queries, 5), host.search(queries, 5))
    assert there.search(queries, 5, allow=[5, 7, 11]).ids.shape == (10, 3)
    assert [len(hits.ids) for hits in there.within(queries, 10)] == [
        len(hits.ids) for hits in host.within(queries, 10)
    ]


def test_a_copy_does_not_change_with_its_original():
    codes = codes_of(500, 64)
    index = HammingIndex(64)
    index.add(codes)
    there = index.on(DEVICE)
    before = there.search(codes[:5], 3)
    index.update(codes[100:105], np.arange(5))
    index.remove([7])
    assert same(there.search(codes[:5], 3), before)
    assert len(there) == 500


def test_epochs_are_searched_together():
    index = HammingIndex(32)
    epochs = {}
    for epoch in range(3):
        codes = Codes(codes_of(400, 32).packed, 32, epoch)
        index.add(codes, np.arange(400) * 3 + epoch)
        epochs[epoch] = Codes(codes_of(12, 32).packed, 32, epoch)
    assert same(index.on(DEVICE).search(epochs, 20), index.search(epochs, 20))


def test_refined_codes_are_ranked_by_the_host():
    coder = sb.ssbc(ROWS[:200], 32, refine=4).learn(ROWS).coder()
    index = HammingIndex(32, refine=4)
    index.add(coder.encode(ROWS))
    queries = coder.queries(ROWS[:30] + np.float32(0.01))
    assert same(index.on(DEVICE).search(queries, 10), index.search(queries, 10))


def test_it_is_saved_as_an_index_of_the_host(tmp_path):
    index = HammingIndex(64, device=DEVICE)
    index.add(codes_of(100, 64))
    sb.save(index, tmp_path / "index")
    assert sb.load(tmp_path / "index").device is None


def test_a_device_that_is_not_there_is_refused_at_once():
    for name in ("cuda:99", "gpu", 7):
        with pytest.raises(InputError, match=f"there is no device '{name}' here"):
            HammingIndex(64, device=name)
