"""Arrays: .npy, .npz, .fvecs and .bvecs."""

import os
import re
import struct
import zipfile

import numpy as np
import pytest

from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.rows import open_source

ROWS = np.arange(20.0).reshape(10, 2)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        *(("<f4", "f4"), (">f4", "f4"), ("f8", "f8"), ("f2", "f4"), ("u1", "f4"), ("i2", "f4")),
        *((">i4", "f8"), ("u8", "f8"), ("?", "f4")),
    ],
)
def test_types_follow_the_rule_of_rows(tmp_path, gather, order, dtype, kept):
    rows = np.array(np.arange(30).reshape(10, 3) % 2, dtype, order=order)
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "a.npz", rows)
    for name in ("a.npy", "a.npz"):
        _, found, _ = gather(open_source(tmp_path / name, rows=4).read())
        assert found.dtype == kept
        assert found.flags.c_contiguous
        assert np.array_equal(found, rows)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"shape \(3,\); it should be two-dimensional"),
        (np.zeros((3, 0)), r"shape \(3, 0\)"),
        (np.zeros((3, 2, 1)), r"shape \(3, 2, 1\)"),
        (np.zeros((3, 2), complex), "complex128, which is not numeric"),
        (np.zeros((3, 2), "U3"), "<U3, which is not numeric"),
        (np.full((3, 2), None), "object, which is not numeric"),
    ],
)
def test_arrays_that_are_no_rows_of_numbers(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=array)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match=f"{name} .*{message}"):
            list(open_source(tmp_path / name).read())


@pytest.mark.parametrize("order", "CF")
def test_a_file_that_is_cut_off_says_in_which_row(tmp_path, gather, drain, order):
    path = tmp_path / "a.npy"
    np.save(path, np.array(np.arange(30.0).reshape(10, 3), order=order))
    path.write_bytes(path.read_bytes()[:-40])  # in row 8
    batches, error = drain(open_source(str(path), rows=4).read())
    if order == "F":
        assert str(error).startswith(f"{path} cannot be read as .npy from row 0 on: ")
        return
    assert str(error) == f"{path} is cut off: it ends in row 8 of 10"
    assert gather(batches)[0] == list(range(8))


def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(tmp_path):
    """One that is mapped would end the process by SIGBUS."""
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((40_000, 16)))
    batches = iter(open_source(str(path), rows=500).read())
    next(batches)
    os.truncate(path, 200_000)
    with pytest.raises(StorageError, match=r"a.npy is cut off: it ends in row \d+ of 40000"):
        list(batches)


def test_a_head_that_lies_is_refused_before_there_is_memory_for_it(tmp_path):
    for order in (False, True):
        head = {"descr": "<f8", "fortran_order": order, "shape": (1 << 40, 1 << 30)}
        with (tmp_path / "a.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, head)
            file.write(bytes(100))
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.write(tmp_path / "a.npy", "X.npy")
        for name in ("a.npy", "a.npz"):
            with pytest.raises(StorageError, match="has rows of 8,589,934,592 bytes: at most"):
                list(open_source(tmp_path / name).read())


@pytest.mark.parametrize(
    "head",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3, -2)}",
        "{1: 2, 'descr': 3, (4,): 5}",
        "{[]: 1}",
        "(" * 3000,
        "{'descr': 'nothing', 'fortran_order': False, 'shape': (3, 2)}",
    ],
)
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_heads_that_are_wrong(tmp_path, head, name):
    path, text = tmp_path / name, head.encode() + b"\n"
    content = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(48)
    if name == "a.npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(StorageError, match=rf"{name} cannot be read as .np.: "):
        list(open_source(str(path)).read())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_which_array_of_an_archive_is_taken(tmp_path, gather, save):
    def read(**options):
        ids, rows, _ = gather(open_source(tmp_path / "a.npz", rows=3, **options).read())
        return ids, rows

    save(tmp_path / "a.npz", X=ROWS, Y=ROWS + 1, ids=np.arange(10) * 5)
    assert np.array_equal(read()[1], ROWS)
    assert np.array_equal(read(columns=["Y"])[1], ROWS + 1)
    assert read(ids="ids")[0] == list(range(0, 50, 5))
    save(tmp_path / "a.npz", only=ROWS, ids=np.arange(10))
    assert np.array_equal(read()[1], ROWS)
    assert open_source(tmp_path / "a.npz").length == 10


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"a": ROWS, "b": ROWS}, {}, r"has 2 arrays .* none named X.* a \(10, 2\), b \(10, 2\)"),
        ({"a": ROWS[0]}, {}, "has 0 arrays of two dimensions"),
        ({"a": ROWS}, {"columns": ["c"]}, "has no array 'c'; it has a"),
        ({"a": ROWS}, {"ids": "c"}, "has no array 'c'; it has a"),
        ({"a": ROWS, "i": np.arange(9)}, {"ids": "i"}, r"'i' has the shape \(9,\), not \(10,\)"),
        ({"a": ROWS, "i": np.ones(10)}, {"ids": "i"}, "'i' have the type float64; they must be"),
        ({"a": ROWS, "i": np.full(10, None)}, {"ids": "i"}, "'i' have the type object"),
        ({"a": ROWS}, {"columns": ["a", "b"]}, "columns must name one array"),
        ({"a": ROWS}, {"ids": "a", "removed": "b"}, "not a table: leave out removed and keep"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, options, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=f"a.npz.*{message}"):
        list(open_source(tmp_path / "a.npz", **options).read())


