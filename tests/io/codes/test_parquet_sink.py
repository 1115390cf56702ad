"""Parquet parts: they go on exactly where a state was taken, wherever a process died."""

import json
import os

import numpy as np
import pytest
from pyarrow import parquet

import crashes
from streambits import Codes
from streambits._digests import seal
from streambits.errors import ChangedError, InputError, StorageError
from streambits.io.codes.parquet import ParquetSink, part_facts, read_codes
from streambits.storage import _describe

pytestmark = [  # sinks are left as they are, as if killed
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def opened(tmp_path):
    """opened(name): a sink of parts of 64 rows."""
    return lambda name="sink", bits=20, **more: ParquetSink(tmp_path / name, bits, rows=64, **more)


def content(sink):
    files = sorted(sink.path.glob("*.parquet"))
    return {file.name: file.read_bytes() for file in files}


def fill(sink, codes, ids=None, step=37, commit=()):
    ids = np.arange(len(codes)) if ids is None else ids
    for start in range(0, len(codes), step):
        batch = slice(start, start + step)
        sink.write(ids[batch], codes[batch])
        if start // step in commit:
            sink.commit()
    return sink


def test_parts_depend_on_the_rows_and_only_the_last_has_fewer(codes, opened):
    for name, step, commit in (("a", 500, ()), ("b", 1, range(0, 500, 50)), ("c", 37, (1, 3))):
        fill(opened(name), codes, step=step, commit=commit).close()
    assert content(opened("a")) == content(opened("b")) == content(opened("c"))
    files = sorted((opened("a").path).iterdir())
    assert [file.name for file in files] == [f"part-{k:06d}.parquet" for k in range(8)]
    assert [parquet.read_metadata(file).num_rows for file in files] == [64] * 7 + [52]
    ids, packed = zip(*((p.ids, p.codes.packed) for p in read_codes(files[0].parent)), strict=True)
    assert np.concatenate(ids).tolist() == list(range(500))
    assert np.array_equal(np.concatenate(packed), codes.packed)


def test_payload_is_in_columns_of_texts(codes, opened):
    sink = opened(keep=("title", "year"))
    texts = np.array([[f"title {n}", None if n % 3 else "1999"] for n in range(100)], object)
    sink.write(np.arange(100), codes[:100], texts)
    state = json.loads(json.dumps(sink.state()))
    sink.write(np.arange(50), codes[:50], texts[50:])
    sink.remove([99])
    sink = None  # as if killed: its lock goes with it
    again = opened(keep=("title", "year"))
    again.resume(state)
    again.write(np.arange(90, 99), codes[:9], texts[:9])
    again.remove([99])
    again.close()
    table = parquet.read_table(again.path).to_pydict()
    kept = dict(zip(table["id"], zip(table["title"], table["year"], strict=True), strict=True))
    wanted = {n: tuple(texts[n]) for n in range(90)} | {90 + n: tuple(texts[n]) for n in range(9)}
    assert kept == wanted
    with pytest.raises(StorageError, match=r"begun with keep \['title', 'year'\], and now it is"):
        opened(keep=("title",)).resume(state)
    with pytest.raises(InputError, match=r"payload has shape .* title kept beside them"):
        opened("other", keep=("title",)).write([1], codes[:1], [["a", "b"]])


@pytest.mark.parametrize("length", ["plain", "refined", "pure"])
def test_a_resumed_sink_is_as_it_was(length, opened, lengths):
    codes = lengths[length]
    more = {"bits": codes.bits, "refine": codes.refine}
    fill(opened("wanted", **more), codes).close()
    sink, ids = opened(**more), np.arange(500)
    for stop in (0, 64, 100, 128, 500):
        fill(sink, codes[sink.rows : stop], ids[sink.rows : stop])
        state, before = sink.state(), content(sink)
        assert _describe(state, "state", {})  # what a job can keep
        fill(sink, codes[::-1], ids + 1000, step=29, commit=(1, 5))
        if stop == 128:
            sink.close()
        sink = opened(**more)
        sink.resume(json.loads(json.dumps(state)))
        assert (content(sink), sink.rows) == (before, stop)
    sink.close()
    assert content(sink) == content(opened("wanted"))


class Job:
    """Changes and commits, whose states are kept beside the folder as by a job."""

    def __init__(self, folder, codes, seed=0):
        rng = np.random.default_rng(seed)
        self.folder, self.file = folder, folder.with_suffix(".json")
        self.changes = []
        for start in range(0, 72, 6):
            ids = rng.integers(0, 30, 6) if start else np.arange(6)
            self.changes.append((ids, None if start % 5 == 3 else codes[start : start + 6]))

    def kept(self):
        """How many changes were committed, and the state of the sink then."""
        return json.loads(self.file.read_text()) if self.file.exists() else (0, None)

    def __call__(self):
        """On from the last state to the end."""
        sink, (begin, state) = ParquetSink(self.folder, 20, rows=16), self.kept()
        if state is not None:
            sink.resume(state)
        for number, (ids, codes) in enumerate(self.changes[begin:], begin):
            if number % 4 == 0:
                self.file.write_text(json.dumps((number, sink.state())))
            if codes is None:
                sink.remove(ids)
            else:
                sink.write(ids, codes)
        self.file.write_text(json.dumps((len(self.changes), sink.state())))
        sink.close()

    def check(self):
        """Readers find what was committed; the number of ids is returned."""
        end, state = self.kept()
        wanted, read = {}, {}
        for ids, codes in self.changes[:end]:
            for place, key in enumerate(ids.tolist()):
                wanted.pop(key, None)
                if codes is not None:
                    wanted[key] = codes.packed[place].tobytes()
        for ids, codes in read_codes(self.folder, committed=state) if state else ():
            read |= dict(zip(ids.tolist(), (code.tobytes() for code in codes.packed), strict=True))
        assert read == wanted
        return len(wanted)

    def rows(self):
        return sum(parquet.read_metadata(file).num_rows for file in self.folder.glob("part-*"))


@pytest.mark.parametrize("crash", [crashes.exits, crashes.fails])
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_point_where_it_can_end(crash, step, codes, tmp_path):
    """Then what was committed can be read, and going on gives the same; a second end, too."""
    for point in range(1, crashes.count(Job(tmp_path / "alone", codes)), step):
        job = Job(tmp_path / f"job{point}", codes)
        for n in (point, 1 + point * 7 % 60):
            said = crash(job, n)
            assert said in (True, False, "") or "No space left on device" in said
            job.check()
        job()
        assert job.check() == job.rows()


def test_a_settled_job_that_goes_on_loses_nothing(codes, tmp_path):
    """It ended, rows were dropped, and new ones came, several times."""
    job = Job(tmp_path / "job", codes, seed=1)
    changes = job.changes
    for end in (2, 3, 9, len(changes), len(changes)):
        job.changes = changes[:end]
        job()
        assert job.check() == job.rows()


def test_a_state_of_version_0_2_0_is_gone_on_with(codes, opened, codes_in, pairs):
    """It counted rows, and a file beside the parts said that rows had been dropped."""
    for dropped in (False, True):
        sink = fill(opened(f"old{dropped}"), codes[:100])
        old = {name: sink.state()[name] for name in ("kind", "bits", "size", "rows", "last")}
        old |= {"ascending": not dropped, "generation": 0, "digests": {}}
        if dropped:  # it wrote 110 rows, of which the last replaced ten
            old |= {"rows": 110, "marked": True}
            record = seal({"generation": 1, "files": sorted(content(sink))})
            (sink.path / f".{sink.path.name}.generation").write_bytes(record)
        sink = opened(f"old{dropped}")
        sink.resume(old)
        fill(sink, codes[90:], np.arange(90, 500))
        state = sink.state()
        sink = opened(f"old{dropped}")
        sink.resume(state)
        sink.close()
        assert codes_in(sink.path) == pairs([(np.arange(500), codes)])


def test_a_place_with_codes_is_not_written_to_by_a_new_job(opened, codes):
    fill(opened(), codes[:10]).close()
    before = content(opened())
    for use in (lambda s: s.write([1], codes[:1]), ParquetSink.state, ParquetSink.commit):
        with pytest.raises(StorageError, match="holds codes already: choose another place"):
            use(opened())
    assert content(opened()) == before
    opened("none").close()  # nothing of value in it
    fill(opened("none"), codes).close()


def test_what_does_not_fit_is_refused(opened, codes, lengths):
    sink = fill(opened(), codes[:200])
    state, before = sink.state(), content(sink)
    for wrong, said in (
        (lambda: sink.write(np.arange(500), lengths["refined"]), "bytes of refinement, and those"),
        (lambda: sink.write(["a"], codes[:1]), "ids that are whole numbers, and the next is 'a'"),
        (lambda: sink.write([1], Codes(codes.packed[:1], 20, 2**31)), "takes epochs up to"),
    ):
        with pytest.raises(InputError, match=said):
            wrong()
    sink.commit()
    assert (content(sink), sink.rows) == (before, 200)
    sink.close()
    with pytest.raises(InputError, match="is closed: open it again, and resume"):
        sink.write([1], codes[:1])
    with pytest.raises(StorageError, match="was begun with bits 20, and now it is 21"):
        opened(bits=21).resume(state)
    with pytest.raises(StorageError, match="was begun with size 64, and now it is 65"):
        ParquetSink(sink.path, 20, rows=65).resume(state)
    last = sink.path / "part-000003.parquet"
    last.unlink()
    with pytest.raises(StorageError, match=r"part-000002.* ends after 192 rows, and 200 were writ"):
        opened().resume(state)
    (sink.path / "part-000001.parquet").rename(last)
    with pytest.raises(StorageError, match=r"part-000001.parquet is gone, and was written"):
        opened().resume(state)
    os.truncate(sink.path / "part-000000.parquet", 10)
    with pytest.raises(StorageError, match="cannot be read as Parquet"):
        opened().resume(state)


def test_an_id_that_comes_again_in_the_next_epoch_is_read_while_the_sink_is_open(codes, opened):
    """Its first epoch has no other codes, which was an IndexError."""
    sink = opened()
    sink.write([1], codes[:1])
    sink.write([1], Codes(codes.packed[1:2], 20, 1))
    sink.commit()
    [(ids, last)] = read_codes(sink.path)
    assert (ids.tolist(), last) == ([1], Codes(codes.packed[1:2], 20, 1))


def test_rows_that_were_dropped_while_they_were_read_are_noticed(opened, codes):
    sink = fill(opened(), codes[:200], np.random.default_rng(0).integers(0, 90, 200))
    sink.commit()
    reading = read_codes(sink.path)
    next(reading)
    sink.close()
    with pytest.raises(ChangedError, match=r"has changed while it was read.*: read it again"):
        list(reading)
    assert part_facts(sink.path / "part-000000.parquet").settled


def test_one_sink_writes_at_a_time_and_ends_if_its_lock_was_removed(codes, opened):
    sink = fill(opened(), codes[:9])
    sink.commit()
    said = r"this process \(\d+\) writes to .*sink: wait .* another sink$"
    with pytest.raises(StorageError, match=said):
        opened().write([77], codes[9:10])
    sink.write([77], codes[9:10])
    (sink.path / ".sink.lock").unlink()
    with pytest.raises(StorageError, match=r"\.sink\.lock, which kept others out, was removed"):
        sink.commit()
    with pytest.raises(InputError, match="is closed"):
        sink.write([1], codes[:1])
