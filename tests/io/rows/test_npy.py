import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        ("<f4", "f4"),
        (">f4", "f4"),
        ("f8", "f8"),
        ("f2", "f4"),
        ("u1", "f4"),
        ("i2", "f4"),
        (">i4", "f8"),
        ("u8", "f8"),
        ("?", "f4"),
    ],
)
def test_types_follow_the_rule_of_rows(tmp_path, gather, order, dtype, kept):
    rows = np.array(np.arange(30).reshape(10, 3) % 2, dtype, order=order)
    np.save(tmp_path / "a.npy", rows)
    _, found, _ = gather(open_source(str(tmp_path / "a.npy"), rows=4).read())
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
    with pytest.raises(InputError, match=f"a.npy .*{message}"):
        list(open_source(str(tmp_path / "a.npy")).read())


def test_names_have_no_meaning(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    for options in ({"columns": ["a"]}, {"ids": "a"}):
        with pytest.raises(InputError, match=r"a.npy has no columns with names"):
            open_source(str(tmp_path / "a.npy"), **options)


@pytest.mark.parametrize("order", "CF")
def test_a_file_that_is_cut_off_says_in_which_row(tmp_path, gather, drain, order):
    path = tmp_path / "a.npy"
    np.save(path, np.array(np.arange(30.0).reshape(10, 3), order=order))
    path.write_bytes(path.read_bytes()[:-40])  # C: in row 8; Fortran: column 2 has 5 of 10
    row = 8 if order == "C" else 5
    chunks, error = drain(open_source(str(path), rows=4).read())
    assert str(error) == f"{path} is cut off: it ends in row {row} of 10"
    assert gather(chunks)[0] == list(range(row))


def test_length_and_a_file_that_is_not_there(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    source = open_source(str(tmp_path / "a.npy"))
    assert source.length == 3
    (tmp_path / "a.npy").unlink()
    assert source.length is None
    with pytest.raises(StorageError, match=r"a.npy does not exist"):
        list(source.read())
    assert source.identity()["files"] == [[str(tmp_path / "a.npy")]]


def test_a_head_that_lies_is_refused_before_there_is_memory_for_it(tmp_path):
    path = tmp_path / "a.npy"
    for order in (False, True):
        head = {"descr": "<f8", "fortran_order": order, "shape": (1 << 40, 1 << 30)}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, head)
            file.write(bytes(100))
        tracemalloc.start()
        with pytest.raises(StorageError, match="a row has 8,589,934,592 bytes, and the file 228"):
            list(open_source(str(path)).read())
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
        tracemalloc.stop()


def test_chunks_are_bounded_by_bytes(tmp_path, monkeypatch):
    rows = np.arange(3000.0).reshape(300, 10)
    np.save(tmp_path / "a.npy", rows)
    monkeypatch.setattr("streambits.io.rows.inputs.LARGEST_BATCH", 800)
    chunks = list(open_source(str(tmp_path / "a.npy")).read())
    assert [len(chunk.rows) for chunk in chunks] == [10] * 30
    assert np.array_equal(np.concatenate([chunk.rows for chunk in chunks]), rows)


ROWS = np.arange(20.0).reshape(10, 2)


def read_npz(gather, path, **options):
    ids, rows, _ = gather(open_source(str(path), rows=3, **options).read())
    return ids, rows


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_which_array_is_taken(tmp_path, gather, save):
    path = tmp_path / "a.npz"
    save(path, X=ROWS, Y=ROWS + 1, ids=np.arange(10) * 5)
    assert np.array_equal(read_npz(gather, path)[1], ROWS)
    assert np.array_equal(read_npz(gather, path, columns=["Y"])[1], ROWS + 1)
    assert read_npz(gather, path, ids="ids")[0] == list(range(0, 50, 5))
    save(path, only=ROWS, ids=np.arange(10))
    assert np.array_equal(read_npz(gather, path)[1], ROWS)
    assert open_source(str(path)).length == 10


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"a": ROWS, "b": ROWS}, {}, r"has 2 arrays .* none named X.* a \(10, 2\), b \(10, 2\)"),
        ({"a": ROWS[0]}, {}, "has 0 arrays of two dimensions"),
        ({"a": ROWS}, {"columns": ["c"]}, "has no array 'c'; it has a"),
        ({"a": ROWS}, {"ids": "c"}, "has no array 'c'; it has a"),
        ({"a": ROWS, "i": np.arange(9)}, {"ids": "i"}, r"'i' has the shape \(9,\), not \(10,\)"),
        ({"a": ROWS, "i": np.ones(10)}, {"ids": "i"}, "'i' have the type float64"),
        ({"a": ROWS}, {"columns": ["a", "b"]}, "columns must name one array"),
        ({"X": ROWS[0]}, {}, "should be two-dimensional"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, options, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=f"a.npz.*{message}"):
        list(open_source(str(tmp_path / "a.npz"), **options).read())


def test_a_wrong_byte_in_the_archive_is_found(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=ROWS)
    content = bytearray(path.read_bytes())
    content[250] ^= 255
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"a.npz cannot be read as .npz.*: Bad CRC"):
        list(open_source(str(path)).read())


def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(tmp_path):
    """One that is mapped would end the process by SIGBUS."""
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((40_000, 16)))
    batches = iter(open_source(str(path), rows=500).read())
    next(batches)
    os.truncate(path, 200_000)
    with pytest.raises(StorageError, match=r"a.npy is cut off: it ends in row \d+ of 40000"):
        list(batches)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2)}", r"shape \(-3, 2\)"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3, -2)}", r"shape \(3, -2\)"),
        ("{1: 2, 'descr': 3, (4,): 5}", ""),
        ("{[]: 1}", ""),
        ("(" * 3000, ""),
        ("{'descr': 'nothing', 'fortran_order': False, 'shape': (3, 2)}", ""),
    ],
)
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_heads_that_are_wrong(tmp_path, head, reason, name):
    path, text = tmp_path / name, head.encode() + b"\n"
    content = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(48)
    if name == "a.npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(StorageError, match=rf"{name} cannot be read as .np.: .*{reason}"):
        list(open_source(str(path)).read())


def test_an_archive_that_is_encrypted_or_packed_in_an_unknown_way(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=ROWS)
    whole = path.read_bytes()
    central = whole.index(b"PK\1\2")
    for offset, value in ((8, 1), (10, 77)):  # the flags, and the method
        content = bytearray(whole)
        content[central + offset] = content[offset - 2] = value
        path.write_bytes(content)
        with pytest.raises(StorageError, match=r"a.npz cannot be read as .npz"):
            list(open_source(str(path)).read())


@pytest.mark.parametrize("ids", [np.full(10, None), np.ones(10, "S2"), np.ones(10, "M8[s]")])
def test_ids_of_other_types(tmp_path, ids):
    np.savez(tmp_path / "a.npz", X=ROWS, i=ids)
    with pytest.raises(InputError, match=r"a.npz: the ids 'i' have the type .*must be integers"):
        list(open_source(str(tmp_path / "a.npz"), ids="i").read())
