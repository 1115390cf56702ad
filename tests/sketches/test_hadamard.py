import math

import array_api_strict as strict
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from streambits import FrequentDirections, HadamardDirections
from streambits.errors import InputError, MergeError
from streambits.sketches.hadamard import hadamard_transform


def decaying(count, seed=0, width=12):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(99).standard_normal((width, width)))[0]
    return rng.standard_normal((count, width)) * 0.7 ** np.arange(width) @ turn + 3.0


def fed(sketch, rows, step):
    for start in range(0, len(rows), step):
        sketch.update(rows[start : start + step])
    return sketch


def scatter(sketch):
    vectors, energies = sketch.directions(1, extra=sketch.width)
    return vectors * energies @ vectors.T


@given(st.integers(0, 8), st.integers(1, 5), st.integers(0, 1000))
def test_the_transform_is_the_hadamard_matrix(power, width, seed):
    rows = np.random.default_rng(seed).standard_normal((2**power, width))
    expected = scipy.linalg.hadamard(2**power) @ rows
    assert np.allclose(hadamard_transform(rows), expected, atol=1e-10)


def test_the_transform_twice_is_n_times_the_rows():
    rows = np.random.default_rng(0).standard_normal((64, 3))
    assert np.allclose(hadamard_transform(hadamard_transform(rows)), 64 * rows)


def test_strict_arrays_give_the_same_sketch():
    rows = decaying(300)
    here, there = HadamardDirections(12, 6), HadamardDirections(12, 6, like=strict.zeros(1))
    here.update(rows)
    there.update(strict.asarray(rows))
    mine, theirs = here.directions(4).energies, np.asarray(there.directions(4).energies)
    assert np.allclose(mine, theirs)


@pytest.mark.parametrize("count", [100, 128, 1000])
def test_sampled_rows_keep_the_scatter_in_expectation(count):
    """The mean over many seeds; nothing is shrunk away, so only sampling errs."""
    rows = decaying(count)
    found = np.zeros((12, 12))
    for seed in range(400):
        sketch = HadamardDirections(12, 60, 40, seed=seed)
        sketch.update(rows)
        found += scatter(sketch) / 400
    expected = np.cov(rows.T, bias=True)
    assert np.linalg.norm(found - expected, 2) < 0.04 * np.linalg.norm(expected, 2)


def test_a_single_large_row_is_not_missed():
    """What the transform is for: plain sampling of 32 in 1024 rows would lose it."""
    rows = np.random.default_rng(0).standard_normal((1024, 12)) * 0.01
    rows[500, 3] += 100
    for seed in range(20):
        sketch = HadamardDirections(12, 16, seed=seed)
        sketch.update(rows)
        vectors, energies = sketch.directions(1)
        assert abs(vectors[3, 0]) > 0.999
        assert energies[0] == pytest.approx(100**2 / 1024 * (1 - 1 / 1024), rel=0.05)


def test_energies_are_close_to_those_of_all_rows():
    rows = decaying(50000)
    vectors, energies = fed(HadamardDirections(12, 24), rows, 2048).directions(4)
    true = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1][:4]
    assert np.allclose(energies, true, rtol=0.15)
    assert np.allclose(vectors.T @ vectors, np.eye(4), atol=1e-9)
    along = np.var((rows - rows.mean(axis=0)) @ vectors, axis=0)
    assert along.sum() > 0.99 * true.sum()


def test_the_inner_sketch_sees_few_rows(monkeypatch):
    inserted = []
    plain = FrequentDirections._insert
    monkeypatch.setattr(
        FrequentDirections, "_insert", lambda s, rows: inserted.append(len(rows)) or plain(s, rows)
    )
    fed(HadamardDirections(12, 8), decaying(4096), 2048)
    assert sum(inserted) == 2 * 16 + 1  # and the row that corrects the mean


def test_small_blocks_go_in_whole_and_keep_the_certificate(fingerprint):
    rows = decaying(300)
    mixed = fed(HadamardDirections(12, 6), rows, 12)
    plain = fed(FrequentDirections(12, 6), rows, 12)
    assert mixed.certificate == plain.certificate > 0
    assert np.array_equal(mixed.directions(4).energies, plain.directions(4).energies)
    held, expected = mixed.state(), plain.state()
    assert fingerprint({name: held[name] for name in expected}) == fingerprint(expected)


def test_a_sampled_block_has_no_certificate():
    left, right = HadamardDirections(12, 6), HadamardDirections(12, 6)
    left.update(decaying(13))
    right.update(decaying(12))
    assert left.certificate == math.inf
    assert right.certificate < math.inf
    right.merge(left)
    assert right.certificate == math.inf
    assert left.fresh().certificate == 0


def test_the_same_rows_after_a_different_number_are_mixed_differently():
    """Signs and choice follow the number of rows seen; the seed changes them too."""
    rows, centred = decaying(64), decaying(64) - decaying(64).mean(axis=0)
    sketches = [HadamardDirections(12, 8, seed=seed) for seed in (0, 0, 1)]
    first, again, other = (sketch._mixed(centred) for sketch in sketches)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    sketches[0].update(rows)
    assert not np.array_equal(sketches[0]._mixed(centred), first)


def test_merging_mixes_no_row_twice():
    left, right = HadamardDirections(12, 16, 4), HadamardDirections(12, 16, 4)
    fed(right, decaying(24), 4)  # more rows in B than are sampled
    before = right.directions(3).energies
    left.merge(right)
    assert np.array_equal(left.directions(3).energies, before)


def test_other_numbers_of_sampled_rows_do_not_merge():
    with pytest.raises(MergeError, match="sampled"):
        HadamardDirections(12, 6, 10).merge(HadamardDirections(12, 6, 11))
    with pytest.raises(MergeError, match="half_life"):
        HadamardDirections(12, 6, half_life=9).merge(HadamardDirections(12, 6))


def test_a_half_life_forgets():
    sketch = HadamardDirections(12, 16, half_life=500)
    old, new = np.zeros((2, 2048, 12))
    old[:, 0] = np.random.default_rng(0).standard_normal(2048)
    new[:, 1] = np.random.default_rng(1).standard_normal(2048) / 2
    for rows in (old, new, new):
        sketch.update(rows)
    vectors, energies = sketch.directions(2)
    assert abs(vectors[1, 0]) > 0.99
    assert energies[0] == pytest.approx(0.25, rel=0.4)
    assert sketch.seen == 3 * 2048 > 10 * sketch.weight / 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"sampled": 0}, "sampled is 0"), ({"seed": -1}, "seed is -1"), ({"size": 1}, "size is 1")],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        HadamardDirections(**{"width": 12, "size": 6, **settings})
