import copy
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import streambits as sb
from forks import in_child
from streambits import _threads
from streambits._threads import ForkSafeLock, Gate, one_blas_thread, ordered_map

forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def shared_blas_threads():
    """Of the libraries with one setting for the process: other threads do not see the others'."""
    libraries = _threads._blas()
    return [lib.num_threads for lib in libraries if not _threads._has_own_setting(lib)]


@pytest.mark.parametrize("threads", [1, 2])
def test_results_keep_the_order_of_the_items(threads):
    with threadpool_limits(threads, user_api="blas"):
        assert list(ordered_map(lambda i: i * i, range(100))) == [i * i for i in range(100)]
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


def test_an_abandoned_map_restores_blas_and_has_worked_a_few_items_ahead():
    with threadpool_limits(2, user_api="blas"):
        started = []
        results = ordered_map(started.append, range(100))
        next(results)
        results.close()
        assert set(blas_threads()) == {2}
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


@contextmanager
def another_thread(work):
    """Work again and again in another thread."""
    over = Event()

    def run():
        while not over.is_set():
            work()

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def held_by_another_thread(held):
    """Another thread is inside of `held`."""
    inside, leave = Event(), Event()

    def run():
        with held:
            inside.set()
            leave.wait()

    thread = Thread(target=run)
    thread.start()
    assert inside.wait(30)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_a_lock_keeps_other_threads_out_and_lets_its_own_in_again():
    lock, inside = ForkSafeLock(), []

    def count():
        for _ in range(200):
            with lock, lock:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(count) for _ in range(4)]:
            done.result()


@forks
def test_a_lock_that_another_thread_holds_is_free_in_a_forked_child():
    lock = ForkSafeLock()

    def take():
        assert lock.abandoned
        with lock, ThreadPoolExecutor(1) as pool:
            busy = pool.submit(lock._lock.acquire, False)
            assert not busy.result()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lock._lock.acquire, False).result()

    with held_by_another_thread(lock):
        assert in_child(take) == "done"
    assert not lock.abandoned


@forks
def test_a_lock_is_kept_through_a_fork_by_the_thread_that_forks():
    lock = ForkSafeLock()

    def leave():
        lock.__exit__()
        with lock:
            assert not lock.abandoned

    with lock:
        assert in_child(leave) == "done"
    with lock:
        pass


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_of_a_lock_is_another_lock(copied):
    lock = ForkSafeLock()
    with held_by_another_thread(lock), copied(lock) as other:
        assert other is not lock


@forks
def test_a_child_forked_while_a_thread_holds_blas_has_the_threads_that_were_allowed():
    def check():
        assert set(blas_threads()) == {2}
        with one_blas_thread() as allowed:
            assert allowed == 2
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}
        assert list(ordered_map(lambda i: i * i, range(9))) == [i * i for i in range(9)]

    with threadpool_limits(2, user_api="blas"):
        with held_by_another_thread(one_blas_thread()):
            assert in_child(check) == "done"
            assert set(shared_blas_threads()) <= {1}
        assert set(blas_threads()) == {2}


@forks
def test_a_child_forked_by_a_thread_that_holds_blas_restores_it_when_it_leaves():
    def leave():
        assert set(blas_threads()) == {1}
        held.__exit__(None, None, None)
        assert set(blas_threads()) == {2}

    with threadpool_limits(2, user_api="blas"):
        held = one_blas_thread()
        with held:
            assert in_child(leave) == "done"
        assert set(blas_threads()) == {2}


@forks
def test_a_process_may_be_forked_while_its_threads_encode_and_search():
    times = 200 if os.environ.get("STREAMBITS_SLOW") else 8
    rows = np.random.default_rng(0).normal(size=(6000, 8)).astype(np.float32)
    coder = sb.ssbc(rows[:50], 16).learn(rows).coder()
    codes = coder.encode(rows)
    index = sb.HammingIndex(16)
    index.add(codes)
    found = index.search(codes[:20], 3)

    def check():
        assert set(blas_threads()) == {2}
        assert np.array_equal(coder.encode(rows).packed, codes.packed)
        again = index.search(codes[:20], 3)
        assert np.array_equal(again.ids, found.ids)
        assert set(blas_threads()) == {2}

    with (
        threadpool_limits(2, user_api="blas"),
        another_thread(lambda: coder.encode(rows[:3])),
        another_thread(lambda: coder.encode(rows)),
        another_thread(lambda: index.search(codes[:3], 3)),
        another_thread(lambda: index.search(codes[:200], 3)),
    ):
        ends = [in_child(check) for _ in range(times)]
    assert ends == ["done"] * times


def test_work_that_maps_in_turn_does_not_wait_for_itself():
    """As many tasks as there are threads, each with tasks of its own."""

    def outer(number):
        return sum(ordered_map(lambda value: value * number, range(10)))

    with ThreadPoolExecutor(1) as other:
        found = other.submit(lambda: list(ordered_map(outer, range(20))))
        assert found.result(timeout=30) == [45 * number for number in range(20)]


def test_the_first_search_after_opening_prepares_itself_with_one_thread(tmp_path, monkeypatch):
    with sb.StreamIndex.open(tmp_path / "index", bits=16, refine=4, n_landmarks=50) as index:
        index.add(np.random.default_rng(0).random((1000, 20)))
    counts = []

    def counted(name):
        usual = getattr(np.linalg, name)

        def call(*arguments, **options):
            counts.append(max(blas_threads()))
            return usual(*arguments, **options)

        return call

    with sb.StreamIndex.open(tmp_path / "index") as index, threadpool_limits(2, user_api="blas"):
        for name in ("svd", "eigh"):
            monkeypatch.setattr(np.linalg, name, counted(name))
        index.search(np.ones((1, 20)))
    assert counts
    assert set(counts) == {1}


def test_a_slow_reader_keeps_no_other_out_while_a_change_waits():
    gate, began, done, order = Gate(), Event(), Event(), []

    def slow():
        with gate.reading():
            began.set()
            assert done.wait(30)
            with gate.reading():  # also within
                order.append("slow")

    def change():
        assert began.wait(30)
        with gate.changing():
            order.append("change")

    def quick():
        with gate.reading():
            order.append("quick")

    threads = [Thread(target=work, daemon=True) for work in (slow, change, quick)]
    for thread in threads[:2]:
        thread.start()
    time.sleep(0.1)  # it waits by now
    threads[2].start()
    threads[2].join(3)
    done.set()
    for thread in threads:
        thread.join(3)
    assert order == ["quick", "slow", "change"]


def test_changes_are_not_starved_by_readers():
    gate, stop = Gate(), Event()

    def read():
        while not stop.is_set():
            with gate.reading():
                time.sleep(0.001)

    threads = [Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    changes = []

    def change():
        for _ in range(20):
            with gate.changing():
                changes.append(1)

    threads.append(Thread(target=change, daemon=True))
    threads[-1].start()
    threads[-1].join(20)
    stop.set()
    for thread in threads[:-1]:
        thread.join()
    assert len(changes) == 20
