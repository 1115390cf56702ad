import numpy as np
import pytest

from paper import datasets
from paper.datasets.published import PUBLISHED
from streambits.errors import InputError


def test_a_file_is_looked_for_in_the_folder_that_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMBITS_DATA", str(tmp_path))
    assert not datasets.available("mnist")
    file = PUBLISHED["mnist"].ready
    with pytest.raises(InputError, match=f"{file} .*, which is not in .*STREAMBITS_DATA"):
        datasets.load("mnist")
    np.savez(tmp_path / file, X=np.arange(6).reshape(3, 2), y=np.array([7, 8, 9], np.uint8))
    assert datasets.available("mnist")
    assert datasets.load("mnist").tolist() == [[0, 1], [2, 3], [4, 5]]
    assert datasets.labels("mnist").tolist() == [7, 8, 9]


def test_an_unknown_name_is_an_error_that_lists_the_others():
    with pytest.raises(InputError, match=r"no data set 'pamap'; choose from uniform, .*sift"):
        datasets.load("pamap")
    assert not datasets.available("pamap")


def test_a_stream_and_its_landmarks_are_shuffled_and_disjoint():
    train, rows = datasets.stream("digits", 100, 1000, seed=2)
    everything = np.concatenate([train, rows])
    assert (train.shape, rows.shape) == ((100, 64), (1000, 64))
    assert len(np.unique(everything, axis=0)) == 1100  # the digits hold no duplicates
    assert not np.array_equal(train, datasets.load("digits")[:100])
    assert np.array_equal(train, datasets.stream("digits", 100, 1000, seed=2).train)
    assert not np.array_equal(train, datasets.stream("digits", 100, 1000, seed=3).train)


def test_an_order_moves_the_rows_of_the_stream_and_nothing_else():
    shuffled = datasets.stream("digits", 100, 1000, seed=4)
    for order in datasets.ORDERS:
        train, rows = datasets.stream("digits", 100, 1000, seed=4, order=order)
        assert np.array_equal(train, shuffled.train)
        assert (order == "shuffled") == np.array_equal(rows, shuffled.rows)
        assert np.array_equal(np.unique(rows, axis=0), np.unique(shuffled.rows, axis=0))


def test_a_stream_of_classes_is_shuffled_inside_a_class():
    shuffled = datasets.stream("digits", 100, 1000, seed=5).rows
    rows = datasets.stream("digits", 100, 1000, seed=5, order="classes").rows
    classes = datasets.digit_labels(rows)
    assert np.all(np.diff(classes) >= 0)
    assert np.array_equal(rows[classes == 3], shuffled[datasets.digit_labels(shuffled) == 3])


def test_an_order_that_cannot_be_is_an_error():
    with pytest.raises(
        InputError, match="no order 'random'; choose from shuffled, sorted, classes"
    ):
        datasets.stream("digits", 10, 10, order="random")
    with pytest.raises(InputError, match="no classes: choose another order"):
        datasets.stream("uniform", 10, 10, order="classes")
