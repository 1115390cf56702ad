import numpy as np
import pytest
from scipy.spatial.distance import cdist

from streambits.errors import InputError

faiss = pytest.importorskip("faiss")
from paper.faiss_codes import RIVALS, Rival  # noqa: E402

LENGTHS = {"lsh": 48, "itq": 12, "rabitq": 16, "pq": 32, "opq": 32}


@pytest.fixture(scope="module")
def data():
    """Clustered rows of 16 columns, far from the origin."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-3, 3, (12, 16)) + 20
    rows = centres[rng.integers(12, size=1500)] + rng.standard_normal((1500, 16))
    return rows.astype(np.float32)


def bits_of(packed, count):
    return np.unpackbits(packed, axis=1, count=count, bitorder="little").astype(bool)


@pytest.mark.parametrize(("name", "bits"), [("pq", 32), ("pq", 24), ("opq", 32)])
def test_pq_distances_are_those_to_its_own_reconstructions(name, bits, data):
    """Also where 16 columns are filled up to 18."""
    rival = Rival(name, data[:600], bits)
    there = rival._index.sa_decode(rival.encode(data))
    expected = cdist(data[:50].astype(np.float64), there.astype(np.float64), "sqeuclidean")
    assert np.allclose(rival.distances(data[:50], data), expected, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("name", RIVALS)
def test_the_same_rows_give_the_same_distances_with_any_threads(name, data):
    before = faiss.omp_get_max_threads()
    found = []
    for threads in (1, 3):
        faiss.omp_set_num_threads(threads)
        rival = Rival(name, data[:600], LENGTHS[name])
        found += [rival.distances(data[:30], data), rival.distances(data[:30], data)]
        assert faiss.omp_get_max_threads() == threads  # put back
    faiss.omp_set_num_threads(before)
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize(
    ("name", "bits", "train", "reason"),
    [
        ("itq", 16, 600, ""),
        ("itq", 17, 600, "at most 16 bits: one per column"),
        ("itq", 12, 10, "12 principal components need as many training rows"),
        ("rabitq", 32, 600, "exactly 16 bits"),
        ("pq", 64, 600, ""),
        ("pq", 12, 600, "whole bytes"),
        ("pq", 32, 255, "at least 256 training rows"),
    ],
)
def test_refusals_say_why_and_construction_agrees(name, bits, train, reason, data):
    found = Rival.refusal(name, bits, columns=16, train=train)
    assert reason in found
    assert bool(found) == bool(reason)
    if reason:
        with pytest.raises(InputError, match=f"{bits} bits here: "):
            Rival(name, data[:train], bits)
    else:
        Rival(name, data[:train], bits)
