"""Same input, same bits: for any batches, any threads, alone or together, here or there."""

import os
import subprocess
import sys

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import streambits as sb
from streambits import Codes, Learner
from streambits.features import GaussianAffinity
from streambits.sketches import Gram

SIZES = (1, 7, 256, 4096)
splits = st.lists(st.integers(0, 5000), max_size=10).map(sorted)


def codes_by(coder, rows, size, parts):
    return Codes.concat([coder.encode(part) for part in parts(rows, size)])


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_codes_and_learner_are_the_same_for_any_batch_size_and_threads(
    *, method, threads, build, parts, train, rows, digest, fingerprint
):
    expected = build(method, train).learn(rows)
    code = digest(expected.coder().encode(rows))
    state = fingerprint(expected)
    with threadpool_limits(threads, user_api="blas"):
        for size in SIZES if method != "paper" else SIZES[1:]:
            learner = build(method, train)
            for part in parts(rows, size):
                learner.learn(part)
            assert digest(codes_by(learner.coder(), rows[:600], size, parts)) == digest(
                expected.coder().encode(rows[:600])
            )
            assert digest(learner.coder().encode(rows)) == code
            assert fingerprint(learner) == state


@given(cuts=splits)
def test_any_split_gives_the_same_learner(cuts, train, rows, fingerprint):
    whole, parted = sb.ssbc(train, 8).learn(rows), sb.ssbc(train, 8)
    for part in np.split(rows, cuts):
        if len(part):
            parted.learn(part)
    assert fingerprint(parted) == fingerprint(whole)
    assert fingerprint(parted.sketch) == fingerprint(whole.sketch)
    assert np.array_equal(parted.sample, whole.sample)


@pytest.mark.parametrize("kind", ["gram", "frequent directions"])
@given(cuts=splits, seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_any_split_gives_the_same_learner_of_either_sketch(kind, cuts, seed, mixture, fingerprint):
    rows = mixture(5000, seed=seed, dtype=np.float64)
    features = GaussianAffinity(rows[:30])

    def learner():
        sketch = Gram(30) if kind == "gram" else sb.sketches.FrequentDirections(30, 12)
        return Learner(features, sketch, bits=6, seed=seed)

    whole, parted = learner().learn(rows), learner()
    for part in np.split(rows, cuts):
        if len(part):
            parted.learn(part)
    assert fingerprint(parted) == fingerprint(whole)
    assert parted.coder().encode(rows) == whole.coder().encode(rows)


def fortran(rows):
    return np.asfortranarray(rows)


def every_other_row(rows):
    return np.repeat(rows, 2, axis=0)[::2]


def every_other_column(rows):
    return np.repeat(rows, 2, axis=1)[:, ::2]


def backwards(rows):
    return rows[::-1].copy()[::-1]


def misaligned(rows):
    raw = np.empty(rows.nbytes + 1, np.uint8)[1:]
    moved = raw.view(rows.dtype).reshape(rows.shape)
    moved[:] = rows
    return moved


@pytest.mark.parametrize(
    "layout", [fortran, every_other_row, every_other_column, backwards, misaligned]
)
@pytest.mark.parametrize("method", ["ssbc", "pcah"])
def test_the_layout_in_memory_does_not_matter(*, layout, method, build, train, rows, fingerprint):
    plain, other = build(method, train).learn(rows), build(method, train).learn(layout(rows))
    assert np.array_equal(layout(rows), rows)
    assert fingerprint(other) == fingerprint(plain)
    assert other.coder().encode(layout(rows)) == plain.coder().encode(rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_within_rounding_of_a_threshold_have_one_code(
    *, method, dtype, build, mixture, edge_rows, parts
):
    if method == "product":
        pytest.skip("it has no thresholds; tests/model/test_refinement.py has rows between centres")
    coder = build(method, mixture(60, seed=1, dtype=dtype)).learn(mixture(3000, seed=2)).coder()
    edge = edge_rows(coder, mixture(600, seed=3, dtype=dtype))
    assert len(edge) > 100
    together = coder.encode(edge)
    assert codes_by(coder, edge, 1, parts) == together
    assert codes_by(coder, edge, 7, parts) == together
    assert coder.encode(np.repeat(edge, 9, axis=0)) == together[np.repeat(np.arange(len(edge)), 9)]
    assert coder.encode(edge[::-1]) == together[::-1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_within_rounding_of_a_threshold_have_that_code_in_another_library(
    *, method, dtype, build, mixture, edge_rows
):
    if method == "product":
        pytest.skip("it has no thresholds, and works on the host")
    coder = build(method, mixture(60, seed=1, dtype=dtype)).coder()
    edge = edge_rows(coder, mixture(600, seed=3, dtype=dtype))
    there = coder.on(strict.zeros(1)).encode(strict.asarray(edge))
    assert there == coder.encode(edge)


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 200),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_a_row_alone_and_in_any_company_has_one_code(seed, count, scale, train, rows):
    coder = sb.ssbc(train, 12).coder()
    company = (np.random.default_rng(seed).standard_normal((count, 8)) * scale).astype(np.float32)
    codes = coder.encode(np.concatenate([company, rows[:5], company]), warn=False)
    assert codes[count : count + 5] == coder.encode(rows[:5])
    assert codes[0] == coder.encode(company[:1], warn=False)


SCRIPT = """
import hashlib, numpy as np, streambits as sb
rng = np.random.default_rng(0)
rows = rng.standard_normal((9000, 20)).astype(np.float32)
for method in (sb.ssbc, sb.methods.METHODS["itq"]):
    learner = method(rows[:300], 16)
    for start in range(0, 9000, 4300):
        learner.learn(rows[start : start + 4300]).coder()
    coder = learner.coder()
    print(hashlib.sha256(coder.projection.matrix.tobytes()).hexdigest())
    print(hashlib.sha256(coder.encode(rows).packed.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_a_process_of_one_thread_and_one_of_two_give_the_same_bits():
    found = []
    for threads in ("1", "2"):
        limits = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        result = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | limits,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(result.stdout)
    assert found[0] == found[1]
    assert len(found[0].split()) == 4