def test_texts_in_an_archive(tmp_path, gather):
    rows = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "1.npz", X=rows, i=np.array(["a", "", "ccc"]))
    np.savez(tmp_path / "2.npz", X=rows, i=np.arange(3))
    ids, found, rejects = gather(open_source(tmp_path, ids="i", rows=2).read())
    assert (ids, found.tolist()) == (["a", "ccc"], [[0, 1], [4, 5]])
    assert [reject.reason for reject in rejects] == [
        "the id is missing",
        *(f"the id {i} is not a text, as those before it are" for i in range(3)),
    ]


def test_damage_in_an_archive(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=ROWS)
    whole = path.read_bytes()
    central = whole.index(b"PK\1\2")
    for damage in ([250], [central + 8, 6], [central + 10, 8]):  # content, encrypted, unknown
        content = bytearray(whole)
        for place in damage:
            content[place] ^= 77
        path.write_bytes(content)
        with pytest.raises(StorageError, match=r"a.npz cannot be read as .npz"):
            list(open_source(str(path)).read())


def record(*numbers, kind="f"):
    return struct.pack(f"<i{len(numbers)}{kind}", len(numbers), *numbers)


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
        batches, error = drain(open_source(str(path), rows=most).read())
        assert re.search(f"a.fvecs.*{message}", str(error))
        assert gather(batches)[0] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\1", "is not a file of vectors: record 0"),
        (bytes(4), "is not a file of vectors: record 0"),
        (b"\xff" * 40, "is not a file of vectors: record 0"),
        (b"\xff\xff\xff\x7f" * 9, "is not a file of vectors: record 0"),
        ((1 << 20).to_bytes(4, "little") + bytes(100), "is cut off in record 0"),
    ],
)
def test_records_that_are_none(read, content, message):
    with pytest.raises(StorageError, match=f"a.fvecs.*{message}"):
        read("a.fvecs", content)


@pytest.mark.parametrize("name", ["C.npy", "Fortran.npy", "a.fvecs", "stored.npz"])
def test_batches_are_bounded_by_bytes_and_names_refused(write, tmp_path, monkeypatch, name):
    rows = np.arange(3000.0, dtype=np.float32).reshape(300, 10)
    write(tmp_path / name, rows)
    monkeypatch.setattr("streambits.io.rows.inputs.LARGEST_BATCH", 400)
    batches = list(open_source(str(tmp_path / name)).read())
    assert max(len(batch.rows) for batch in batches) in (9, 10)
    assert np.array_equal(np.concatenate([batch.rows for batch in batches]), rows)
    with pytest.raises(StreambitsError, match=r"no columns with names|not a table"):
        open_source(str(tmp_path / name), keep="a")
