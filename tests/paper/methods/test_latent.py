"""supervised_ibp: features that are known, labels, and bits that are appended."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from paper import methods as rivals
from paper.methods.latent import _Functions, _Process
from streambits.errors import InputError

COUNT = 500


def made(features, noise=0.3, seed=0, count=2 * COUNT):
    """Rows that are sums of the features they have, and noise; and which features these are."""
    rng = np.random.default_rng(seed)
    held = (rng.random((count, features)) < 0.4).astype(np.int64)
    rows = held @ rng.standard_normal((features, 16))
    return rows + noise * rng.standard_normal(rows.shape), held


def by_shared_features(held, seed=0, per=20):
    """Triplets in which the second row shares more features with the first than the third does."""
    rng = np.random.default_rng(seed)
    one = np.repeat(np.arange(len(held)), per)
    near, far = rng.integers(len(held), size=(2, len(one)))
    to_near, to_far = ((held[one] != held[other]).sum(axis=1) for other in (near, far))
    swapped = to_near > to_far
    near, far = np.where(swapped, far, near), np.where(swapped, near, far)
    return np.stack([one, near, far], axis=1)[to_near != to_far]


def errors(bits, held):
    """Share of rows in which each bit differs from each feature, or from its opposite."""
    differ = (bits[:, :, None] != held[:, None, :]).mean(axis=0)
    return np.minimum(differ, 1 - differ)


@pytest.mark.parametrize(("features", "noise", "seed"), [(3, 0.3, 0), (6, 0.5, 1), (9, 0.3, 2)])
def test_known_features_are_recovered_of_rows_without_labels(features, noise, seed):
    rows, held = made(features, noise, seed)
    learner = rivals.supervised_ibp(
        rows[:COUNT], 12, triplets=by_shared_features(held[:COUNT]), passes=1
    )
    bits = learner.coder().encode(rows[COUNT:]).unpack()
    found = errors(bits, held[COUNT:])
    matched = linear_sum_assignment(found)
    assert len(matched[1]) == features
    assert found[matched].mean() <= 0.05
    assert found.min(axis=1).max() <= 0.1  # the other bits are copies of the same features
    assert learner.bits <= 12


def test_appended_bits_leave_the_old_ones_alone(edge_rows):
    rows, held = made(6)
    triplets = by_shared_features(held[:COUNT])
    first = rivals.supervised_ibp(rows[:COUNT], 3, triplets=triplets, passes=1)
    longer = rivals.supervised_ibp(rows[:COUNT], 12, triplets=triplets, extends=first, passes=1)
    before, after = first.coder(), longer.coder()
    assert first.bits < longer.bits <= 12
    edge = edge_rows(before, rows[:COUNT])
    assert len(edge) > 50
    for some in (rows, edge, edge.astype(np.float32)):
        old = before.encode(some, warn=False).unpack()
        assert np.array_equal(after.encode(some, warn=False).unpack()[:, : first.bits], old)
    found = [errors(coder.encode(rows[COUNT:]).unpack(), held[COUNT:]) for coder in (before, after)]
    covered = [(one.min(axis=0) < 0.1).sum() for one in found]
    assert covered[0] < covered[1]


@given(st.integers(0, 1000))
def test_couplings_are_what_a_bit_adds_to_the_triplets(seed):
    """The Ising model of a bit against the definition, for any values."""
    rng = np.random.default_rng(seed)
    triplets = np.array([rng.permutation(12)[:3] for _ in range(30)])
    own = np.eye(12)
    process = _Process(_Functions(own, own, 1.0), triplets, rng, alpha=2.0)
    process._right, process._wrong = rng.integers(5, size=(2, 30)).astype(np.float64)
    couplings = process._couplings()

    def energy(values):
        spins = 2 * values - 1
        return spins @ (couplings @ spins) / 2

    def gain(values):
        share = values[triplets]
        right = (share[:, 0] == share[:, 1]) & (share[:, 0] != share[:, 2])
        wrong = (share[:, 0] != share[:, 1]) & (share[:, 0] == share[:, 2])
        before = (process._right + 1) / (process._right + process._wrong + 2)
        after = (process._right + right + 1) / (process._right + right + process._wrong + wrong + 2)
        return np.log(after / before).sum()

    one, other = rng.integers(2, size=(2, 12)).astype(np.float64)
    assert energy(one) - energy(other) == pytest.approx(gain(one) - gain(other), abs=1e-9)


ROWS = np.random.default_rng(0).random((20, 4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": [0, 1]}, r"labels have shape \(2,\).*20 rows"),
        ({"labels": np.zeros(20)}, "name 1 class"),
        ({"labels": np.arange(20)}, "class of its own"),
        ({"labels": np.where(np.arange(20) < 3, np.nan, 1)}, "NaN.*-1"),
        ({"labels": np.arange(20) % 2, "triplets": [[0, 1, 2]]}, "pass one of them"),
        ({"triplets": [[0, 1, 20]]}, "row 20, and sample has rows 0 to 19"),
        ({"extends": rivals.lsh(ROWS, 4)}, "that supervised_ibp has built"),
        ({"extends": rivals.supervised_ibp(ROWS, 2), "bits": 2}, "has 2: ask for more"),
    ],
)
def test_what_tells_nothing_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        rivals.supervised_ibp(ROWS, settings.pop("bits", 8), **settings)
    with pytest.raises(InputError, match="no neighbours"):
        rivals.supervised_ibp(ROWS[:2], 1)
