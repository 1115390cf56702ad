"""What reaches the disk, and in which order: after a power cut there is the old file or the new."""

import os

import pytest

from streambits._files import make_folder, replacing, sync_folder
from streambits.errors import StorageError


@pytest.fixture
def events(monkeypatch):
    """What is brought to the disk and renamed, as (what, inode or name)."""
    found, fsync, replace = [], os.fsync, os.replace

    def note_fsync(descriptor):
        found.append(("fsync", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    def note_replace(source, target, **more):
        found.append(("rename", os.path.basename(target)))
        replace(source, target, **more)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    return found


def test_a_file_is_on_the_disk_before_its_name_and_both_at_the_end(events, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert (path.read_bytes(), events) == (b"old", [])
    assert path.read_bytes() == b"new"
    assert events == [
        ("fsync", path.stat().st_ino),
        ("rename", "file"),
        ("fsync", tmp_path.stat().st_ino),
    ]


def test_what_goes_wrong_leaves_the_old_file_and_no_other(events, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(StorageError, match="file cannot be written: No space"), replacing(path):
        raise OSError(28, "No space left on device")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
    assert events == []


def test_the_names_in_a_folder_are_brought_to_the_disk(events, tmp_path):
    sync_folder(tmp_path)
    assert events == [("fsync", tmp_path.stat().st_ino)]


def test_new_folders_have_their_names_brought_to_the_disk(events, tmp_path):
    make_folder(tmp_path / "a" / "b")
    synced = {inode for _, inode in events}
    assert {tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino} <= synced
    events.clear()
    make_folder(tmp_path / "a" / "b")
    assert events == []
