import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streambits.model.sampling import Blocks


@given(st.lists(st.integers(0, 25), max_size=12), st.integers(1, 9))
def test_any_split_gives_the_same_blocks_and_the_same_rest(sizes, size):
    rows = np.arange(2.0 * sum(sizes)).reshape(-1, 2)
    blocks, full = Blocks(size, 2, rows), []
    for piece in np.split(rows, np.cumsum(sizes)[:-1]) if sizes else []:
        full += blocks.cut(piece)
    assert [len(block) for block in full] == [size] * (len(rows) // size)
    np.testing.assert_array_equal(np.concatenate([*full, blocks.rows]), rows)


def test_a_block_does_not_change_when_more_rows_wait():
    blocks = Blocks(3, 1, np.zeros(1))
    blocks.cut(np.array([[1.0], [2.0]]))
    (first,) = blocks.cut(np.array([[3.0], [4.0]]))
    blocks.cut(np.array([[5.0]]))
    assert first.ravel().tolist() == [1, 2, 3]
