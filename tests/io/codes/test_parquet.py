"""Files of codes in Parquet: ours with a digest, those of others as they are."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from streambits.errors import InputError, StorageError
from streambits.io.codes.parquet import read_codes, write_codes
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes


def coded(count, bits, epoch=0, refine=0):
    rng = np.random.default_rng(bits)
    ids = rng.permutation(count) - 2**62 + 1000 * epoch
    codes = Codes.from_bits(rng.random((count, max(bits, 1))) < 0.5, epoch)
    more = rng.integers(0, 256, (count, refine), np.uint8) if refine else None
    return CodeBatch(ids, Codes(codes.packed[:, : -(-bits // 8)], bits, epoch, more))


@given(
    st.integers(0, 130),
    st.integers(0, 20),
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=4, unique_by=lambda s: s[1]
    ),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path, pairs, bits, refine, sizes):
    assume(bits or refine)
    parts = [coded(count, bits, epoch, refine) for count, epoch in sizes]
    write_codes(parts, bits, tmp_path / "codes.parquet", refine=refine)
    assert pairs(read_codes(tmp_path / "codes.parquet")) == pairs(parts)
    schema = parquet.read_schema(tmp_path / "codes.parquet")
    assert schema.names == [
        *("id", *["code"] * (bits > 0), *["refinement"] * (refine > 0), "epoch"),
    ]
    assert schema.metadata[b"streambits.bits"] == str(bits).encode()
    for other in ({"bits": bits + 1, "refine": refine}, {"bits": bits, "refine": refine + 1}):
        if parts:
            with pytest.raises(InputError, match=r"bits, and the sink|bytes of refinement"):
                write_codes(parts, path=tmp_path / "other.parquet", **other)
    assert not (tmp_path / "other.parquet").exists()


def columns_of(part):
    """As another program writes them."""
    arrays = {"epoch": [part.codes.epoch] * len(part.ids), "id": part.ids}
    for name, values in (("code", part.codes.packed), ("refinement", part.codes.refinement)):
        if values is not None and values.shape[1]:
            arrays[name] = pa.array([one.tobytes() for one in values], pa.binary(values.shape[1]))
    return pa.table(arrays)


@pytest.mark.parametrize(("bits", "refine"), [(12, 0), (12, 3), (0, 3), (12, 257)])
def test_a_folder_of_others_is_read_in_the_order_of_names(bits, refine, tmp_path, pairs):
    parts = [coded(4, bits, epoch, refine) for epoch in (0, 1)]
    for name, part in zip("ba", parts, strict=True):
        parquet.write_table(columns_of(part), tmp_path / f"{name}.parquet")
    read = list(read_codes(tmp_path, bits=bits))
    assert [codes.epoch for _, codes in read] == [1, 0]
    assert pairs(read) == pairs(parts)
    assert next(read_codes(tmp_path)).codes.bits == (16 if bits else 0)  # whole bytes


CODE = {"id": [1], "epoch": [0], "code": pa.array([b"a"], pa.binary(1))}
NO_CODES = [
    ({"id": [1]}, "holds no codes"),
    (CODE | {"code": ["a"]}, r"holds no codes.*code \(string\)"),
    (CODE | {"epoch": [0.5]}, "holds no codes"),
    (CODE | {"refinement": [b"a"]}, r"holds no codes.*refinement \(binary"),
    (CODE | {"refinement": pa.array([bytes(258)], pa.binary(258))}, "holds no codes"),
    (CODE | {"code": pa.array([None], pa.binary(1))}, "has gaps in its columns id, code, epoch"),
]


@pytest.mark.parametrize(("table", "said"), NO_CODES)
def test_what_is_no_file_of_codes(table, said, tmp_path):
    with pytest.raises(StorageError, match="no Parquet files"):
        list(read_codes(tmp_path))
    parquet.write_table(pa.table(table), tmp_path / "codes.parquet")
    with pytest.raises(StorageError, match=said):
        list(read_codes(tmp_path / "codes.parquet"))


@pytest.fixture
def path(tmp_path):
    """A file of 500 codes of 12 bits and 3 bytes."""
    write_codes([coded(500, 12, 3, refine=3)], 12, tmp_path / "codes.parquet", refine=3)
    return tmp_path / "codes.parquet"


@pytest.mark.parametrize("column", ["code", "refinement"])
def test_pages_have_checksums(path, column):
    raw = bytearray(path.read_bytes())
    codes = coded(500, 12, 3, refine=3).codes
    values = codes.packed if column == "code" else codes.refinement
    raw[raw.index(values.tobytes()[:16])] ^= 1
    path.write_bytes(raw)
    with pytest.raises(StorageError, match=r"codes\.parquet cannot be read as Parquet.*CRC"):
        list(read_codes(path))


DAMAGE = [  # what is done to a table whose metadata stay
    lambda table: table.slice(1),
    lambda table: table.take([1, 0, 2, 3]),
    lambda table: table.set_column(0, "id", pa.array(range(500), pa.int32())),
    lambda table: table.drop_columns("refinement"),
    lambda table: table.drop_columns("code"),
    lambda table: table.drop_columns("code").replace_schema_metadata(None),
    lambda table: table.replace_schema_metadata(None),
    lambda table: table.replace_schema_metadata(
        table.schema.metadata | {b"streambits.bits": b"11"}
    ),
]


@pytest.mark.parametrize("change", DAMAGE)
def test_other_content_than_was_written_is_refused(path, change):
    with parquet.ParquetFile(path) as file:
        table = file.read()
    parquet.write_table(change(table), path)
    with pytest.raises(StorageError, match=r"damaged.*write plain columns"):
        list(read_codes(path))


def test_another_program_may_sort_rows_and_columns(path, pairs):
    wanted = pairs(read_codes(path))
    table = parquet.read_table(path).sort_by("id").select(["epoch", "refinement", "code", "id"])
    parquet.write_table(table, path)
    assert pairs(read_codes(path)) == wanted
    assert next(read_codes(path)).codes.bits == 12


@pytest.mark.parametrize("change", [bytes(30), b"\x0c"])
def test_a_file_that_lost_its_metadata_does_not_pass_for_one_of_others(path, change):
    raw = bytearray(path.read_bytes())
    at = raw.index(b"\x18\x11streambits.digest") - 1  # how many metadata there are
    raw[at : at + len(change)] = change
    path.write_bytes(raw)
    with pytest.raises(StorageError, match="damaged"):
        list(read_codes(path))
