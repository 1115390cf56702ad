"""The nearest centres of blocks of rows, against distances of all centres."""

from itertools import pairwise

import numpy as np
import pytest

from streambits.kernels.quantise import assign, codebooks


@pytest.mark.parametrize("width", [1, 7, 8, 9, 20])
@pytest.mark.parametrize("count", [1, 12, 13, 63, 64, 65, 130])
def test_blocks_of_any_size_find_the_nearest_centres(count, width):
    rng = np.random.default_rng(count * width)
    starts = np.array([0, width, width + 3], np.int64)
    counts = np.array([256, 100], np.int64)
    centres = rng.standard_normal((width + 3, 256))
    centres[width:, 100:] = 0.0  # not in use
    values = rng.standard_normal((count, width + 3))
    values[::5, :width] = centres[:width, 3]  # on a centre
    codes, doubtful = np.empty((count, 2), np.uint8), np.zeros(count, np.bool_)
    assign(values, codebooks(centres, starts, counts), np.zeros(count), codes, doubtful)
    for group, (low, high) in enumerate(pairwise(starts)):
        own = centres[low:high, : counts[group]]
        apart = np.square(values[:, low:high, None] - own).sum(axis=1)
        assert (codes[:, group] == apart.argmin(axis=1)).all()
    alone = np.empty_like(codes)
    for row in range(count):
        one = slice(row, row + 1)
        assign(
            values[one], codebooks(centres, starts, counts), np.zeros(1), alone[one], doubtful[one]
        )
    assert (alone == codes).all()
