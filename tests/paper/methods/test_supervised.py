import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper.methods.sketches import SupervisedGram, labelled_guide
from paper.methods.sketches.supervised import pair_guide
from streambits.errors import MergeError


def by_pairs(rows, labels):
    """The definition: X' S X over n^2, with the matrix of all pairs."""
    labels = np.asarray(labels)
    pairs = np.where(labels[:, None] == labels, 1.0, -1.0)
    return rows.T @ pairs @ rows / len(rows) ** 2


@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 6))
def test_class_sums_give_the_matrix_of_all_pairs(seed, count, classes):
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((count, 4)) + 1, rng.integers(classes, size=count)
    assert np.allclose(pair_guide(rows, labels), by_pairs(rows, labels), atol=1e-12)


def test_directions_are_the_eigenvectors_of_guide_plus_eta_covariance():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((500, 5)) + 2, rng.integers(3, size=500)
    guide = labelled_guide(rows[:100], labels[:100])
    sketch = SupervisedGram(guide, eta=0.3)
    for part in np.split(rows, [7, 300]):
        sketch.update(part)
    vectors, energies = sketch.directions(3)
    expected = guide + 0.3 * np.cov(rows.T, bias=True)
    assert np.allclose(expected @ vectors, vectors * energies)
    assert np.allclose(energies, np.linalg.eigvalsh(expected)[::-1][:3])


def test_shards_merge_exactly_and_only_with_the_same_guide():
    rows, guide = np.random.default_rng(0).standard_normal((300, 5)), np.eye(5)
    left, right, whole = (SupervisedGram(guide) for _ in range(3))
    left.update(rows[:100])
    right.update(rows[100:])
    whole.update(rows)
    left.merge(right)
    assert np.allclose(left.directions(5).energies, whole.directions(5).energies)
    with pytest.raises(MergeError, match="guides differ"):
        left.merge(SupervisedGram(2 * guide))
    with pytest.raises(MergeError, match="eta"):
        left.merge(SupervisedGram(guide, eta=3))
