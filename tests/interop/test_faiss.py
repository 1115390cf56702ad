import subprocess
import sys

import numpy as np
import pytest

import streambits as sb
from streambits._threads import one_blas_thread
from streambits.errors import EpochError, InputError
from streambits.interop import faiss as ours

faiss = ours.faiss


@pytest.fixture(scope="module")
def data():
    """Clustered rows of 16 columns, far from the origin."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-3, 3, (12, 16)) + 20
    rows = centres[rng.integers(12, size=1500)] + rng.standard_normal((1500, 16))
    return rows.astype(np.float32)


ALONE = """
import hashlib, sys
import numpy as np
if "first" in sys.argv: import streambits.interop.faiss
import streambits as sb
rows = np.random.default_rng(0).random((5000, 16), dtype=np.float32)
codes = sb.ssbc(rows[:100], 24).learn(rows).coder().encode(rows)
print(hashlib.sha256(codes.packed.tobytes()).hexdigest(), "faiss" in sys.modules)
"""


def test_the_core_never_imports_faiss_and_importing_it_first_changes_no_bit():
    runs = [
        subprocess.run([sys.executable, "-c", ALONE, order], capture_output=True, check=True)
        for order in ("never", "first")
    ]
    never, first = (run.stdout.decode().split() for run in runs)
    assert never[1:] == ["False"]
    assert first[1:] == ["True"]
    assert never[0] == first[0]


def test_our_blocks_hold_the_blas_of_faiss_too_and_put_its_setting_back():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(3)
    with one_blas_thread():
        assert faiss.omp_get_max_threads() == 1
    assert faiss.omp_get_max_threads() == 3
    faiss.omp_set_num_threads(before)


def test_without_the_package_the_extra_is_named():
    code = (
        "import sys; sys.modules['faiss'] = None\n"
        "from streambits.errors import MissingExtraError\n"
        "try: import streambits.interop.faiss\n"
        "except MissingExtraError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"faiss-cpu" in run.stdout
    assert b"streambits[faiss]" in run.stdout


@pytest.mark.parametrize("bits", [1, 7, 8, 12, 64, 100])
def test_an_index_goes_to_faiss_and_comes_back(bits):
    rng = np.random.default_rng(bits)
    index = sb.HammingIndex(bits)
    codes = sb.Codes.from_bits(rng.random((300, bits)) < 0.5, epoch=2)
    ids = rng.permutation(300) - 50
    index.add(codes, ids)
    theirs = ours.to_faiss(index)
    queries = codes[:5]
    distances, _ = theirs.search(queries.packed, 10)
    assert np.array_equal(distances, index.search(queries, 10).distances)
    assert all(i in ids for i in theirs.search(queries.packed, 1)[1].ravel())
    back = ours.from_faiss(theirs, bits=bits, epoch=2)
    assert (list(back), back.epochs) == (list(index), (2,))
    assert back.get(ids) == codes
    flat = faiss.IndexBinaryFlat(theirs.d)
    flat.add(codes.packed)
    assert ours.from_faiss(flat, bits=bits, epoch=2).get(np.arange(300)) == codes


def test_what_faiss_cannot_hold_or_give_is_refused():
    index = sb.HammingIndex(12)
    for epoch in (0, 1):
        index.add(sb.Codes.from_bits([[1] * 12], epoch))
    with pytest.raises(EpochError, match="epochs 0, 1"):
        ours.to_faiss(index)
    flat = faiss.IndexBinaryFlat(16)
    flat.add(np.full((2, 2), 255, np.uint8))
    with pytest.raises(InputError, match="bits past the 12th"):
        ours.from_faiss(flat, bits=12)
    for bits in (8, 17):
        with pytest.raises(
            InputError, match=f"bits is {bits}, and the FAISS index has codes of 16"
        ):
            ours.from_faiss(flat, bits=bits)
    with pytest.raises(InputError, match="IndexBinaryHNSW: pass an IndexBinaryFlat"):
        ours.from_faiss(faiss.IndexBinaryHNSW(16))


def test_of_an_id_that_faiss_has_twice_the_last_code_counts():
    theirs = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(8))
    theirs.add_with_ids(np.array([[1], [2], [3]], np.uint8), np.array([7, 8, 7]))
    assert ours.from_faiss(theirs).get([7, 8]).packed.tolist() == [[3], [2]]
