import numpy as np
import pytest

from streambits._arrays import IdPlaces, as_ids
from streambits.errors import InputError
from streambits.model.batches import Removals, RowBatch, batches

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


LONG = [f"{n:08x}-9b1d-4c7f-8a2e-0f1e2d3c4b5a" for n in range(12)]  # NumPy keeps them elsewhere


@pytest.mark.parametrize("names", [list(range(12)), [str(n) for n in range(12)], LONG])
def test_what_a_batch_removes_is_what_its_order_says(names):
    rng = np.random.default_rng(0)
    for _ in range(50):
        came, gone = (rng.integers(12, size=count) for count in (20, 6))
        at = np.sort(rng.integers(0, 21, 6))
        live = dict.fromkeys(gone.tolist(), -1)
        live |= {key: place for place, key in enumerate(came.tolist()) if key in live}
        wanted = {names[key] for key, when in zip(gone.tolist(), at.tolist()) if live[key] < when}
        removals = Removals(as_ids([names[key] for key in gone]), at)
        batch = RowBatch(as_ids([names[key] for key in came]), np.zeros((20, 1)))
        assert set(batch._replace(removals=removals).removed.tolist()) == wanted


@pytest.mark.parametrize("names", [list(range(12)), LONG])
def test_places_of_ids(names):
    find = IdPlaces(as_ids(names[:8][::-1]))
    assert find(as_ids(names)).tolist() == [7, 6, 5, 4, 3, 2, 1, 0, -1, -1, -1, -1]
    assert find(as_ids(["other"] if names[0] == 0 else [0])).tolist() == [-1]
    assert find(as_ids([])).tolist() == []
    assert IdPlaces(as_ids([]))(as_ids(names[:2])).tolist() == [-1, -1]
