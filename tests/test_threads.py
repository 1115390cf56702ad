from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from streambits._threads import one_blas_thread, ordered_map


def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


@pytest.mark.parametrize("threads", [1, 2])
def test_results_keep_the_order_of_the_items(threads):
    with threadpool_limits(threads, user_api="blas"):
        assert list(ordered_map(lambda i: i * i, range(100))) == [i * i for i in range(100)]


def test_no_item_gives_no_result():
    assert list(ordered_map(lambda i: i, [])) == []


def test_blas_has_one_thread_inside_and_its_own_number_again_after():
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread() as allowed:
            assert allowed == 2
            assert set(blas_threads()) == {1}
            with one_blas_thread() as inner:
                assert inner == 2
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_the_work_comes_out_and_restores_blas(threads):
    def work(item):
        if item == 3:
            raise KeyError(item)
        return item

    with threadpool_limits(threads, user_api="blas"):
        with pytest.raises(KeyError, match="3"):
            list(ordered_map(work, range(10)))
        assert set(blas_threads()) == {threads}


def test_an_abandoned_map_restores_blas():
    with threadpool_limits(2, user_api="blas"):
        results = ordered_map(lambda i: i, range(10))
        assert next(results) == 0
        results.close()
        assert set(blas_threads()) == {2}


def test_only_a_few_items_are_worked_ahead():
    with threadpool_limits(2, user_api="blas"):
        started = []
        results = ordered_map(started.append, range(100))
        next(results)
        results.close()
    assert len(started) <= 4


def test_products_have_the_same_bits_for_any_number_of_threads():
    blocks = np.random.default_rng(0).random((8, 257, 301), dtype=np.float32)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(b"".join(m.tobytes() for m in ordered_map(lambda b: b.T @ b, blocks)))
    assert found[0] == found[1]


def test_many_threads_at_once_leave_blas_as_it_was():
    """threadpoolctl lets only one thread change OpenBLAS; the last one out must restore it."""
    before, leaving = blas_threads(), Barrier(4)

    def come_and_go(number):
        for _ in range(20):
            with one_blas_thread() as allowed:
                assert blas_threads() == [1] * len(before)
                assert allowed == max(before)
        leaving.wait()
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(come_and_go, range(4))) == [0, 1, 2, 3]
    assert blas_threads() == before


def test_the_limit_of_another_thread_is_respected_and_restored():
    with threadpool_limits(2, user_api="blas"):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_inside).result() == (2, [1] * len(blas_threads()))
        assert set(blas_threads()) == {2}


def _inside():
    with one_blas_thread() as allowed:
        return allowed, blas_threads()
