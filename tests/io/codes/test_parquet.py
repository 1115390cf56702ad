import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from streambits.errors import StorageError
from streambits.io.codes.parquet import read_codes, write_codes
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes


def coded(rng, count, bits, epoch=0):
    ids = rng.integers(-(2**63), 2**63 - 1, count)
    return CodeBatch(ids, Codes.from_bits(rng.random((count, bits)) < 0.5, epoch))


def pairs(parts):
    return sorted(
        (int(i), codes.epoch, codes.bits, code.tolist())
        for ids, codes in parts
        for i, code in zip(ids, codes.packed, strict=True)
    )


@given(st.integers(1, 130), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path, bits, sizes):
    rng = np.random.default_rng(bits)
    parts = [coded(rng, count, bits, epoch) for count, epoch in sizes]
    write_codes(parts, bits, tmp_path / "codes.parquet")
    assert pairs(read_codes(tmp_path / "codes.parquet")) == pairs(parts)
    found = parquet.read_table(tmp_path / "codes.parquet")
    assert found.column_names == ["id", "code", "epoch"]
    assert pa.types.is_fixed_size_binary(found.schema.field("code").type)


def test_a_folder_is_read_in_the_order_of_names_and_bits_may_be_given(tmp_path):
    rng = np.random.default_rng(0)
    first, second = coded(rng, 3, 12), coded(rng, 4, 12)
    for name, part in (("b", second), ("a", first)):
        batch = pa.table(
            {
                "id": part.ids,
                "code": pa.array([code.tobytes() for code in part.codes.packed], pa.binary(2)),
                "epoch": np.zeros(len(part.ids), np.int32),
            }
        )
        parquet.write_table(batch, tmp_path / f"{name}.parquet")
    ids = [ids.tolist() for ids, _ in read_codes(tmp_path, bits=12)]
    assert ids == [first.ids.tolist(), second.ids.tolist()]
    assert next(read_codes(tmp_path)).codes.bits == 16


def test_what_is_no_file_of_codes_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "codes.parquet"
    with pytest.raises(StorageError, match="does not exist"):
        list(read_codes(path))
    with pytest.raises(StorageError, match="no Parquet files"):
        list(read_codes(tmp_path))
    path.write_bytes(b"rubbish")
    with pytest.raises(StorageError, match="cannot be read as Parquet"):
        list(read_codes(path))
    parquet.write_table(pa.table({"id": [1], "code": ["a"], "epoch": [0]}), path)
    with pytest.raises(StorageError, match=r"holds no codes.*code \(string\)"):
        list(read_codes(path))
    parquet.write_table(pa.table({"id": [1]}), path)
    with pytest.raises(StorageError, match="holds no codes"):
        list(read_codes(path))
    code = pa.array([b"ab", None], pa.binary(2))
    parquet.write_table(pa.table({"id": [1, 2], "code": code, "epoch": [0, 0]}), path)
    with pytest.raises(StorageError, match="has gaps"):
        list(read_codes(path))


def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "codes.parquet"
    old = coded(rng, 5, 9)
    write_codes([old], 9, path)

    def broken():
        yield coded(rng, 5, 9)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write_codes(broken(), 9, path)
    assert pairs(read_codes(path)) == pairs([old])
    assert list(tmp_path.iterdir()) == [path]


def rewritten(path, change):
    """The file as another program writes it: what `change` makes of its table."""
    with parquet.ParquetFile(path) as file:
        table = file.read()
    parquet.write_table(change(table), path)


def test_the_order_of_the_columns_does_not_matter(tmp_path):
    path, part = tmp_path / "codes.parquet", coded(np.random.default_rng(0), 5, 12, epoch=3)
    write_codes([part], 12, path)
    parquet.write_table(parquet.read_table(path).select(["epoch", "code", "id"]), path)
    assert pairs(read_codes(path)) == pairs([part])


def test_pages_have_checksums_and_the_footer_a_digest(tmp_path):
    path, part = tmp_path / "codes.parquet", coded(np.random.default_rng(0), 500, 12)
    write_codes([part], 12, path)
    assert b"streambits.digest" in parquet.ParquetFile(path).metadata.metadata
    raw = bytearray(path.read_bytes())
    raw[raw.index(part.codes.packed.tobytes()[:16])] ^= 1
    path.write_bytes(raw)
    with pytest.raises(OSError, match="CRC"):
        parquet.read_table(path, page_checksum_verification=True)
    with pytest.raises(StorageError, match=r"codes\.parquet cannot be read as Parquet.*CRC"):
        list(read_codes(path))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.slice(1),
        lambda table: table.take([1, 0, 2, 3]),
        lambda table: table.set_column(0, "id", pa.array(range(4), pa.int32())),
        lambda table: table.replace_schema_metadata(
            table.schema.metadata | {b"streambits.bits": b"11"}
        ),
    ],
)
def test_other_content_than_was_written_is_refused(tmp_path, change):
    path = tmp_path / "codes.parquet"
    write_codes([coded(np.random.default_rng(0), 4, 12)], 12, path)
    rewritten(path, change)
    with pytest.raises(StorageError, match=r"damaged.*write plain columns"):
        list(read_codes(path))
    plain = pa.schema([("id", pa.int64()), ("code", pa.binary(2)), ("epoch", pa.int32())])
    rewritten(path, lambda table: table.cast(plain))
    assert next(read_codes(path)).codes.bits == 16


@pytest.mark.parametrize("change", [bytes(30), b"\x0c"])
def test_a_file_that_lost_its_metadata_does_not_pass_for_one_of_others(tmp_path, change):
    path = tmp_path / "codes.parquet"
    write_codes([coded(np.random.default_rng(0), 4, 12)], 12, path)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"\x18\x11streambits.digest") - 1  # how many metadata there are
    raw[at : at + len(change)] = change
    path.write_bytes(raw)
    assert not parquet.ParquetFile(path).metadata.metadata
    with pytest.raises(StorageError, match="damaged"):
        list(read_codes(path))
