"""Whose a folder is: a job that has kept nothing gives way to another, any other does not."""

import json
import os
import stat
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

import streambits as sb
from streambits._digests import seal
from streambits.errors import StorageError
from streambits.io.codes.parquet import write_codes
from streambits.jobs.folder import Checkpoint, JobFolder
from streambits.model.batches import CodeBatch

ONE, OTHER = {"settings": {"bits": 9}}, {"settings": {"bits": 8}}
NOTHING = {"rows": 0, "bytes": 0, "rejects": 0, "size": 0, "crc": 0}


def codes(folder, count):
    """The file that a sink leaves, with so many codes."""
    (folder / "codes").mkdir(parents=True, exist_ok=True)
    some = sb.Codes.from_bits(np.ones((count, 9), bool))
    parts = [CodeBatch(np.arange(count), some)] if count else []
    write_codes(parts, 9, folder / "codes" / "part-000000.parquet")


def begin(path, counts=NOTHING):
    """A job that has made its first checkpoint, and ended then."""
    with JobFolder(path, ONE) as folder:
        codes(path, 0)
        folder.commit(Checkpoint(None, {"bits": 9}, counts, {}, ended=False))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "job"


def test_one_that_has_kept_nothing_gives_way(path):
    begin(path)
    (path / "codes" / ".part-000000.parquet.7.7.new").touch()  # of one that was killed
    with JobFolder(path, OTHER) as folder:
        assert folder.checkpoint() is None
    assert JobFolder(path).description()["settings"] == {"bits": 8}
    with JobFolder(path, ONE):  # and so does the other
        assert JobFolder(path).description()["settings"] == {"bits": 9}


def test_the_same_job_goes_on_from_its_first_checkpoint(path):
    begin(path)
    with JobFolder(path, ONE) as folder:
        assert folder.checkpoint().sink == {"bits": 9}


@pytest.mark.parametrize("name", NOTHING)
def test_one_that_has_committed_does_not(path, name):
    begin(path, NOTHING | {name: 1})
    with pytest.raises(StorageError, match="another job: bits is 9 there and 8 here"):
        JobFolder(path, OTHER).__enter__()
    with JobFolder(path, ONE) as folder:
        assert folder.checkpoint().counts[name] == 1


@pytest.mark.parametrize(
    "name",
    [
        *("model.safetensors", "coders.safetensors", "x.safetensors"),  # without a checkpoint
        *("checkpoint.safetensors", "codes/part-000000.parquet", "codes/part-000001.parquet"),
    ],
)
def test_nor_one_with_a_model_with_codes_or_of_which_it_cannot_be_told(path, name):
    if name.startswith("c") and name != "coders.safetensors":
        begin(path)
    else:
        with JobFolder(path, ONE):
            pass
    if name == "codes/part-000001.parquet":
        codes(path, 1)
    else:
        (path / name).write_bytes(b"rubbish")
    with pytest.raises(StorageError, match="belongs to another job"):
        JobFolder(path, OTHER).__enter__()
    assert name.endswith("1.parquet") or (path / name).read_bytes() == b"rubbish"


def test_nor_one_that_is_running(path):
    with (
        JobFolder(path, ONE),
        pytest.raises(StorageError, match=r"this process \(\d+\) works on the job"),
    ):
        JobFolder(path, OTHER).__enter__()
    assert JobFolder(path).description()["settings"] == {"bits": 9}


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "{", "7", "[" * 5000 + "]" * 5000, '{"a":' * 900 + "1" + "}" * 900),
        *('{"settings": null}', '{"names": {"model": 5}}', '{"verb": {}}', '{"sink": ["a"]}'),
        *('{"source": {"files": [[]]}}', '{"source": {"files": 5}}'),
        '{"seed": ' + "9" * 10_000 + "}",
    ],
)
def test_a_description_with_odd_values_is_told(path, text):
    path.mkdir()
    # whoever made it knew how digests are made; Python 3.14 reads lists as deep as these
    with suppress(ValueError, TypeError, RecursionError):
        text = seal(json.loads(text)).decode()
    (path / "job.json").write_text(text)
    with pytest.raises(StorageError, match=r"job\.json is damaged \(.* or choose another folder"):
        JobFolder(path, ONE).__enter__()
    with pytest.raises(StorageError, match="is damaged"):
        JobFolder(path).description()


def test_a_lock_that_is_a_link_is_not_followed(path):
    path.mkdir()
    victim = path.parent / "victim"
    victim.write_text("precious")
    (path / "lock").symlink_to(victim)
    with pytest.raises(StorageError, match=r"lock must be a file of our own"):
        JobFolder(path, ONE).__enter__()
    assert victim.read_text() == "precious"


def test_a_lock_that_was_removed_ends_the_job_at_its_next_commit(path):
    with JobFolder(path, ONE) as first:
        (path / "lock").unlink()
        with JobFolder(path, ONE) as second:
            with pytest.raises(StorageError, match=r"lock, which kept others out, was removed"):
                first.commit(Checkpoint(None, None, NOTHING, {}))
            second.commit(Checkpoint(None, None, NOTHING, {}))
        assert not (path / "lock").exists()
        assert first.checkpoint() is not None


def gone():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_killed_processes_left_is_removed_and_what_others_write_stays(path):
    begin(path)
    mine, dead, alive = os.getpid(), gone(), os.getppid()
    left = [f".model.safetensors.{mine}.{threading.get_ident()}.new", f".x.index.{dead}.7.new"]
    for name in left:
        (path / name).touch()
    (path / f".new.{dead}.new" / "codes").mkdir(parents=True)
    (path / f".far.{2**70}.new").mkdir()
    (path / f".x.index.{alive}.7.new").touch()
    (path / ".notes.new").mkdir()
    with JobFolder(path, ONE):
        there = {file.name for file in path.glob(".*")}
        assert there == {f".x.index.{alive}.7.new", ".notes.new"}


def test_another_model_is_not_a_checkpoint(path, learner):
    with JobFolder(path, ONE) as folder:
        sb.save(learner.coder(), path / "checkpoint.safetensors")
        with pytest.raises(
            StorageError, match=r"checkpoint\.safetensors holds a Coder, not a check"
        ):
            folder.checkpoint()


def test_a_checkpoint_that_gives_way_is_gone_from_the_disk_before_another_job_is_named(
    path, monkeypatch
):
    """Otherwise a power cut could leave the checkpoint of one job under the name of another."""
    begin(path)
    events, fsync, replace, unlink = [], os.fsync, os.replace, os.unlink

    def noting(what, act, of):
        def noted(first, *others, **more):
            events.append((what, of(first, *others)))
            return act(first, *others, **more)

        return noted

    monkeypatch.setattr(os, "fsync", noting("fsync", fsync, lambda d: os.fstat(d).st_ino))
    monkeypatch.setattr(os, "replace", noting("rename", replace, lambda _, b: os.path.basename(b)))
    monkeypatch.setattr(os, "unlink", noting("remove", unlink, os.path.basename))
    with JobFolder(path, OTHER):
        pass
    removed = events.index(("remove", "checkpoint.safetensors"))
    named = events.index(("rename", "job.json"))
    assert ("fsync", path.stat().st_ino) in events[removed:named]


def test_a_checkpoint_is_for_its_owner_alone(tmp_path):
    """It holds rows as they came."""
    with JobFolder(tmp_path / "job", {"verb": "learn"}) as folder:
        folder.commit(Checkpoint(None, None, {"rows": 0}, {}))
    assert stat.S_IMODE((tmp_path / "job" / "checkpoint.safetensors").stat().st_mode) == 0o600
