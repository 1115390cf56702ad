import tracemalloc

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
