"""Bodies that would grow when they are read, and those at the edge of what is allowed."""

import numpy as np
import pyarrow as pa
import pytest

from streambits.errors import InputError
from streambits.service import bodies

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def stream(table, **options):
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table)
    return out.getvalue().to_pybytes()


def table(rows=ROWS, ids=(1, 2, 3), kind=None):
    lists = pa.array(np.asarray(rows).tolist(), kind or pa.list_(pa.float64()))
    return pa.table({"id": pa.array(ids), "v": lists})


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.int8()])
@pytest.mark.parametrize("large", [False, True])
def test_arrow_of_any_numbers(kind, large):
    listed = pa.large_list(kind) if large else pa.list_(kind)
    found = bodies.rows_from_arrow(stream(table(kind=listed)), 10, 4)
    assert found.rows.dtype == np.float32
    assert np.array_equal(found.rows, ROWS)
    assert found.ids.tolist() == [1, 2, 3]


def test_arrow_of_texts_and_of_several_batches():
    parts = pa.concat_tables([table(ids=list("abc")), table(ids=list("def"))])
    found = bodies.rows_from_arrow(stream(parts), 10, None)
    assert found.ids.tolist() == list("abcdef")
    with pytest.raises(bodies.TooLargeError, match="6 rows"):
        bodies.rows_from_arrow(stream(parts), 5, None)


def test_what_would_grow_when_it_is_read_is_refused_before():
    zeros = table(np.zeros((1000, 100)), np.arange(1000))
    for codec in ("lz4", "zstd"):
        small = stream(zeros, compression=codec)
        assert len(small) < zeros.nbytes / 5
        with pytest.raises(InputError, match="uncompressed"):
            bodies.rows_from_arrow(small, 10**6, None)
    coded = table(ids=["a" * 1000, "b", "a" * 1000])
    ids = coded.column("id")
    for other, words in (
        (ids.dictionary_encode(), "dictionaries"),
        (ids.cast(pa.string_view()), "whole numbers or texts"),
    ):
        with pytest.raises(InputError, match=words):
            bodies.rows_from_arrow(stream(coded.set_column(0, "id", other)), 10, None)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": [1], "v": [[1.0, None]]}, "not finite|nan|NaN"),
        ({"id": [None], "v": [[1.0, 2.0]]}, "one column|id"),
        ({"id": [1, 2], "v": [[1.0, 2.0], [3.0]]}, "nan|NaN|finite"),
        ({"id": [1], "v": [["a"]]}, "one column of lists"),
        ({"id": [1], "v": [[1.0]], "w": [[1.0]]}, "one column of lists"),
        ({"id": [1.5], "v": [[1.0]]}, "whole numbers or texts"),
        ({"id": pa.array([], pa.int64()), "v": pa.array([], pa.list_(pa.float32()))}, "no rows"),
    ],
)
def test_arrow_that_is_not_rows_is_refused(columns, words):
    with pytest.raises(InputError, match=words):
        bodies.rows_from_arrow(stream(pa.table(columns)), 10, None)


def test_every_cut_and_every_changed_byte_of_an_arrow_stream_is_read_or_refused():
    whole = stream(table())
    cuts = [whole[:size] for size in range(len(whole))]
    changed = [
        whole[:place] + bytes([byte]) + whole[place + 1 :]
        for place in range(len(whole))
        for byte in (0, 127, 255)
    ]
    refused = []
    for body in cuts + changed:
        try:
            bodies.rows_from_arrow(body, 10, None)
        except InputError as error:  # and no other error
            refused.append(str(error))
    assert len(refused) > len(cuts) / 2
    assert all(refused)


@pytest.mark.parametrize(
    ("size", "options", "words"),
    [
        (0, {"columns": "4"}, "multiple"),
        (15, {"columns": "4"}, "multiple"),
        (16, {}, "how many numbers"),
        (16, {"columns": "0"}, "how many numbers"),
        (16, {"columns": "-4"}, "columns"),
        (24, {"columns": "4", "ids": "f4"}, "int64"),
        (16, {"columns": "4", "first_id": str(2**63 - 1)}, "64 bits"),
        (16, {"columns": "4", "first_id": "9" * 40}, "whole number"),
    ],
)
def test_raw_bodies_that_do_not_fit(size, options, words):
    with pytest.raises(InputError, match=words):
        bodies.rows_from_raw(b"\0" * size, options, 10, None)


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(InputError, match="Unicode"):
        bodies.ids_from_json(["\ud800"], 10)
