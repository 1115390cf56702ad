"""A change fails, or the process dies, at every call of the system that it makes.

What was acknowledged is there afterwards, what was interrupted is wholly there or not at all, and
the index goes on working. `Calls` counts what Python code asks of the system. A store that writes
by C code, such as SQLite, needs another count and nothing else here: for example a progress
handler (`Connection.set_progress_handler(count, 1)`, called between the steps of a statement) in
which the child ends, or a file system that fails.
"""

import builtins
import errno
import io
import os
import shutil
import tempfile
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from forks import in_child
from index_model import KINDS, Model, made
from streambits import index_folder
from streambits.errors import StorageError
from streambits.stream_index import StreamIndex

SLOW = bool(os.environ.get("STREAMBITS_SLOW"))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
NAMES = ["chmod", "fdatasync", "fsync", "ftruncate", "link", "mkdir", "open", "posix_fallocate"]
NAMES += ["pwrite", "pwritev", "remove", "rename", "replace", "rmdir", "sendfile", "symlink"]
NAMES += ["truncate", "unlink", "write", "writev"]
NEED_SPACE = {"fsync", "link", "mkdir", "open", "pwrite", "rename", "replace", "write"}
SETTINGS = {**KINDS["refined"], "keep_rows": True}


class Calls:
    """Calls that write, or open a file to be written; at the number `at`, from 1, it acts.

    synced: a file into which it writes which files were brought to the disk, and their lengths.
    """

    def __init__(self, at=None, act=None, synced=None):
        self.at, self.act, self.count, self.synced = at, act, 0, synced

    def tick(self, name):
        self.count += 1
        if self.at is not None:
            self.act(self.count - self.at, name)

    @contextmanager
    def watching(self):
        with mock.patch.multiple(os, **{name: self.counted(name) for name in NAMES}):
            self.usual_open = io.open
            opened = self.opening(io.open)
            with mock.patch.object(io, "open", opened), mock.patch.object(builtins, "open", opened):
                yield self

    def counted(self, name):
        usual = getattr(os, name)

        def call(*arguments, **more):
            reads = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not reads:
                self.tick(name)
            result = usual(*arguments, **more)
            if name == "fsync" and self.synced:
                stat = os.fstat(arguments[0])
                with self.usual_open(self.synced, "a") as file:
                    file.write(f"{stat.st_ino} {stat.st_size}\n")
            return result

        return call

    def opening(self, usual):
        def call(file, mode="r", *arguments, **more):
            if set(mode) & set("wxa+"):
                self.tick("open")
                return Counted(usual(file, mode, *arguments, **more), self)
            return usual(file, mode, *arguments, **more)

        return call


class Counted:
    """A file of which the first and the last write count, as Python holds back what is between."""

    def __init__(self, file, calls):
        self._file, self._calls, self._begun = file, calls, False

    def write(self, content):
        if not self._begun:
            self._calls.tick("write")
            self._begun = True
        return self._file.write(content)

    def flush(self):
        self._calls.tick("write")
        self._file.flush()

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def die(number, _):
    if not number:
        os._exit(9)


def fail_once(number, _):
    if not number:
        raise OSError(errno.ENOSPC, "No space left on device")


def fail_from_then_on(number, name):
    if number >= 0 and name in NEED_SPACE:
        raise OSError(errno.ENOSPC, "No space left on device")


# Changes: from a model to the model after them, and what they do with an index


def add(index, model):
    rows = made(7, 30, "double")
    index.add(rows, range(20, 50), note="added")
    return model.after_add(rows, range(20, 50), "added")


def add_without_ids(index, model):
    rows = made(8, 4)
    index.add(rows)
    return model.after_add(rows)


def remove(index, model):
    index.remove(range(10, 30), note="removed")
    return model.after_remove(range(10, 30), "removed")


def renew(index, model):
    index.renew()
    return model


def compact(index, model):
    index.compact()
    return model


