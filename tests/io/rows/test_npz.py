import numpy as np
import pytest

from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source

ROWS = np.arange(20.0).reshape(10, 2)


def of(gather, path, **options):
    ids, rows, _ = gather(open_source(str(path), rows=3, **options).read())
    return ids, rows


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_which_array_is_taken(tmp_path, gather, save):
    path = tmp_path / "a.npz"
    save(path, X=ROWS, Y=ROWS + 1, ids=np.arange(10) * 5)
    assert np.array_equal(of(gather, path)[1], ROWS)
    assert np.array_equal(of(gather, path, columns=["Y"])[1], ROWS + 1)
    assert of(gather, path, ids="ids")[0] == list(range(0, 50, 5))
    save(path, only=ROWS, ids=np.arange(10))
    assert np.array_equal(of(gather, path)[1], ROWS)
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
