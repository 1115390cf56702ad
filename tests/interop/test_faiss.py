import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import streambits as sb
from streambits._threads import one_blas_thread
from streambits.errors import EpochError, InputError, StorageError
from streambits.interop import faiss as ours
from streambits.io.codes.convert import export
from streambits.io.codes.faiss import read_faiss

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


@pytest.mark.slow
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
    def threads():
        blas = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
        return [lib["num_threads"] for lib in blas if "faiss" in lib["filepath"]]

    with threadpool_limits(3, user_api="blas"):
        before = threads()
        with one_blas_thread():
            assert set(threads()) == {1}
        assert threads() == before == [3] * len(before)


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


def product_coder(rows, refine, **settings):
    """A coder of codes without sign bits."""
    features, sketch = sb.features.Linear.around(rows), sb.sketches.Gram(rows.shape[1])
    return sb.Learner(features, sketch, bits=0, refine=refine, **settings).learn(rows).coder()


def nearest(decoded, queries, k=10):
    """Squared distances (queries, k) of the nearest decoded rows, and those of all."""
    every = np.square(queries[:, None, :].astype(float) - decoded[None]).sum(axis=2)
    return np.sort(every, axis=1)[:, :k], every


def check_neighbours(theirs, coder, codes, ids, data):
    """FAISS finds the nearest decoded rows; gives the queries and their squared distances."""
    queries = data[:40] + np.float32(0.1)
    wanted, every = nearest(coder.decode(codes), queries)
    axes = coder.refinement.quantiser.axes
    relative = queries - coder.refinement.coordinates.origin
    outside = np.square(relative - relative @ axes @ axes.T).sum(axis=1)
    found, near = theirs.search(queries, 10)
    scale = np.square(data).sum(axis=1).max()  # of single precision far from the origin
    assert np.allclose(found + outside[:, None], wanted, atol=1e-5 * scale)
    places = np.argsort(ids)[np.searchsorted(np.sort(ids), near)]
    assert np.allclose(np.take_along_axis(every, places, axis=1), wanted, atol=1e-5 * scale)
    return queries, wanted


@pytest.mark.parametrize("refine", [1, 3, 5, 16])
@pytest.mark.parametrize("certified", [False, True])
def test_product_codes_have_the_same_neighbours_in_faiss(refine, certified, data):
    coder = product_coder(data, refine, certified=certified)
    codes, ids = coder.encode(data), np.random.default_rng(0).permutation(1500) - 50
    index = sb.HammingIndex(0, refine=codes.refine)
    index.add(codes, ids)
    theirs = ours.to_faiss(index, coder)
    assert theirs.ntotal == 1500
    check_neighbours(theirs, coder, codes, ids, data)


def test_faiss_encodes_rows_as_we_do(data):
    """Also where there are fewer centres than FAISS wants."""
    few = np.round(data[:, :2])
    coder = product_coder(few, 1)
    assert coder.refinement.quantiser.counts.max() < 256
    codes, index = coder.encode(few), sb.HammingIndex(0, refine=1)
    theirs = ours.to_faiss(index, coder)
    theirs.add_with_ids(few, np.arange(1500))
    back = ours.from_faiss(theirs)
    assert np.allclose(back.coder.decode(back.index.get(np.arange(1500))), coder.decode(codes))


def trained(factory, rows):
    """An index of FAISS, after as few steps as it can be trained in."""
    index = inner = faiss.index_factory(rows.shape[1], factory)
    if isinstance(inner, faiss.IndexIDMap):
        inner = faiss.downcast_index(inner.index)
    if isinstance(inner, faiss.IndexPreTransform):
        for each in map(inner.chain.at, range(inner.chain.size())):
            turn = faiss.downcast_VectorTransform(each)
            if isinstance(turn, faiss.OPQMatrix):
                turn.niter = turn.niter_pq = turn.niter_pq_0 = 1
        inner = faiss.downcast_index(inner.index)
    inner.pq.cp.niter, inner.do_polysemous_training = 2, False
    index.train(rows)
    return index


FACTORIES = [
    *("PQ4", "IDMap,PQ4", "IDMap2,PQ8", "OPQ4,PQ4", "OPQ4_8,PQ4", "IDMap,OPQ3_9,PQ3"),
    *("PCA9,PQ3", "PCAR9,PQ3", "RR16,PQ2", "PCA12,OPQ3,PQ3"),
]


@pytest.mark.parametrize("factory", FACTORIES)
def test_product_indexes_of_faiss_are_searched_here(factory, data):
    theirs, ids = trained(factory, data), np.arange(1500)
    if factory.startswith("IDMap"):
        ids = ids * 7 - 3
        theirs.add_with_ids(data, ids)
    else:
        theirs.add(data)
    coder, index = ours.from_faiss(theirs, epoch=2)
    assert (index.bits, index.epochs, coder.epoch, coder.features.inputs) == (0, (2,), 2, 16)
    codes = index.get(ids)
    queries, wanted = check_neighbours(theirs, coder, codes, ids, data)
    hits = index.search(coder.queries(queries), 10)
    assert np.allclose(np.square(hits.distances), wanted)
    same = (coder.encode(data).refinement == codes.refinement).all(axis=1)
    assert same.mean() > 0.99  # but for rounding


