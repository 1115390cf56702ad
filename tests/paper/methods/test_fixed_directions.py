import numpy as np
import pytest

from paper.methods.sketches import Fixed
from streambits.errors import RankError
from streambits.sketches import Gram

VECTORS = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 4)))[0]


def test_rows_are_counted_and_change_no_direction():
    sketch = Fixed(VECTORS)
    sketch.update(np.random.default_rng(1).standard_normal((50, 6)))
    assert sketch.seen == 50
    assert np.array_equal(sketch.directions(3).vectors, VECTORS[:, :3])
    assert np.array_equal(sketch.directions(2, extra=9).vectors, VECTORS)
    assert sketch.directions(3).energies.tolist() == [1, 1, 1]
    assert (sketch.certificate, sketch.capacity, sketch.learns) == (0, 4, False)


def test_the_leading_directions_of_a_sketch_can_be_fixed():
    gram = Gram(6)
    gram.update(np.random.default_rng(1).standard_normal((50, 6)) + 2)
    sketch = Fixed.of(gram, 3)
    for mine, theirs in zip(sketch.directions(3), gram.directions(3)):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(sketch.mean, gram.mean)


def test_more_directions_than_given_are_an_error():
    with pytest.raises(RankError, match="are 4 fixed directions, and 5"):
        Fixed(VECTORS).directions(5)
