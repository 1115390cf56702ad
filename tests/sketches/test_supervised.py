import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import InputError, MergeError
from streambits.sketches import Gram, SupervisedGram, labelled_guide
from streambits.sketches.supervised import pair_guide


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


def test_what_is_captured_is_of_the_rows_and_not_of_the_guide():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 6))
    sketch = SupervisedGram(labelled_guide(rows, rng.integers(3, size=200)), eta=0.1)
    sketch.update(rows)
    found = sketch.directions(2)
    assert sketch.captured(*found) == sketch.captured(found.vectors)


@given(st.integers(0, 1000), st.integers(2, 30))
def test_a_guide_of_centred_rows_has_no_negative_eigenvalue(seed, count):
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((count, 4)) + 5, rng.integers(-1, 3, size=count)
    assert np.linalg.eigvalsh(labelled_guide(rows, labels)).min() > -1e-9


def test_unknown_labels_are_left_out():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((40, 4)), rng.integers(-1, 3, size=40)
    some = rows[labels != -1]
    expected = by_pairs(some - some.mean(axis=0), labels[labels != -1])
    assert np.allclose(labelled_guide(rows, labels), expected)
    assert not labelled_guide(rows, np.full(40, -1)).any()
    assert not labelled_guide(rows).any()


def test_labels_may_be_words():
    rows = np.random.default_rng(0).standard_normal((6, 3))
    words, numbers = ["cat", "dog", "cat", "owl", "dog", "cat"], [0, 1, 0, 2, 1, 0]
    assert np.allclose(labelled_guide(rows, words), labelled_guide(rows, numbers))


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


def test_no_guide_is_the_covariance():
    rows = np.random.default_rng(0).standard_normal((200, 5)) * np.arange(1, 6)
    plain, guided = Gram(5), SupervisedGram(np.zeros((5, 5)), eta=2)
    plain.update(rows)
    guided.update(rows)
    assert np.allclose(guided.directions(3).energies, 2 * plain.directions(3).energies)
    assert np.allclose(abs(guided.directions(3).vectors), abs(plain.directions(3).vectors))


def test_the_matrix_and_its_certificate_are_those_of_the_rows_without_the_guide():
    rows = np.random.default_rng(0).standard_normal((200, 5)) + 3
    plain, guided = Gram(5), SupervisedGram(np.eye(5))
    plain.update(rows)
    guided.update(rows)
    assert np.array_equal(guided.matrix, plain.matrix)
    assert guided.certificate == plain.certificate == 0


def test_how_many_rows_came_does_not_change_the_weight_of_the_guide():
    rows = np.random.default_rng(0).standard_normal((200, 5))
    short, long = SupervisedGram(np.eye(5) * np.arange(5)), SupervisedGram(np.eye(5) * np.arange(5))
    short.update(rows)
    for _ in range(20):
        long.update(rows)
    assert np.allclose(short.directions(5).energies, long.directions(5).energies)


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


def test_strict_arrays_give_the_same_directions():
    rows, labels = np.random.default_rng(0).standard_normal((50, 4)), np.arange(50) % 3
    here = SupervisedGram(labelled_guide(rows, labels))
    there = SupervisedGram(labelled_guide(strict.asarray(rows), labels))
    here.update(rows)
    there.update(strict.asarray(rows))
    assert np.allclose(here.directions(3).energies, np.asarray(there.directions(3).energies))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SupervisedGram(np.zeros((3, 4))), r"shape \(3, 4\)"),
        (lambda: SupervisedGram(np.eye(3), eta=0), "eta is 0"),
        (lambda: SupervisedGram(np.eye(3) * np.nan), "guide.*NaN"),
        (lambda: labelled_guide(np.eye(3), [1, 2]), "2 labels for 3 rows"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
