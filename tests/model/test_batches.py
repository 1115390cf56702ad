import numpy as np
import pytest

from streambits.errors import InputError
from streambits.model.batches import RowBatch, batches

ROWS = np.arange(12.0).reshape(6, 2)


def test_missing_ids_are_counted_from_zero():
    found = list(batches([ROWS[:2], ROWS[2:3], ROWS[3:]]))
    assert [batch.ids.tolist() for batch in found] == [[0, 1], [2], [3, 4, 5]]
    assert all(type(batch) is RowBatch and batch.ids.dtype == np.int64 for batch in found)
    assert np.array_equal(np.concatenate([batch.rows for batch in found]), ROWS)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_given_ids_stay_and_become_64_bits(dtype):
    (batch,) = batches([(np.array([7, 3], dtype), ROWS[:2])])
    assert batch.ids.tolist() == [7, 3]
    assert batch.ids.dtype == np.int64


def test_ids_may_be_a_list_and_a_batch_is_a_pair():
    first, second = batches([([5], ROWS[:1]), RowBatch(np.array([9]), ROWS[:1])])
    assert (first.ids.tolist(), second.ids.tolist()) == ([5], [9])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1], "2 rows needs as many ids; got 1"),
        (1, "2 rows needs as many ids; got 1"),
        ([1, 2, 3], "2 rows needs as many ids; got 3"),
        ([1.0, 2.0], "whole numbers of 64 bits"),
        (["a", 2], "each must be a text"),
        (["a", ""], "each must be a text"),
        ([True, False], "whole numbers of 64 bits"),
        ([[1, 2]], "one-dimensional"),
        ([2**63, 2**63 + 1], "above 9223372036854775807"),
    ],
)
def test_ids_that_do_not_fit_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        list(batches([(ids, ROWS[:2])]))


def test_a_stream_is_read_one_batch_at_a_time():
    read = []

    def source():
        for start in (0, 2, 4):
            read.append(start)
            yield ROWS[start : start + 2]

    stream = batches(source())
    assert read == []
    next(stream)
    assert read == [0]


def test_batches_of_other_libraries_count_as_well():
    strict = pytest.importorskip("array_api_strict")
    found = list(batches([strict.asarray(ROWS[:2]), strict.asarray(ROWS[2:])]))
    assert [batch.ids.tolist() for batch in found] == [[0, 1], [2, 3, 4, 5]]
