"""StreamIndex against a dict and exact search, for any sequence of calls.

It uses nothing but the public interface, and knows nothing of what is inside: a place is whatever
`StreamIndex.open` and `save` take. Any other store must pass it as it is.
"""

import os
import shutil
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import streambits as sb
from index_model import KINDS, LAST, WIDTH, Model, made
from streambits.errors import InputError, StorageError
from streambits.stream_index import StreamIndex

pytestmark = pytest.mark.filterwarnings(
    "ignore::streambits.errors.LandmarkWarning", "ignore::streambits.errors.ReachWarning"
)
SLOW = bool(os.environ.get("STREAMBITS_SLOW"))
EXAMPLES = int(os.environ.get("STREAMBITS_EXAMPLES", "2000" if SLOW else "12"))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # no disk is slow, none fails
PACKAGE = str(Path(sb.__file__).parent)

seeds = st.integers(0, 1 << 16)
numbers = st.integers(-5, 150)
sizes = st.integers(1, 12) | st.integers(40, 90)
kinds = st.sampled_from(["usual", "usual", "double", "equal", "few", "far"])
notes = st.none() | st.integers() | st.dictionaries(st.text(), st.booleans(), max_size=2)
WRONG = {
    "a number": lambda _: {"rows": 5.0},
    "NaN": lambda _: {"rows": np.full((2, WIDTH), np.nan)},
    "infinity": lambda _: {"rows": np.full((2, WIDTH), -np.inf, np.float32)},
    "too large to square": lambda _: {"rows": np.full((1, WIDTH), 1e200)},
    "one dimension": lambda rows: {"rows": rows[0]},
    "other columns": lambda rows: {"rows": rows[:, :3]},
    "too few ids": lambda rows: {"rows": rows, "ids": [1]},
    "ids of no rows": lambda rows: {"rows": rows[:0], "ids": [1]},
    "no whole numbers": lambda rows: {"rows": rows, "ids": [1.5, 2.5]},
    "truth values": lambda rows: {"rows": rows, "ids": np.array([True, False])},
    "two kinds of ids": lambda rows: {"rows": rows, "ids": [1, "b"]},
    "no JSON": lambda rows: {"rows": rows, "note": {1, 2}},
}


