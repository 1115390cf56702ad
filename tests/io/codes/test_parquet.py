import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from streambits.errors import InputError, StorageError
from streambits.io.codes.parquet import (
    read_codes,
    write_codes,
)
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes


def coded(rng, count, bits, epoch=0, refine=0):
    ids = rng.integers(-(2**63), 2**63 - 1, count)
    codes = Codes.from_bits(rng.random((count, max(bits, 1))) < 0.5, epoch)
    more = rng.integers(0, 256, (count, refine), np.uint8) if refine else None
    return CodeBatch(ids, Codes(codes.packed[:, : -(-bits // 8)], bits, epoch, more))


def pairs(parts):
    return sorted(
        (int(i), code.epoch, code.bits, code.packed.tobytes(), np.array(code.refinement).tobytes())
        for ids, codes in parts
        for i, code in zip(ids, codes, strict=True)
    )


@given(
    st.integers(0, 130),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=4),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path, bits, refine, sizes):
    assume(bits or refine)
    rng = np.random.default_rng(bits)
    parts = [coded(rng, count, bits, epoch, refine) for count, epoch in sizes]
    write_codes(parts, bits, tmp_path / "codes.parquet", refine=refine)
    assert pairs(read_codes(tmp_path / "codes.parquet")) == pairs(parts)
    found = parquet.read_table(tmp_path / "codes.parquet")
    columns = ["code"] * (bits > 0) + ["refinement"] * (refine > 0)
    assert found.column_names == ["id", *columns, "epoch"]
    for name in columns:
        assert pa.types.is_fixed_size_binary(found.schema.field(name).type)
    assert found.schema.metadata[b"streambits.bits"] == str(bits).encode()
    assert found.schema.field("epoch").metadata[b"PARQUET:field_id"] == b"1935802368"


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


@pytest.mark.parametrize("bits", [0, 12])
def test_codes_of_another_length_than_the_file_are_refused(tmp_path, bits):
    part = coded(np.random.default_rng(0), 4, bits, refine=3)
    for other in ({"bits": bits + 1, "refine": 3}, {"bits": bits, "refine": 4}):
        with pytest.raises(InputError, match=r"bits, and the sink|bytes of refinement"):
            write_codes([part], path=tmp_path / "codes.parquet", **other)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bits", [0, 12])
def test_a_damaged_refinement_is_refused(tmp_path, bits):
    path, part = tmp_path / "codes.parquet", coded(np.random.default_rng(0), 500, bits, refine=3)
    write_codes([part], bits, path, refine=3)
    raw = bytearray(path.read_bytes())
    raw[raw.index(part.codes.refinement.tobytes()[:16])] ^= 1
    path.write_bytes(raw)
    with pytest.raises(StorageError, match=r"codes\.parquet cannot be read as Parquet.*CRC"):
        list(read_codes(path))


def without_metadata(table):
    return table.replace_schema_metadata(None)


@pytest.mark.parametrize("forget", [lambda table: table, without_metadata])
@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns("refinement"),
        lambda table: table.drop_columns("code"),
        lambda table: table.drop_columns("refinement").rename_columns({"code": "refinement"}),
        lambda table: table.set_column(
            2, table.schema.field(2), table["refinement"].take([1, 0, 2, 3])
        ),
    ],
)
def test_a_column_that_was_dropped_or_exchanged_is_noticed(tmp_path, change, forget):
    """Neither is a refined file read as one of plain codes, nor as one of refinements alone."""
    path = tmp_path / "codes.parquet"
    write_codes([coded(np.random.default_rng(0), 4, 12, refine=3)], 12, path, refine=3)
    if forget is without_metadata and change(parquet.read_table(path)).num_columns == 4:
        return  # other values of a file that says of nothing who wrote it
    rewritten(path, lambda table: forget(change(table)))
    with pytest.raises(StorageError, match=r"damaged|holds no codes"):
        list(read_codes(path))


@pytest.mark.parametrize(("bits", "refine"), [(16, 3), (0, 3), (16, 257)])
def test_refinements_of_others_are_read(tmp_path, bits, refine):
    path = tmp_path / "codes.parquet"
    part = coded(np.random.default_rng(0), 4, bits, epoch=2, refine=refine)
    columns = {"refinement": part.codes.refinement} | ({"code": part.codes.packed} if bits else {})
    arrays = {
        name: pa.array([one.tobytes() for one in values], pa.binary(values.shape[1]))
        for name, values in columns.items()
    }
    parquet.write_table(pa.table(arrays | {"epoch": [2] * 4, "id": part.ids}), path)
    assert pairs(read_codes(path)) == pairs([part])


def test_columns_that_are_not_refinements_are_refused(tmp_path):
    path, ids = tmp_path / "codes.parquet", {"id": [1], "epoch": [0]}
    for odd in (
        pa.array(["a"]),
        pa.array([b"a"]),
        pa.array([bytes(258)], pa.binary(258)),
    ):
        table = pa.table(ids | {"code": pa.array([b"a"], pa.binary(1)), "refinement": odd})
        parquet.write_table(table, path)
        with pytest.raises(StorageError, match=r"holds no codes.*refinement \("):
            list(read_codes(path))
    gap = pa.array([None], pa.binary(2))
    parquet.write_table(pa.table(ids | {"refinement": gap}), path)
    with pytest.raises(StorageError, match="has gaps in its columns id, refinement, epoch"):
        list(read_codes(path))
