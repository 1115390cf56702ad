import numpy as np
import pytest

from paper.histograms import LEVELS, as_levels, count_codes, count_distances
from paper.truth import find
from streambits import Codes
from streambits.evaluation.truth import draw_queries

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((250, 3))
QUERIES = draw_queries(70, 250)  # not a whole number of blocks
TRUTH = find(ROWS, QUERIES, (1.0, 0.4, 2.0), closest=5)


def counted(distances, chosen, levels):
    """One query and one distance after the other."""
    return [
        [sum(d == level for d in row[keep]) for level in range(levels)]
        for row, keep in zip(distances, chosen, strict=True)
    ]


def others():
    keep = np.ones((70, 250), bool)
    keep[np.arange(70), QUERIES] = False
    return keep


def among_closest():
    keep = np.zeros((70, 250), bool)
    np.put_along_axis(keep, TRUTH.closest, True, axis=1)
    return keep


@pytest.mark.parametrize("bits", [3, 12, 70])
def test_counts_are_those_of_a_double_loop(bits):
    codes = Codes.from_bits(ROWS @ RNG.standard_normal((3, bits)) > 0)
    distances = (codes.unpack()[QUERIES, None] != codes.unpack()).sum(axis=2)
    found = count_codes(TRUTH, codes)
    np.testing.assert_array_equal(found.rows, counted(distances, others(), bits + 1))
    for which in range(3):
        wanted = counted(distances, TRUTH.within(which), bits + 1)
        np.testing.assert_array_equal(found.true[which], wanted)
    np.testing.assert_array_equal(found.closest, counted(distances, among_closest(), bits + 1))


@pytest.mark.parametrize("block", [1, 16, 100])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_any_block_and_type_give_the_same_counts(block, dtype):
    codes = Codes.from_bits(ROWS @ RNG.standard_normal((3, 40)) > 0)
    wanted = count_codes(TRUTH, codes)
    found = count_distances(
        TRUTH, lambda some: codes[some].hamming(codes).astype(dtype), levels=41, block=block
    )
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(left, right)


def test_real_distances_keep_their_order_in_levels():
    distances = RNG.random((4, 300)) * 1e-9 - 5
    levels, most = as_levels(distances)
    assert most == LEVELS
    order = np.argsort(distances, axis=1)
    assert (np.diff(np.take_along_axis(levels, order, axis=1).astype(int)) >= 0).all()
    assert (levels.min(axis=1) == 0).all()
    assert (levels.max(axis=1) == LEVELS - 2).all()


def test_infinite_distances_are_in_the_last_level_alone():
    distances = np.array([[0.0, 1.0, np.inf, 2.0], [np.inf] * 4])
    levels, most = as_levels(distances)
    assert levels.tolist() == [[0, (most - 2) // 2, most - 1, most - 2], [most - 1] * 4]
