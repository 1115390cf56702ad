"""An index that several threads search and change at once."""

import os
import threading
import time
from collections import Counter

import numpy as np

import streambits as sb
from forks import in_child
from streambits import Codes, HammingIndex
from streambits.index.store import Store

FIXED = 10**9  # ids from here on are never changed
SECONDS = 300 if os.environ.get("STREAMBITS_SLOW") else 2


def codes_of(seed, count):
    return Codes(np.random.default_rng(seed).integers(0, 256, (count, 8), np.uint8), 64)


class Traffic:
    """Threads that search codes which nobody changes, and one that changes all others."""

    def __init__(self, count=20_000):
        self.fixed = codes_of(0, count)
        self.index = HammingIndex(64)
        self.index.add(self.fixed, FIXED + np.arange(count))
        self.found, self.changes = Counter(), 0
        self.end = time.monotonic() + SECONDS

    def run(self, searchers=6):
        threads = [threading.Thread(target=self.search, args=(i,)) for i in range(searchers)]
        threads.append(threading.Thread(target=self.change))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def search(self, seed):
        rng = np.random.default_rng(seed)
        while time.monotonic() < self.end:
            some = rng.choice(len(self.fixed), 4)
            try:
                self.found[self.verdict(some, seed % 3)] += 1
            except Exception as error:  # noqa: BLE001 - counted, and the test fails
                self.found[f"{type(error).__name__}: {error}"] += 1

    def verdict(self, some, way):
        asked, ids = self.fixed[some], FIXED + some
        if way == 0:
            hits = self.index.search(asked, 3)
            right = (hits.ids[:, 0] == ids).all() and (hits.distances[:, 0] == 0).all()
            right &= bool((hits.distances <= 64).all())
        elif way == 1:
            right = all(
                i in hits.ids for i, hits in zip(ids, self.index.within(asked, 2), strict=True)
            )
        else:
            real = np.where(asked.unpack(), 1.5, -1.5)
            right = (self.index.search(real, 1).ids[:, 0] == ids).all()
            right &= self.index.get(ids) == asked
        return "right" if right else f"wrong ids, way {way}"

    def change(self):
        new, rng = 0, np.random.default_rng(5)
        while time.monotonic() < self.end:
            count = int(rng.integers(500, 4000))
            ids = np.arange(new, new + count)
            self.index.add(codes_of(new + 1, count), ids)
            self.index.remove(ids[::2])
            self.index.update(codes_of(new + 2, count // 2), ids[1::2])
            new, self.changes = new + count, self.changes + 1
            if len(self.index) > 60_000:
                old = np.array([i for i in self.index if i < FIXED])
                self.index.remove(rng.permutation(old))


def test_searches_are_right_while_another_thread_changes_the_index():
    """STREAMBITS_SLOW=1: five minutes."""
    traffic = Traffic()
    traffic.run()
    assert set(traffic.found) == {"right"}, traffic.found
    assert traffic.changes > 3
    print(dict(traffic.found), traffic.changes, "changes")  # noqa: T201


def test_an_id_is_never_missing_while_it_is_updated():
    """Also from one epoch to another, and back."""
    index, codes = HammingIndex(64), codes_of(0, 2000)
    index.add(codes)
    ids, missing, end = np.arange(2000), [], time.monotonic() + 1

    def look():
        while time.monotonic() < end:
            if not index.has(ids).all() or len(list(index)) != 2000:
                missing.append(time.monotonic())

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    epoch = 0
    while time.monotonic() < end:
        epoch = 1 - epoch
        index.update(Codes(codes.packed, 64, epoch), ids)
    for thread in threads:
        thread.join()
    assert not missing


def test_pages_of_an_index_stay_as_it_was():
    index, codes = HammingIndex(64), codes_of(0, 300)
    index.add(codes)
    pages = index.items(100)
    first = next(pages)
    index.remove(np.arange(0, 300, 2))
    index.update(codes[1:2], [3])
    index.add(codes[:5], np.arange(1000, 1005))
    rest = list(pages)
    assert [len(page.ids) for page in (first, *rest)] == [100, 100, 100]
    assert Codes.concat(page.codes for page in (first, *rest)) == codes
    assert len(index) == 155
    assert index.get([3]) == codes[1:2]


def test_an_index_is_saved_whole_while_another_thread_changes_it(tmp_path):
    traffic = Traffic(3000)
    traffic.end = time.monotonic() + 1.5
    thread = threading.Thread(target=traffic.change)
    thread.start()
    while thread.is_alive():
        sb.save(traffic.index, tmp_path / "index")
        loaded = sb.load(tmp_path / "index")
        loaded.verify()
        assert loaded.has(FIXED + np.arange(3000)).all()
    thread.join()


def test_ids_by_default_do_not_collide_between_threads():
    index = HammingIndex(64)
    threads = [
        threading.Thread(target=lambda: [index.add(codes_of(0, 3)) for _ in range(50)])
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(index) == list(range(900))


def test_a_child_forked_in_the_middle_of_a_change_has_the_codes_before_it(monkeypatch):
    index, inside, go_on = HammingIndex(64), threading.Event(), threading.Event()
    index.add(codes_of(0, 300))
    without = Store.without

    def slow(store, places):
        inside.set()
        assert go_on.wait(60)
        return without(store, places)

    def use():
        assert len(index.search(codes_of(0, 1), 300).ids[0]) == 300
        monkeypatch.undo()
        index.remove([8])
        assert len(index) == 299

    monkeypatch.setattr(Store, "without", slow)
    thread = threading.Thread(target=index.remove, args=([7],))
    thread.start()
    assert inside.wait(60)
    assert in_child(use) == "done"
    go_on.set()
    thread.join()
    assert len(index.search(codes_of(0, 1), 300).ids[0]) == 299
