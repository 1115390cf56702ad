"""One process at a time, whatever happened to the others and to the file."""

import os
import subprocess
import sys

import pytest

from streambits._locks import Lock, is_held
from streambits.errors import StorageError

HOLD = """
import sys
from pathlib import Path
from streambits._locks import Lock
lock = Lock(Path(sys.argv[1]), "writes here", "wait")
print("held", flush=True)
sys.stdin.read()
"""


def take(path):
    return Lock(path, "writes to x", "wait, or choose another sink")


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".x.lock"


@pytest.fixture
def other(path):
    """Another process that holds the lock."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, path], **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_it_is_exclusive_and_leaves_nothing(path):
    path.write_text("9" * 19)  # left by one that was killed
    lock = take(path)
    assert path.read_text() == str(os.getpid())
    assert is_held(path)
    with pytest.raises(StorageError, match=r"^this process \(\d+\) writes to x: wait, or choose"):
        take(path)
    lock.check()
    lock.release()
    lock.release()
    assert not path.exists()
    assert not is_held(path)
    take(path).release()


def test_another_process_is_named_and_its_end_ends_the_lock(path, other):
    with pytest.raises(StorageError, match=rf"^another process \({other.pid}\) writes to x: wait"):
        take(path)
    other.kill()
    other.wait()
    assert path.read_text() == str(other.pid)  # what it left is no obstacle
    assert not is_held(path)
    take(path).release()


def test_a_file_that_was_removed_by_hand_is_noticed_by_who_held_it(path, other):
    path.unlink()
    lock = take(path)  # nothing tells of the other
    path.unlink()
    for again in (lambda: None, lambda: path.write_text("7")):
        again()
        with pytest.raises(StorageError, match=r"was removed or replaced while this process ran"):
            lock.check()
    lock.release()
    assert path.read_text() == "7"  # which is not ours


def test_one_that_waits_at_a_file_that_is_let_go_takes_the_next(path, monkeypatch):
    """Between the opening and the locking of a file its holder may remove it."""
    first, opened = take(path), []
    real = os.open

    def open_(*arguments):
        found = real(*arguments)
        if not opened:
            opened.append(found)
            first.release()
        return found

    monkeypatch.setattr(os, "open", open_)
    second = take(path)
    second.check()
    assert path.read_text() == str(os.getpid())
    second.release()


def test_a_child_that_was_forked_does_not_let_go(path):
    lock = take(path)
    child = os.fork()
    if not child:
        lock.release()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    lock.check()
    assert is_held(path)
    lock.release()


@pytest.mark.parametrize("how", ["symlink", "link", "text", "folder", "pipe", "long"])
def test_what_is_not_a_lock_is_left_as_it_is(path, how, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("7" if how == "link" else "precious")
    if how == "symlink":
        path.symlink_to(victim)
    elif how == "link":
        path.hardlink_to(victim)
    elif how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("7" * 40 if how == "long" else "mine")
    before = victim.read_text(), path.lstat().st_mode
    with pytest.raises((StorageError, IsADirectoryError), match=r"it is something else|directory"):
        take(path)
    assert (victim.read_text(), path.lstat().st_mode) == before
    assert how != "text" or path.read_text() == "mine"


def test_everything_is_imported_where_there_are_no_such_locks():
    code = (
        "import sys; sys.modules['fcntl'] = None\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'fcntl' else find(name, *rest)\n"
        "import streambits.cli.app, tempfile, pathlib\n"
        "from streambits.jobs.folder import JobFolder; from streambits.io.codes import open_sink\n"
        "from streambits import Codes; import numpy as np\n"
        "place = pathlib.Path(tempfile.mkdtemp())\n"
        "sink = open_sink(place / 'x', 3); sink.write([1], Codes.from_bits([[1, 0, 1]]))\n"
        "sink.close(); print([path.name for path in (place / 'x').iterdir()])\n"
        "try: JobFolder(place / 'job', {}).__enter__()\n"
        "except Exception as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "['part-000000.parquet']" in run.stdout
    assert "which needs Linux, macOS or another Unix" in run.stdout
