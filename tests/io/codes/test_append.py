"""What is in the files, and what happens where a job is interrupted or something is in the way."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from streambits import Codes
from streambits.errors import InputError, StorageError
from streambits.io.codes import open_sink
from streambits.io.codes._append import Appending
from streambits.io.codes.parquet import read_codes
from streambits.storage import _describe

pytestmark = [  # sinks are left as they are, as if killed
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KINDS = {"parquet": {"rows": 64}, "jsonl": {}, "npy": {}}


@pytest.fixture(params=KINDS)
def opened(request, tmp_path):
    """opened(name): a sink of one of the kinds."""

    def of(name="sink", bits=20, refine=0):
        options = KINDS[request.param] | {"refine": refine}
        return open_sink(f"{request.param}:{tmp_path / name}", bits, **options)

    return of


@pytest.fixture(params=["plain", "refined", "pure"])
def written(request, lengths, opened):
    """Codes with a refinement or without, and what opens a sink for them."""
    codes = lengths[request.param]
    return codes, partial(opened, bits=codes.bits, refine=codes.refine)


def test_files_do_not_go_away_and_need_no_retry(tmp_path):
    for name in ("codes", "codes.jsonl", "npy:arrays", "codes.index"):
        where = name.replace(":", f":{tmp_path}/") if ":" in name else str(tmp_path / name)
        assert open_sink(where, 20, retry_seconds=3).bits == 20
    with pytest.raises(TypeError, match="hurry"):
        open_sink(str(tmp_path / "codes"), 20, hurry=3)


def content(sink):
    if sink.path.is_file():
        return sink.path.read_bytes()
    files = sorted(sink.path.iterdir())
    return {f.name: f.read_bytes() for f in files if not f.name.endswith((".generation", ".lock"))}


def fill(sink, codes, ids=None, step=37, commit=()):
    ids = np.arange(len(codes)) if ids is None else ids
    for start in range(0, len(codes), step):
        some = slice(start, start + step)
        sink.write(ids[some], codes[some])
        if start // step in commit:
            sink.commit()
    return sink


def test_parquet_parts_have_the_same_number_of_rows_and_only_the_last_fewer(codes, tmp_path):
    sink = fill(open_sink(str(tmp_path / "set"), 20, rows=64), codes, commit=(1, 2, 9))
    sink.close()
    files = sorted((tmp_path / "set").iterdir())
    assert [f.name for f in files] == [f"part-{k:06d}.parquet" for k in range(8)]
    assert [parquet.read_metadata(f).num_rows for f in files] == [64] * 7 + [52]
    [ids, packed] = zip(*((p.ids, p.codes.packed) for p in read_codes(tmp_path / "set")))
    assert np.concatenate(ids).tolist() == list(range(500))
    assert np.array_equal(np.concatenate(packed), codes.packed)


def test_a_line_of_json_is_what_the_readme_says(codes, tmp_path):
    sink = open_sink(str(tmp_path / "codes.jsonl"), 20)
    sink.write([2**63 - 1, -(2**63)], Codes(codes.packed[:2], 20, 4))
    sink.close()
    rows = [json.loads(line) for line in (tmp_path / "codes.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [2**63 - 1, -(2**63)]
    assert rows[1] == {"id": -(2**63), "code": codes.packed[1].tobytes().hex(), "epoch": 4}


def test_lines_of_refined_codes(lengths, tmp_path):
    for name in ("refined", "pure"):
        codes = lengths[name][:2]
        sink = open_sink(f"{tmp_path}/{name}.jsonl", codes.bits, refine=codes.refine)
        sink.write([7, 8], codes)
        sink.close()
        line = json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[1])
        code = {"code": codes.packed[1].tobytes().hex()} if codes.bits else {}
        more = {"refinement": codes.refinement[1].tobytes().hex()}
        assert list(line.items()) == list(({"id": 8} | code | more | {"epoch": 0}).items())


@pytest.mark.parametrize("name", ["refined", "pure"])
def test_numpy_files_of_refined_codes_have_one_array_more(name, lengths, tmp_path):
    codes = lengths[name]
    sink = open_sink(f"npy:{tmp_path}/set", codes.bits, refine=codes.refine)
    fill(sink, codes).close()
    assert np.array_equal(np.load(tmp_path / "set" / "codes.npy"), codes.packed)
    assert np.array_equal(np.load(tmp_path / "set" / "refinements.npy"), codes.refinement)


def test_numpy_files_can_be_loaded_after_every_commit(codes, tmp_path):
    sink = open_sink(f"npy:{tmp_path}/set", 20)
    for stop in (0, 10, 300):
        fill(sink, codes[:stop])
        sink.commit()
        ids, packed, epochs = (
            np.load(tmp_path / "set" / f"{n}.npy") for n in ("ids", "codes", "epochs")
        )
        assert (ids.dtype, packed.dtype, epochs.dtype) == (np.int64, np.uint8, np.int32)
        assert len(ids) == len(packed) == len(epochs) == sink.rows
        assert np.array_equal(packed[len(packed) - stop :], codes.packed[:stop])
    sink.close()


def test_bytes_depend_on_the_rows_alone(written):
    codes, opened = written
    for name, step, commit in (("a", 500, ()), ("b", 1, range(0, 500, 50)), ("c", 64, (1, 3))):
        fill(opened(name), codes, step=step, commit=commit).close()
    assert content(opened("a")) == content(opened("b")) == content(opened("c"))


def test_a_resumed_sink_is_as_it_was(written):
    codes, opened = written
    fill(opened("wanted"), codes).close()
    sink, ids = opened(), np.arange(500)
    for stop in (0, 64, 100, 128, 500):
        fill(sink, codes[sink.rows : stop], ids[sink.rows : stop])
        state, there = sink.state(), content(sink)
        assert _describe(state, "state", {})  # what a job can keep
        fill(sink, codes[::-1], ids + 1000, step=29, commit=(1, 5))
        if stop == 128:
            sink.close()
        sink = opened()
        sink.resume(json.loads(json.dumps(state)))
        assert (content(sink), sink.rows) == (there, stop)
    sink.close()
    assert content(sink) == content(opened("wanted"))


def test_ids_that_come_again_are_there_once_in_the_end_wherever_it_stops(written, monkeypatch):
    """Every file that is renamed or removed while closing is a moment to be interrupted at."""
    codes, opened = written
    ids = np.random.default_rng(0).integers(0, 200, 500)
    once = {key: i for i, key in enumerate(ids.tolist())}
    last = sorted(once.values())
    fill(opened("wanted"), codes[last], ids[last]).close()
    wanted = content(opened("wanted"))
    steps = {"left": -1}
    real = {name: getattr(Path, name) for name in ("replace", "unlink")}

    def stopping(name):
        def act(*arguments, **options):
            steps["left"] -= 1
            if steps["left"] == 0:
                raise KeyboardInterrupt
            return real[name](*arguments, **options)

        return act

    for name in real:
        monkeypatch.setattr(Path, name, stopping(name))
    for stop in range(1, 30):
        sink = opened(f"try{stop}")
        fill(sink, codes[:300], ids[:300])
        state = sink.state()
        fill(sink, codes[300:], ids[300:])
        sink.commit()
        steps["left"] = stop
        try:
            sink.close()
        except KeyboardInterrupt:
            done = False
        else:
            done = True
        steps["left"] = -1
        sink = None  # as if killed: its lock goes with it
        for rows in (350, 500):  # and once more in the middle
            again = opened(f"try{stop}")
            again.resume(state)
            fill(again, codes[300:rows], ids[300:rows])
            again.commit()
        again.close()
        assert content(again) == wanted
        assert not list(again.folder.glob(".*.new"))
        if done:
            break
    assert done
    assert stop > 3


def test_a_place_with_codes_is_not_written_to_by_a_new_job(opened, codes):
    fill(opened(), codes[:10]).close()
    before = content(opened())
    for use in (lambda s: s.write([1], codes[:1]), Appending.state, Appending.commit):
        with pytest.raises(StorageError, match="holds codes already: choose another place"):
            use(opened())
    assert content(opened()) == before
    opened("none").close()  # nothing of value in it
    fill(opened("none"), codes).close()


def test_what_does_not_fit_is_refused(opened, codes):
    sink = fill(opened(), codes[:100])
    state = sink.state()
    with pytest.raises(StorageError, match="was begun with bits 20, and now it is 21"):
        opened(bits=21).resume(state)
    sink.close()
    with pytest.raises(InputError, match="is closed"):
        sink.write([1], codes[:1])
    sink.close()
    for path in sorted(sink._swap.files(), reverse=True)[:1]:
        os.truncate(path, 10)
    with pytest.raises(StorageError, match=r"has .* bytes, and .* were written|cannot be read"):
        opened().resume(state)
    for path in sink._swap.files():
        path.unlink()
    with pytest.raises(StorageError, match=r"written|cannot be read"):
        opened().resume(state)


def test_codes_of_another_refinement_are_refused_and_change_nothing(written, opened, lengths):
    codes, right = written
    sink = fill(right(), codes[:100])
    state, there = sink.state(), content(sink)
    for other in lengths.values():
        if other.refine != codes.refine:
            with pytest.raises(InputError, match=r"bytes of refinement, and those of the|sink is"):
                sink.write(np.arange(500), other)
            with pytest.raises(StorageError, match=r"begun with (bits|refine) \d+, and now it is"):
                opened(bits=other.bits, refine=other.refine).resume(state)
    sink.commit()
    assert (content(sink), sink.rows) == (there, 100)
    sink.close()
    there = content(sink)
    for other in lengths.values():
        with pytest.raises(StorageError, match="holds codes already"):
            opened(bits=other.bits, refine=other.refine).write(np.arange(500), other)
    assert content(sink) == there


def test_a_state_of_before_there_were_refinements_is_gone_on_with(opened, codes):
    fill(opened("wanted"), codes).close()
    state = fill(opened(), codes[:100]).state()
    del state["refine"]
    sink = opened()
    sink.resume(state)
    fill(sink, codes[100:], np.arange(100, 500)).close()
    assert content(sink) == content(opened("wanted"))


def test_codes_are_bits_or_bytes_or_both(opened):
    with pytest.raises(InputError, match="bits is 0"):
        opened(bits=0)
    for refine in (-1, 258, 0.5):
        with pytest.raises(InputError, match=f"refine is {refine}"):
            opened(refine=refine)


def test_a_part_that_is_gone_is_noticed(codes, tmp_path):
    sink = fill(open_sink(str(tmp_path / "set"), 20, rows=64), codes)
    state = sink.state()
    sink.close()
    (tmp_path / "set" / "part-000002.parquet").unlink()
    with pytest.raises(StorageError, match=r"part-000002.parquet is gone, and was written"):
        open_sink(str(tmp_path / "set"), 20, rows=64).resume(state)
    with pytest.raises(StorageError, match="was begun with size 64, and now it is 65"):
        open_sink(str(tmp_path / "set"), 20, rows=65).resume(state)


def test_trouble_with_the_disk_is_a_sentence(opened, codes, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"file/there cannot be written"):
        opened("file/there").write([1], codes[:1])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_is_a_sentence(codes):
    sink = open_sink("jsonl:/dev/full", 20)
    with Path("/dev/full").open("wb", buffering=0) as full:
        sink._begun, sink._file = True, full
        with pytest.raises(StorageError, match="/dev/full cannot be written: No space left"):
            sink.write([1], codes[:1])
    with pytest.raises(InputError, match="is closed: open it again, and resume"):
        sink.write([1], codes[:1])
    sink.close()


@pytest.mark.parametrize("kind", ["index", "faiss"])
def test_indexes_go_on_from_what_was_committed(kind, codes, tmp_path):
    if kind == "faiss":
        pytest.importorskip("faiss", reason="there is no faiss: pip install 'streambits[faiss]'")
    later = Codes(codes.packed, 20, 2)

    def opened(bits=20):
        return open_sink(f"{kind}:{tmp_path}/there/sink", bits)

    sink = fill(opened(), later[:100])
    state = sink.state()
    assert _describe(state, "state", {})
    sink.close()
    with pytest.raises(StorageError, match="holds codes already"):
        opened().commit()
    with pytest.raises((StorageError, InputError), match="bits"):
        opened(28).resume(state)
    sink = opened()
    sink.resume(state)
    fill(sink, later[50:], np.arange(50, 500)).close()
    assert (len(sink.index), sink.index.epochs) == (500, (2,))
    sink = opened()
    sink.resume({**state, "rows": 0})
    fill(sink, later[:7]).close()
    with pytest.raises(StorageError, match="has 7 codes, and 100 were written"):
        opened().resume(state)
    (tmp_path / "there" / "sink").write_bytes(b"something else")
    with pytest.raises(StorageError):
        opened().commit()


@pytest.fixture(params=["index", "faiss"])
def indexed(request, tmp_path):
    """indexed(): a sink of an index of ours, or of FAISS, at one place."""
    if request.param == "faiss":
        pytest.importorskip("faiss", reason="there is no faiss: pip install 'streambits[faiss]'")
    return lambda: open_sink(f"{request.param}:{tmp_path}/sink", 20)


def test_an_index_goes_on_if_ids_were_first_removed_after_the_state(indexed, codes):
    """And committed to the file: then it has fewer codes than the state."""
    sink = fill(indexed(), codes[:100])
    state = sink.state()
    sink.remove(np.arange(30))
    sink.commit()
    for _ in range(2):
        sink = None  # as if killed
        sink = indexed()
        sink.resume(json.loads(json.dumps(state)))
        sink.remove(np.arange(30))
        sink.write([3], codes[3:4])
        sink.commit()
    state = sink.state()
    sink.remove(np.arange(100))
    sink.close()  # none is left
    sink = indexed()
    sink.resume(state)
    sink.write([7], codes[7:8])
    sink.close()
    assert sorted(sink.index) == [7]


def test_an_index_with_fewer_codes_is_noticed_though_ids_were_removed(indexed, codes):
    sink = fill(indexed(), codes[:100])
    sink.remove(np.arange(10))
    old, state = sink.path.with_name("old"), sink.state()
    old.write_bytes(sink.path.read_bytes())
    fill(sink, codes[100:200], np.arange(100, 200))
    later = sink.state()
    noted = sink._record.read_bytes()
    sink.close()
    old.replace(sink.path)
    with pytest.raises(StorageError, match=r"has 90 codes, and 190 were written: restore it, or"):
        indexed().resume(later)
    sink._record.write_bytes(noted.replace(b"190", b"90"))
    with pytest.raises(StorageError, match="commits is damaged"):
        indexed().resume(state)
    sink._record.unlink()
    with pytest.raises(StorageError, match=r"\.sink\.commits is gone, and was written"):
        indexed().resume(state)
    sink.path.unlink()
    fresh = fill(indexed(), codes[:5])  # a new beginning needs none of it
    fresh.close()
    assert not fresh._record.exists()


def test_an_index_and_its_record_from_before_are_noticed(indexed, codes):
    sink = fill(indexed(), codes[:100])
    sink.remove([0])
    sink.commit()
    before = {path: path.read_bytes() for path in (sink.path, sink._record)}
    sink.write([0], codes[:1])
    sink.remove([1])
    state = sink.state()
    sink.close()
    for path, content in before.items():
        path.write_bytes(content)
    with pytest.raises(StorageError, match="is older than what was committed: restore it"):
        indexed().resume(state)


def test_an_index_that_was_killed_between_its_record_and_its_file_goes_on(
    indexed, codes, monkeypatch
):
    sink = fill(indexed(), codes[:100])
    state = sink.state()
    sink.remove(np.arange(30))

    def killed():
        raise KeyboardInterrupt

    monkeypatch.setattr(sink, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        sink.commit()
    sink._let_go()
    sink = indexed()
    sink.resume(state)
    assert len(sink.index) == 100
    sink.remove(np.arange(30))
    sink.close()
    assert sorted(sink.index) == list(range(30, 100))


@pytest.mark.parametrize(
    ("target", "kind", "path"),
    [
        ("some/folder", "parquet", "some/folder"),
        ("folder.parquet", "parquet", "folder.parquet"),
        ("parquet:a.jsonl", "parquet", "a.jsonl"),
        ("a.jsonl", "jsonl", "a.jsonl"),
        ("a.ndjson", "jsonl", "a.ndjson"),
        ("npy:folder", "npy", "folder"),
        ("a.index", "index", "a.index"),
        ("a.safetensors", "index", "a.safetensors"),
        ("c:/odd", "parquet", "c:/odd"),
    ],
)
def test_targets(target, kind, path):
    sink = open_sink(target, 8)
    assert (sink.name, sink.path) == (f"{kind}:{path}", Path(path))


def test_targets_that_name_nothing():
    with pytest.raises(InputError, match="'kafka://x/y' names no sink: choose a path, or one of"):
        open_sink("kafka://x/y", 8)
    with pytest.raises(InputError, match=r"three: name a folder, npy:codes$"):
        open_sink("codes.npy", 8)
    with pytest.raises(InputError, match="bits is 0"):
        open_sink("folder", 0)


WRITE = """
import sys
import numpy as np
from streambits import Codes
from streambits.io.codes import open_sink
sink = open_sink(sys.argv[1], 20)
sink.write(np.arange(3), Codes.from_bits(np.eye(3, 20, dtype=bool)))
print("writes", flush=True)
sys.stdin.read()
sink.close()
"""


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npy", "index", "faiss"])
def test_one_process_writes_at_a_time(kind, codes, tmp_path):
    if kind == "faiss":
        pytest.importorskip("faiss", reason="there is no faiss: pip install 'streambits[faiss]'")
    target, path = f"{kind}:{tmp_path}/sink", tmp_path / "sink"
    (tmp_path / "link").symlink_to(path)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITE, target], **pipes) as other:
        assert other.stdout.readline() == b"writes\n"
        for name in ("sink", "link"):
            sink = open_sink(f"{kind}:{tmp_path}/{name}", 20)
            said = rf"another process \({other.pid}\) writes to .*{name}: wait .* another sink$"
            with pytest.raises(StorageError, match=said):
                sink.write([7], codes[:1])
            with pytest.raises(InputError, match="is closed"):
                sink.write([7], codes[:1])
        other.stdin.close()
        assert other.wait() == 0
    assert not list(tmp_path.rglob("*.lock"))
    with pytest.raises(StorageError, match="holds codes already"):
        open_sink(target, 20).commit()
    assert not list(tmp_path.rglob("*.lock"))


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npy", "index"])
def test_a_lock_that_was_removed_ends_the_sink_at_its_commit(kind, codes, tmp_path):
    sink = fill(open_sink(f"{kind}:{tmp_path}/sink", 20), codes[:9])
    sink.commit()
    sink.write([77], codes[9:10])
    [lock] = tmp_path.rglob("*.lock")
    lock.unlink()
    with pytest.raises(StorageError, match=r"\.sink\.lock, which kept others out, was removed"):
        sink.commit()
    with pytest.raises(InputError, match="is closed"):
        sink.write([1], codes[:1])


def test_a_generation_that_is_damaged_removes_nothing(opened, codes):
    sink = fill(opened(), codes[:200])
    state = sink.state()
    fill(sink, codes[:20], np.arange(20))
    sink.close()
    there = content(sink)
    [record] = sink.folder.glob(".*.generation")
    whole, name = record.read_text(), sink._swap.files()[0].name
    broken = [
        whole.replace(name, name.replace(name[0], "q", 1)),
        whole.replace('"generation": 1', '"generation": 3'),
        whole.replace(f'"{name}"', "5"),
        "[]",
        "{}",
        "[" * 5000,
        whole[:-3],
    ]
    for text in broken:
        assert text != whole
        record.write_text(text)
        with pytest.raises(StorageError, match=r"generation is damaged \(.*restore it, or begin"):
            opened().resume(state)
        assert content(sink) == there
    record.write_text(whole)
    first, *others = sink._swap.files()
    first.rename(sink.folder / "elsewhere")
    with pytest.raises(StorageError, match="is gone, and was written: restore it"):
        opened().resume(state)
    assert sink._swap.files() == others
    (sink.folder / "elsewhere").rename(sink.folder / name)
    again = opened()
    again.resume(state)
    fill(again, codes[:20], np.arange(20)).close()
    assert content(again) == there


def test_the_names_of_new_files_and_folders_reach_the_disk(opened, codes, monkeypatch, tmp_path):
    """In which folders something was made, and which of them were brought to the disk after."""
    synced, real = set(), os.fsync

    def fsync(descriptor):
        synced.add(os.stat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    sink = opened("a/b/c")
    sink.write([1], codes[:1])
    state = sink.state()
    made = {tmp_path, tmp_path / "a", tmp_path / "a" / "b", sink.folder}
    assert {path.stat().st_ino for path in made} <= synced
    assert state["rows"] == 1
    sink.close()


def test_epochs_without_room_are_refused_and_change_nothing(opened, codes):
    sink, late = opened(), Codes(codes.packed, 20, 2**31)
    with pytest.raises(InputError, match=r"epoch 2147483648, and this sink takes epochs up to"):
        sink.write(np.arange(500), late)
    fill(sink, Codes(codes.packed, 20, 2**31 - 1)).close()
    assert sink.rows == 500


@pytest.mark.parametrize(
    "target",
    [
        "postgresqll://me:hunter2@host/db",
        "jsonl:postgresql://me:hunter2@host/db",
        "postgresql:me:hunter2@host/db",
        "postgresql:/me:hunter2@host/db",
    ],
)
def test_a_url_that_names_no_sink_is_shown_without_its_password(target):
    with pytest.raises(InputError, match="names no sink") as caught:
        open_sink(target, 8)
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def read(readers):
    """read(sink): the code of each id, and how many rows there are."""

    def of(sink):
        parts = list(readers[sink.kind](sink.path))
        ids = [i for part in parts for i in part.ids.tolist()]
        return dict(zip(ids, Codes.concat(part.codes for part in parts), strict=True)), len(ids)

    return of


@pytest.mark.parametrize("batches", [[[1, 2, 3], [3, 4]], [[1, 2, 2, 3]], [[5], [5], [6]]])
def test_an_id_that_comes_again_at_once_is_there_once(opened, codes, batches, read):
    sink, start = opened(), 0
    for ids in batches:
        sink.write(ids, codes[start : start + len(ids)])
        start += len(ids)
    sink.close()
    last = {i: place for place, i in enumerate(i for ids in batches for i in ids)}
    assert read(sink) == ({i: codes[place] for i, place in last.items()}, len(last))


def test_rows_that_come_again_after_an_exchange_are_there_once(written, read):
    """The files were exchanged, and the job goes back to before that: ids ascend all the same."""
    codes, opened = written
    sink = opened()
    sink.write([*range(10), 5], codes[:11])
    state = sink.state()
    sink.write(np.arange(10, 20), codes[11:21])
    sink.close()
    there = read(sink)
    assert (sorted(there[0]), there[1]) == (list(range(20)), 20)
    again = opened()
    again.resume(state)
    again.write(np.arange(10, 20), codes[11:21])
    again.close()
    assert read(again) == there


def test_a_commit_brings_all_files_to_the_disk(opened, codes, monkeypatch):
    synced, fsync = {}, os.fsync

    def noted(descriptor):
        fsync(descriptor)
        found = os.fstat(descriptor)
        synced[found.st_ino] = found.st_size

    monkeypatch.setattr(os, "fsync", noted)
    sink = opened()
    for start in range(0, 90, 30):
        sink.write(np.arange(start, start + 30), codes[start : start + 30])
        synced.clear()
        sink.commit()
        files = [sink.path] if sink.path.is_file() else list(sink.path.iterdir())
        files = [file for file in files if not file.name.startswith(".")]
        new = [file for file in files if not file.name.startswith("part-") or file == max(files)]
        assert new
        for file in new:
            assert synced[file.stat().st_ino] == file.stat().st_size
    sink.close()