def compact_twice(index, model):
    index.compact()
    index.compact()
    return model


def save(index, model):
    index.save(index_place(index) / "copy")
    return model


def index_place(index):
    return Path(repr(index).rsplit(", ", 1)[1].rstrip(")")).parent


CHANGES = (add, add_without_ids, remove, renew, compact, compact_twice, save)
BASES = ("new", "waiting", "started")


@pytest.fixture(scope="module")
def bases():
    """bases[name]: a folder with an index, and its model."""
    folder, found = Path(tempfile.mkdtemp(dir=MEMORY)), {}
    for name, count in zip(BASES, (0, 40, 150)):
        model = Model(keep_rows=True)
        with StreamIndex.open(folder / name / "index", **SETTINGS) as index:
            for start in range(0, count, 50):
                rows = made(start, min(50, count - start))
                index.add(rows, note=start)
                model = model.after_add(rows, note=start)
            if name == "started":
                index.renew()
                index.remove([3, 4])
                model = model.after_remove([3, 4])
        found[name] = folder / name, model
    yield found
    shutil.rmtree(folder)


@pytest.fixture
def copied(bases):
    """copied(name): a copy of one of them, to break."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY))

    def copy(name):
        shutil.rmtree(folder)
        shutil.copytree(bases[name][0], folder)
        return folder / "index", bases[name][1]

    yield copy
    shutil.rmtree(folder)


def with_snapshots():
    """Have the present store write a snapshot with every change; another needs nothing here."""
    return mock.patch.object(index_folder, "JOURNALLED", 1)


CASES = [(change, base, often) for change in CHANGES for base in BASES[1:] for often in (0, 1)]
if SLOW:
    POINTS = 1 << 30
else:
    CASES = [(add, "waiting", 0), (add, "started", 1), *((c, "started", 0) for c in CHANGES)]
    POINTS = 4  # of a change, some over all
every_case = pytest.mark.parametrize(
    ("change", "base", "often"),
    [case for case in CASES if case[:2] != (renew, "waiting")],
    ids=lambda part: getattr(part, "__name__", str(part)),
)


def points(change, place, model):
    """How many calls a change makes, and the model after it."""
    calls, index = Calls(), StreamIndex.open(place)
    with calls.watching():
        after = change(index, model)
    index.close()
    return range(1, calls.count + 1, 1 + calls.count // POINTS), after


def check_either(place, models, *, goes_on=True):
    """It is one of these states, and goes on."""
    with StreamIndex.open(place) as index:
        model = check_one(index, models)
        if not goes_on:
            return
        rows = made(9, 5)
        index.add(rows, range(5))
        model = model.after_add(rows, range(5))
        index.compact()
        model.check(index)
    with StreamIndex.open(place, read_only=True) as index:
        model.check(index)


def check_one(index, models):
    """The state that an index has, of these."""
    told = (index.seen, index.removed, index.note)
    same = [model for model in models if told == (model.seen, model.removed, model.note)]
    assert same, f"a state that never was: {told}"
    same[0].check(index)
    return same[0]


def grown(place, before, synced):
    """Files that were written to, how much of each is on the disk, and their lengths.

    before: what `files` told before; synced: what was brought to the disk since.
    """
    lines = synced.read_text().splitlines() if synced.exists() else []
    done = dict(tuple(map(int, line.split())) for line in lines)
    return [
        (path, max(before[path][0], done.get(number, 0)), size)
        for path, (size, number) in files(place).items()
        if path in before
        and before[path][1] == number
        and max(before[path][0], done.get(number, 0)) < size
    ]


def files(place):
    stats = {path: path.stat() for path in place.rglob("*") if path.is_file()}
    return {path: (stat.st_size, stat.st_ino) for path, stat in stats.items()}


def torn(place, found):
    """What a power cut can leave of what was written last and never brought to the disk."""
    yield "as it is"
    for original, old, new in found:
        path = place / original.name
        content = path.read_bytes()
        for how, tail in (
            ("zeros at its end", content[old : (old + new) // 2].ljust(new - old, b"\0")),
            ("nothing but zeros", bytes(new - old)),
            ("cut", content[old : (old + new) // 2]),
            ("a flipped bit", content[old:-1] + bytes([content[-1] ^ 1])),
            ("zeros behind it", content[old:] + bytes(4096)),
        ):
            path.write_bytes(content[:old] + tail)
            yield f"{path.name}: {how}"
        path.write_bytes(content)


@every_case
def test_the_process_dies_at_any_call(change, base, often, copied):
    with with_snapshots() if often else nullcontext():
        check_that_any_call_is_the_last(change, base, copied)


def check_that_any_call_is_the_last(change, base, copied):
    place, model = copied(base)
    numbers, after = points(change, place, model)
    for number in numbers:
        place, _ = copied(base)
        before, synced = files(place), place.with_name("synced")

        def work(place=place, number=number, synced=synced):
            index = StreamIndex.open(place)
            with Calls(number, die, synced).watching():
                change(index, model)

        assert in_child(work) == "failed", f"it made fewer than {number} calls"
        whole, written = place.with_name("whole"), grown(place, before, synced)
        shutil.copytree(place, whole)
        for how in torn(whole, written):
            shutil.rmtree(place)
            shutil.copytree(whole, place)
            try:
                check_either(place, [model, after], goes_on=how == "as it is")
            except BaseException as error:
                raise AssertionError(f"call {number}, {how}") from error


@pytest.mark.parametrize("act", [fail_once, fail_from_then_on], ids=lambda act: act.__name__)
@every_case
def test_any_call_fails(change, base, often, act, copied):
    with with_snapshots() if often else nullcontext():
        check_that_any_call_fails(change, base, act, copied)


def check_that_any_call_fails(change, base, act, copied):
    place, model = copied(base)
    numbers, after = points(change, place, model)
    for number in numbers:
        place, _ = copied(base)
        index = StreamIndex.open(place)
        try:
            with Calls(number, act).watching():
                change(index, model)
            models = [after]
        except StorageError:
            models = [model]
        try:
            if index.closed:
                index.close()
                check_either(place, [model, after])
                continue
            model_now = check_one(index, models)
            rows = made(10, 3)
            index.add(rows, ["a", "b", "c"] if model_now.has_texts else [1, 60, 61])
            model_now = model_now.after_add(rows, [1, 60, 61])
            model_now.check(index)
            index.close()
            check_either(place, [model_now])
        except BaseException as error:
            raise AssertionError(f"call {number}") from error


def test_the_first_opening_dies_or_fails_at_any_call():
    folder = Path(tempfile.mkdtemp(dir=MEMORY))
    with Calls().watching() as calls:
        StreamIndex.open(folder / "index", **SETTINGS).close()
    for number in range(1, calls.count + 1, 1 + calls.count // POINTS):
        place = folder / str(number)

        def work(place=place, number=number):
            with Calls(number, die).watching():
                StreamIndex.open(place, **SETTINGS).close()

        in_child(work)
        (place / "lost+found").mkdir(parents=True, exist_ok=True)
        with suppress(StorageError), Calls(number, fail_once).watching():
            StreamIndex.open(place, **SETTINGS).close()
        StreamIndex.open(place, **SETTINGS).close()
        check_either(place, [Model(keep_rows=True)])
    shutil.rmtree(folder)


def test_a_first_add_that_fails_leaves_nothing_behind(copied):
    """Also not the number of columns."""
    for number in range(1, 4):
        place, model = copied("new")
        index = StreamIndex.open(place)
        with suppress(StorageError), Calls(number, fail_once).watching():
            index.add(np.ones((5, 9), np.float32))
        if not len(index):
            rows = made(0, 100)
            index.add(rows)
            model.after_add(rows).check(index)
        index.close()
