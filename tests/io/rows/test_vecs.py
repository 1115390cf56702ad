import re
import struct

import numpy as np
import pytest

from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source


def record(*numbers, kind="f"):
    return struct.pack(f"<i{len(numbers)}{kind}", len(numbers), *numbers)


def test_floats_and_bytes_become_single_precision(read):
    _, rows, _ = read("a.fvecs", record(0.5, 2) + record(3, 4))
    assert (rows.tolist(), rows.dtype) == ([[0.5, 2], [3, 4]], np.float32)
    _, rows, _ = read("a.bvecs", record(255, 2, kind="B") + record(3, 4, kind="B"))
    assert (rows.tolist(), rows.dtype) == ([[255, 2], [3, 4]], np.float32)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (record(1, 2) * 5 + record(1), r"record 5: it should have 2 numbers .* says 1"),
        (record(1, 2) * 5 + record(1, 2, 3), r"record 5: it should have 2 numbers .* says 3"),
        (record(1, 2) * 5 + record(1, 2)[:-1], r" is cut off in record 5"),
        (record(1, 2) * 5 + b"\2", r" is cut off in record 5"),
    ],
)
def test_records_before_a_wrong_one_are_handed_out(tmp_path, gather, drain, content, message):
    path = tmp_path / "a.fvecs"
    path.write_bytes(content)
    for most in (1, 2, 5, 6, 100):
        chunks, error = drain(open_source(str(path), rows=most).read())
        assert re.search(f"a.fvecs.*{message}", str(error))
        assert gather(chunks)[0] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("content", [b"\1", b"\0\0\0\0", b"\xff" * 40, b"\xff\xff\xff\x7f" * 9])
def test_heads_that_are_no_length(read, content):
    with pytest.raises(StorageError, match=r"a.fvecs is not a file of vectors: record 0"):
        read("a.fvecs", content)


def test_length_of_nothing_and_names(tmp_path):
    path = tmp_path / "a.fvecs"
    path.write_bytes(b"")
    assert open_source(str(path)).length == 0
    path.write_bytes(record(1, 2) * 3)
    assert open_source(str(path)).length == 3
    with pytest.raises(InputError, match="no columns with names"):
        open_source(str(path), ids="a")


@pytest.mark.parametrize(("name", "width"), [("a.fvecs", 1 << 20), ("a.bvecs", 200)])
def test_a_record_that_is_longer_than_its_file_is_refused(tmp_path, name, width):
    path = tmp_path / name
    path.write_bytes(width.to_bytes(4, "little") + bytes(100))
    with pytest.raises(StorageError, match=rf"record 0 has {width:,} numbers, .* the file has 104"):
        list(open_source(str(path)).read())


def test_chunks_are_bounded_by_bytes(write, tmp_path, monkeypatch):
    rows = np.arange(300, dtype=np.float32).reshape(30, 10) % 200
    monkeypatch.setattr("streambits.io.rows.inputs.LARGEST_BATCH", 180)
    for name, count in (("a.fvecs", 4), ("a.bvecs", 3)):
        write(tmp_path / name, rows)
        chunks = list(open_source(str(tmp_path / name)).read())
        assert max(len(chunk.rows) for chunk in chunks) == count
        assert np.array_equal(np.concatenate([chunk.rows for chunk in chunks]), rows)