def test_with_rows_the_errors_of_codes_of_faiss_are_bounded(data):
    theirs = trained("OPQ4,PQ4", data)
    theirs.add(data)
    coder, index = ours.from_faiss(theirs, rows=data)
    codes = index.get(np.arange(1500))
    assert (coder.refine, codes.refine, coder.refinement.certified) == (5, 5, True)
    errors = np.linalg.norm(data - coder.decode(codes), axis=1)
    bounds = coder.refinement.bounds(codes.refinement)
    assert (errors <= bounds).all()
    assert (bounds - errors).max() < errors.max() / 100
    new = data[:50] + 1
    hits = index.search(coder.queries(new), 10, exact=data)
    _, every = nearest(data.astype(float), new)
    assert np.array_equal(hits.ids, np.argsort(every, axis=1, kind="stable")[:, :10])
    assert np.median(hits.reads) < 1500
    far = coder.encode(new)
    assert (
        np.linalg.norm(new - coder.decode(far), axis=1) <= coder.refinement.bounds(far.refinement)
    ).all()
    with pytest.raises(InputError, match="there are 1499 rows, and 1500 codes in the index"):
        ours.from_faiss(theirs, rows=data[1:])
    with pytest.raises(InputError, match="IndexBinaryFlat: pass"):
        ours.from_faiss(faiss.IndexBinaryFlat(8), rows=data)


def test_product_codes_that_do_not_go_over_are_refused(data):
    coder, other = product_coder(data, 3), product_coder(data, 4)
    signs = sb.ssbc(data[:100], 8, refine=3).learn(data).coder()
    index, refined = sb.HammingIndex(0, refine=3), sb.HammingIndex(8)
    index.add(coder.encode(data))
    refined.add(signs.encode(data))
    assert ours.to_faiss(refined).ntotal == 1500  # the sign bits
    for wrong in (None, signs):
        with pytest.raises(InputError, match=r"without their centres: pass .*to_faiss\(index, co"):
            ours.to_faiss(index, wrong)
    with pytest.raises(InputError, match="3 bytes of refinement, and codes of this coder 4"):
        ours.to_faiss(index, other)
    with pytest.raises(InputError, match="without the coder, converts the sign bits"):
        ours.to_faiss(refined, signs)
    late = sb.HammingIndex(0, refine=3)
    codes = coder.encode(data)
    late.add(sb.Codes(codes.packed, 0, 1, codes.refinement))
    with pytest.raises(EpochError, match="codes are of epoch 1, and the coder is of 0"):
        ours.to_faiss(late, coder)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("PQ4x4", "4 groups of 4 bits"),
        ("L2norm,PQ4", "NormalizationTransform, which is not a rotation"),
        ("PCAW8,PQ4", "16 columns to 8 by what is not a rotation"),
        ("OPQ5_20,PQ5", "16 columns to 20 by what is not a rotation.*add columns of zeros"),
    ],
)
def test_indexes_that_do_not_come_over_are_refused(factory, message, data):
    with pytest.raises(InputError, match=message):
        ours.from_faiss(trained(factory, data))


def test_untrained_indexes_other_kinds_metrics_and_bits_are_refused(data):
    with pytest.raises(InputError, match=r"IndexFlatL2: pass an IndexBinaryFlat.* or an IndexPQ"):
        ours.from_faiss(faiss.IndexFlatL2(16))
    with pytest.raises(InputError, match="was not trained"):
        ours.from_faiss(faiss.IndexPQ(16, 4, 8))
    theirs = faiss.IndexPQ(16, 4, 8, faiss.METRIC_INNER_PRODUCT)
    with pytest.raises(InputError, match="the metric 0"):
        ours.from_faiss(theirs)
    theirs = trained("PQ4", data)
    with pytest.raises(InputError, match="an IndexPQ without bits"):
        ours.from_faiss(theirs, bits=8)
    coder, index = ours.from_faiss(theirs)
    assert (len(index), coder.refine) == (0, 4)


def test_files_of_product_codes(data, tmp_path):
    coder = product_coder(data, 5)
    index = sb.HammingIndex(0, refine=5)
    index.add(coder.encode(data), np.arange(1500) * 2)
    path = tmp_path / "codes.faiss"
    export(index, path, coder=coder)
    theirs = faiss.read_index(str(path))
    assert theirs.ntotal == 1500
    back = read_faiss(path)
    assert back.index.get(np.arange(1500) * 2) == coder.encode(data)
    found = sb.open_codes(path)
    assert (found.bits, found.refine, found.epochs) == (0, 5, (0,))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(StorageError, match="damaged"):
        read_faiss(path)