class IndexMachine(RuleBasedStateMachine):
    """An index, in memory or in a place, and its model; perhaps a reader beside it."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.places, self.index, self.reader, self.place = 0, None, None, None
        self.refused_a_writer = False

    @initialize(kind=st.sampled_from(sorted(KINDS)), keep_rows=st.booleans(), stored=st.booleans())
    def begin(self, kind, keep_rows, stored):
        self.settings = {**KINDS[kind], "keep_rows": keep_rows}
        self.place = self.new_place() if stored else None
        self.begin_empty()

    def begin_empty(self):
        self.model = Model(keep_rows=self.settings["keep_rows"])
        if self.place is None:
            self.index = StreamIndex(**self.settings)
        else:
            self.index = StreamIndex.open(self.place, **self.settings)

    def new_place(self):
        self.places += 1
        return self.folder / f"index {self.places}"

    def teardown(self):
        for index in (self.reader, self.index):
            if index is not None:
                index.close()
        shutil.rmtree(self.folder)

    def named(self, ids):
        return [f"reihe ä{i}" for i in ids] if self.model.has_texts else ids

    @invariant()
    def it_holds_what_it_should(self):
        if self.index is None:
            return
        assert not self.index.closed
        self.model.check(self.index)

    @invariant()
    def a_reader_sees_what_was_committed(self):
        if self.reader is not None:
            assert self.reader.waiting == self.index.waiting
            assert self.reader.epochs == self.index.epochs
            self.model.check(self.reader)
            asked = made(3, 2)
            ours, theirs = self.index.search(asked, 4), self.reader.search(asked, 4)
            assert ours.ids.tolist() == theirs.ids.tolist()
            assert ours.distances.tolist() == theirs.distances.tolist()

    # Changes

    def add(self, rows, ids=None, note=None):
        passed = rows.copy()
        self.index.add(passed, ids, note=note)
        passed[:] = 7.0  # the caller's own, to do with as they like
        self.model = self.model.after_add(rows, ids, note)

    @rule(seed=seeds, size=sizes, kind=kinds, note=notes)
    def add_without_ids(self, seed, size, kind, note):
        rows = made(seed, size, kind)
        if self.model.has_texts or self.model.next + size > LAST + 1:
            self.refused(lambda: self.index.add(rows, note=note))
        else:
            self.add(rows, note=note)

    @rule(seed=seeds, ids=st.lists(numbers, max_size=80), kind=kinds, texts=st.booleans())
    def add_or_replace(self, seed, ids, kind, texts):
        texts = texts if self.model.has_texts is None else self.model.has_texts
        self.add(made(seed, len(ids), kind), [f"reihe ä{i}" for i in ids] if texts else ids)

    @rule(note=notes, how=st.sampled_from([[], np.empty((0, WIDTH)), np.empty((0, 0))]))
    def add_nothing(self, note, how):
        self.index.add(how, note=note)
        self.index.add(how, [], note=note)
        self.model = self.model.after_add(np.empty((0, WIDTH)), [], note)

    @rule()
    def add_the_last_id(self):
        if not self.model.has_texts:
            self.add(made(0, 1), [LAST])

    @precondition(lambda self: self.model.rows)
    @rule(ids=st.lists(numbers, min_size=1, max_size=3))
    def add_ids_of_the_other_kind(self, ids):
        ids = ids if self.model.has_texts else [f"reihe ä{i}" for i in ids]
        self.refused(lambda: self.index.add(made(0, len(ids)), ids))

    @precondition(lambda self: self.model.rows)
    @rule(which=st.sampled_from(sorted(WRONG)))
    def add_what_cannot_be_added(self, which):
        arguments = WRONG[which](made(0, 2))
        if self.model.has_texts and "ids" not in arguments:
            rows = np.atleast_1d(arguments["rows"])
            arguments["ids"] = [f"reihe ä{i}" for i in range(len(rows))]
        self.refused(lambda: self.index.add(**arguments))

    @precondition(lambda self: self.model.rows and self.model.single)
    @rule(value=st.sampled_from([1e60, -1e39, 1e149]))
    def add_too_large_a_value(self, value):
        rows = made(0, 2, "double")
        rows[1, 2] = value
        self.refused(lambda: self.index.add(rows, self.named([0, 1])))

    def refused(self, call):
        """An error, and nothing has changed: invariants see to that."""
        with pytest.raises(InputError):
            call()

    @rule(ids=st.lists(numbers, max_size=60), note=notes)
    def remove(self, ids, note):
        ids = self.named(ids)
        gone = self.index.remove(ids, note=note)
        before, self.model = self.model, self.model.after_remove(ids, note)
        assert gone == len(before.rows) - len(self.model.rows)

    @precondition(lambda self: self.model.rows)
    @rule()
    def remove_all(self):
        ids = list(self.model.rows)
        assert self.index.remove(ids) == len(ids)
        self.model = self.model.after_remove(ids)

    @rule()
    def renew(self):
        epochs = self.index.epochs
        if not epochs:
            self.refused(self.index.renew)
            return
        try:
            epoch = self.index.renew()
        except InputError:  # there are no other landmarks
            assert self.index.epochs == epochs
            return
        assert epoch > epochs[-1].epoch
        assert self.index.epochs[-1].current

    @precondition(lambda self: self.settings["keep_rows"])
    @rule()
    def encode_again(self):
        old = sum(one.rows for one in self.index.epochs if not one.current)
        assert self.index.reencode() == old
        assert all(one.current or not one.rows for one in self.index.epochs)

    @rule(times=st.integers(1, 2))
    def compact(self, times):
        for _ in range(times):
            self.index.compact()

    # Searches

    @rule(
        seed=seeds,
        k=st.integers(1, 100),
        chosen=st.none() | st.lists(numbers, max_size=60),
        exact=st.booleans(),
    )
    def search(self, seed, k, chosen, exact):
        allow, options = None if chosen is None else self.named(chosen), {}
        if exact and self.settings["keep_rows"]:
            options = {"exact": True} if "certified" in self.settings else {"rerank": 10_000}
        self.model.check_search(self.index, made(seed, 3), k, allow, **options)
        assert self.index.search(made(seed, 0), k).ids.shape == (0, min(k, len(self.model.rows)))

    @precondition(lambda self: self.model.rows)
    @rule(seed=seeds)
    def a_row_finds_itself(self, seed):
        """Among those of its own code first, and first of all by its row, where that is kept."""
        live = list(self.model.rows)
        row = self.model.rows[live[seed % len(live)]][None]
        options = {"rerank": 10_000} if self.settings["keep_rows"] else {}
        if options or self.index.waiting:
            assert self.index.search(row, 1, **options).distances[0, 0] == 0

    @rule(k=st.integers(1, 100))
    def recall(self, k):
        codes = 0 if self.index.waiting else len(self.model.rows)
        if codes < 2 * k:
            self.refused(lambda: self.index.recall(k))
            return
        found = self.index.recall(k, queries=codes)
        assert 0 <= found.low <= found.mean <= found.high <= 1
        assert (found.k, found.rows) == (k, codes)
        if found.measured == codes:
            assert found.mean == pytest.approx(self.model.recall(self.index, k), abs=0.02)

    @rule(seed=seeds, size=st.integers(1, 60))
    def search_while_it_changes(self, seed, size):
        """Every answer is of rows that were there before or after."""
        before, stop, wrong = set(self.model.rows), threading.Event(), []
        ids = self.named(list(range(size)))
        allowed, least = before | set(ids), len(before)

        def look():
            try:
                while not stop.is_set():
                    hits = self.index.search(made(seed, 1), 10_000).ids[0].tolist()
                    assert least <= len(hits) == len(set(hits)), "too few, or twice"
                    assert set(hits) <= allowed, "of no row"
            except BaseException as error:  # noqa: BLE001  raised below
                wrong.append(error)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            self.add(made(seed, size), ids)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not wrong, wrong

    # Places

    @precondition(lambda self: self.place)
    @rule()
    def close_and_open_again(self):
        self.index.close()
        with pytest.raises(StorageError):
            self.index.add(made(0, 2))
        self.index = StreamIndex.open(self.place)

    @precondition(lambda self: self.place)
    @rule()
    def open_a_reader(self):
        if self.reader is not None:
            self.reader.close()
        self.reader = StreamIndex.open(self.place, read_only=True)
        self.refused(lambda: self.reader.add(made(0, 2)))

    @precondition(lambda self: self.place and not self.refused_a_writer)
    @rule()
    def no_second_writer(self):
        self.refused_a_writer = True  # which takes a moment
        with pytest.raises(StorageError):
            StreamIndex.open(self.place)

    @rule(go_on=st.booleans())
    def save(self, go_on):
        """To another place, where it can go on."""
        place = self.new_place()
        (self.reader or self.index).save(place)
        with pytest.raises(StorageError):
            self.index.save(place)
        copy = StreamIndex.open(place)
        self.model.check(copy)
        if not go_on:
            copy.close()
            return
        if self.reader is not None:
            self.reader.close()
        self.index.close()
        self.index, self.place, self.reader = copy, place, None

    # Interruptions

    @rule(
        at=st.integers(1, 400), seed=seeds, ids=st.lists(numbers, max_size=90), adds=st.booleans()
    )
    def interrupt(self, at, seed, ids, adds):
        """Ctrl-C somewhere in a change: it is wholly there or not, or the index is closed."""
        ids = self.named(ids)
        if adds:
            rows = made(seed, len(ids))
            after = self.model.after_add(rows, ids)
        else:
            after = self.model.after_remove(ids)
        try:
            with interrupted(at):
                self.index.add(rows, ids) if adds else self.index.remove(ids)
        except KeyboardInterrupt:
            self.after_an_interrupt(after)
        else:
            self.model = after

    def after_an_interrupt(self, after):
        if self.index.closed:
            self.index.close()
            if self.place is None:
                self.begin_empty()  # what is in memory alone can be lost
                return
            self.index = StreamIndex.open(self.place)
        if self.index.seen == after.seen and self.index.removed == after.removed:
            self.model = after


@contextmanager
def interrupted(at):
    """Raise KeyboardInterrupt at the call of a function of the package, the `at`-th one."""
    left, usual = at, sys.gettrace()

    def trace(frame, event, _):
        nonlocal left
        if event == "call" and frame.f_lasti <= 0 and frame.f_code.co_filename.startswith(PACKAGE):
            left -= 1
            if not left:
                raise KeyboardInterrupt

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(usual)


IndexMachine.TestCase.settings = hypothesis.settings(
    max_examples=EXAMPLES,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
TestStreamIndex = IndexMachine.TestCase


@pytest.mark.slow
@pytest.mark.parametrize("k", [10, 100])
def test_recall_where_more_rows_came_than_a_sample_holds(k):
    """Rows so wide that this takes few of them."""
    rows = np.random.default_rng(0).standard_normal((1300, 8200), dtype=np.float32)
    index = StreamIndex(method="ssbc", bits=6, n_landmarks=8, epochs="never")
    index.add(rows)
    found = index.recall(k, queries=50)
    assert found.measured < found.rows == 1300
    assert 0 <= found.low <= found.mean <= found.high < 0.5
