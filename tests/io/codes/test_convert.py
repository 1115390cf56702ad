"""The formats of codes: what is converted comes back, and what is wrong is said."""

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import streambits as sb
from streambits.errors import EpochError, InputError, StorageError
from streambits.io.codes import code_format, open_codes, open_sink
from streambits.io.codes.convert import ENDINGS, check_target, export

TEXTS = ["a", "b\n", "é", "08a4e1d2-9b1d-4c7f-8a2e-0f1e2d3c4b5a"]
FORMATS = {ending: "index" if ending == ".safetensors" else ending[1:] for ending in ENDINGS}
FORMATS[".ndjson"] = "jsonl"


@pytest.fixture(params=ENDINGS)
def file(request, tmp_path):
    """A path of each format."""
    if request.param == ".faiss":
        pytest.importorskip("faiss", reason="there is no faiss: pip install 'streambits[faiss]'")
    return tmp_path / f"codes{request.param}"


def later(codes, epoch):
    return sb.Codes(codes.packed, codes.bits, epoch, codes.refinement)


def filled(folder, codes, *, epochs=1, ids=None):
    """A folder of parts: ids that come again, and that are removed."""
    sink = open_sink(folder, codes.bits, refine=codes.refine, rows=70)
    ids = np.random.default_rng(0).integers(-90, 200, 400) if ids is None else ids
    sink.write(ids, codes[: len(ids)])
    again = ids[-20:]
    sink.write(again, later(codes[len(ids) : len(ids) + len(again)], epochs - 1))
    sink.remove(ids[:2])
    sink.close()
    return folder


@pytest.mark.parametrize("length", ["plain", "refined", "pure"])
def test_codes_come_back(file, length, lengths, *, tmp_path, codes_in, pairs):
    length = "plain" if file.suffix == ".faiss" else length  # others: tests/interop/test_faiss.py
    epochs = 1 if file.suffix == ".faiss" else 3
    folder = filled(tmp_path / "parts", lengths[length], epochs=epochs)
    wanted, bits = codes_in(folder), lengths[length].bits
    assert pairs(export(folder, file).items()) == wanted
    assert (code_format(file), codes_in(file, bits)) == (FORMATS[file.suffix], wanted)
    stored = open_codes(file, bits=bits)
    assert (stored.bits, stored.refine) == (bits, lengths[length].refine)
    assert stored.epochs == ((0,) if epochs == 1 else (0, 2))
    assert pairs(stored.index().items()) == wanted
    assert repr(stored) == f"StoredCodes('{file}', format {FORMATS[file.suffix]})"
    again = tmp_path / "again" / file.name
    again.parent.mkdir()
    export(stored, again)  # from any format, and from an index
    export(stored.index(), again)
    assert codes_in(again, bits) == wanted


def test_texts_come_back_or_are_refused(file, codes, *, tmp_path, codes_in):
    folder = filled(tmp_path / "parts", codes, ids=np.array(TEXTS, object))
    if file.suffix in (".faiss", ".npy"):
        with pytest.raises(InputError, match="whole numbers"):
            export(folder, file)
        assert list(tmp_path.iterdir()) == [folder]
    else:
        export(folder, file)
        assert codes_in(file, 20) == codes_in(folder)
        assert set(codes_in(file, 20)) == set(TEXTS[2:])


def test_faiss_refuses_what_it_cannot_hold(lengths, tmp_path):
    pytest.importorskip("faiss")
    with pytest.raises(EpochError, match="epochs 0, 1"):
        export(filled(tmp_path / "parts", lengths["plain"], epochs=2), tmp_path / "x.faiss")
    with pytest.raises(InputError, match="holds sign bits alone, and the codes have 3 bytes of"):
        check_target(tmp_path / "x.faiss", refine=3)
    with pytest.raises(InputError, match="coder"):
        export(filled(tmp_path / "pure", lengths["pure"]), tmp_path / "x.faiss")


def test_a_file_of_faiss_of_another_kind_is_named(tmp_path):
    faiss = pytest.importorskip("faiss")
    faiss.write_index(faiss.IndexFlatL2(8), str(tmp_path / "flat.faiss"))
    with pytest.raises(InputError, match=r"flat\.faiss cannot be converted: .* IndexFlatL2: pass"):
        open_codes(tmp_path / "flat.faiss").index()


def test_what_cannot_be_converted(file, codes, tmp_path):
    with pytest.raises(InputError, match="has no place for title, year: Parquet parts and tables"):
        check_target(file, keep=("title", "year"))
    with pytest.raises(StorageError, match="there is no folder"):
        check_target(tmp_path / "nowhere" / file.name)
    open_sink(tmp_path / "empty", 20).close()
    with pytest.raises(StorageError, match="empty has no codes"):
        export(tmp_path / "empty", file)
    with pytest.raises(InputError, match=r"x\.txt names no format .* end in one of \.index, \.saf"):
        export(tmp_path / "empty", tmp_path / "x.txt")
    assert not file.exists()


def test_a_file_is_written_whole_or_not_at_all(file, codes, codes_in, tmp_path, monkeypatch):
    """Wherever the disk is full, there is the old file or the new one; of arrays perhaps none."""
    old, new = (filled(tmp_path / name, codes[start:]) for name, start in (("old", 0), ("new", 30)))
    contents = [codes_in(export(one, file) and file, 20) for one in (old, new)]
    left, real = [0], os.fsync

    def fsync(descriptor):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for stop in range(1, 20):
        left[0] = 0
        export(old, file)
        left[0] = stop
        try:
            export(new, file)
        except StorageError as error:
            str(error).index("cannot be written: No space left")
            assert codes_in(file, 20) in contents if file.exists() else file.suffix == ".npy"
        else:
            break
    assert stop > 2
    assert codes_in(file, 20) == contents[1]
    assert not list(tmp_path.glob(".*.new"))


DAMAGE = {  # what is said of a file that is cut off, and of one that is another thing
    ".parquet": ("cannot be read as Parquet", "cannot be read as Parquet"),
    ".jsonl": (r"line \d+ of .*codes.jsonl holds no code", "line 1 of .* holds no code"),
    ".ndjson": (r"line \d+ of .*codes.ndjson holds no code", "line 1 of .* holds no code"),
    ".npy": ("cannot be read as .npy", "cannot be read as .npy"),
    ".faiss": ("cannot be read by FAISS|is damaged", "cannot be read by FAISS"),
    ".index": ("is damaged|truncated", "not a streambits file"),
    ".safetensors": ("is damaged|truncated", "not a streambits file"),
}


def test_damage_is_said(file, codes, tmp_path):
    export(filled(tmp_path / "parts", codes), file)
    raw = file.read_bytes()
    for content, said in zip((raw[:-30], b"something else"), DAMAGE[file.suffix], strict=True):
        file.write_bytes(content)
        with pytest.raises(StorageError, match=said):
            open_codes(file, bits=20).index()
    file.unlink()
    with pytest.raises(StorageError, match="does not exist"):
        open_codes(file)


LINE = '{"id": 7, "code": "05", "epoch": 1}'
BAD_LINES = [
    ('{"id": 7, "epoch": 1}', "holds no code"),
    ('{"id": 7, "code": "", "epoch": 1}', "of different lengths, or of none"),
    ('{"id": 7, "code": "0g", "epoch": 1}', "line 5 of .* holds no code"),
    ('{"id": 7, "code": "05", "refinement": 5, "epoch": 1}', "holds no code"),
    ('{"id": 7, "code": "05", "refinement": "0aFF", "epoch": 1}', "of different lengths"),
    ('{"id": 7.5, "code": "05", "epoch": 1}', "7.5 is not a whole number"),
    ('{"id": 7, "code": "05", "epoch": true}', "True is not a whole number"),
    ('{"id": 9223372036854775808, "code": "05", "epoch": 1}', "a number is outside"),
    ('["code"]', "holds no code"),
    ("[" * 5000, "holds no code"),
    ("", "holds no code"),
]


@pytest.mark.parametrize(("line", "said"), BAD_LINES)
def test_bad_lines(line, said, tmp_path, monkeypatch):
    """Also where a file is read in several pieces."""
    monkeypatch.setattr("streambits.io.codes.jsonl.LINES", 3)
    path = tmp_path / "x.jsonl"
    path.write_text(f"{LINE}\n" * 4 + f"{line}\n")
    with pytest.raises(StorageError, match=said):
        open_codes(path).index()


def test_lines_of_others(tmp_path, pairs):
    """Ids that come again, that are removed, and that come again after that."""
    path, row = tmp_path / "x.jsonl", '{"id": %d, "refinement": "%s", "epoch": 1}\n'
    gone = '{"id": 8, "removed": true}\n'
    path.write_text(row % (7, "0aFF") + row % (8, "0101") + gone + row % (9, "0202") + gone)
    wanted = {7: (1, b"", b"\x0a\xff"), 9: (1, b"", b"\2\2")}
    assert pairs(open_codes(path)) == wanted
    with path.open("a") as file:
        file.write(row % (8, "0303"))
    assert pairs(open_codes(path)) == wanted | {8: (1, b"", b"\3\3")}


@pytest.mark.parametrize("length", ["plain", "refined", "pure"])
def test_a_folder_of_arrays(length, lengths, tmp_path, pairs):
    """As version 0.2.0 wrote them, or others."""
    codes = lengths[length]
    arrays = {"ids": np.arange(500), "epochs": np.zeros(500, int), "codes": codes.packed}
    arrays |= {} if length == "plain" else {"refinements": codes.refinement}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    assert code_format(tmp_path) == "npy"
    [batch] = open_codes(tmp_path, bits=codes.bits)
    assert batch.codes == codes
    np.save(tmp_path / "epochs.npy", np.repeat([0, -1], 250))  # ids that were removed
    assert pairs(open_codes(tmp_path, bits=codes.bits)) == pairs([(np.arange(250), codes[:250])])
    for name, wrong, said in (
        ("ids", np.arange(499), r"different lengths: .*codes\.npy \(500\), .*ids\.npy \(499\)"),
        ("ids", np.arange(500.0), r"ids\.npy should hold whole numbers"),
        ("codes", codes.packed.astype(int), "packed codes are"),
    ):
        np.save(tmp_path / f"{name}.npy", wrong)
        with pytest.raises((StorageError, InputError), match=said):
            list(open_codes(tmp_path, bits=codes.bits))
        np.save(tmp_path / f"{name}.npy", arrays[name])


def test_packed_codes_alone_have_the_numbers_of_their_rows(codes, tmp_path):
    np.save(tmp_path / "x.npy", codes.packed)
    [batch] = open_codes(tmp_path / "x.npy", bits=20, epoch=3)
    assert (batch.ids.tolist(), batch.codes) == (list(range(500)), later(codes, 3))
    np.savez(tmp_path / "y.npz", codes.packed)
    (tmp_path / "y.npz").rename(tmp_path / "y.npy")
    with pytest.raises(StorageError, match="it holds several arrays"):
        list(open_codes(tmp_path / "y.npy"))


def test_the_last_code_of_an_id_counts_whatever_its_epoch(tmp_path, pairs):
    """Rows of a Parquet file that another program put together, out of the order of epochs."""
    rows = {"id": [1, 1, 2, 1], "code": [b"\0", b"\1", b"\2", b"\3"], "epoch": [0, 1, 1, 0]}
    kinds = pa.schema([("id", pa.int64()), ("code", pa.binary(1)), ("epoch", pa.int32())])
    parquet.write_table(pa.table(rows, schema=kinds), tmp_path / "x.parquet")
    stored = open_codes(tmp_path / "x.parquet")
    last = {key: (epoch, code) for key, (epoch, code, _) in pairs(stored).items()}
    assert last == {1: (0, b"\3"), 2: (1, b"\2")}
    assert pairs(stored.index().items()) == pairs(stored)


def test_places_without_codes_are_refused(codes, tmp_path):
    filled(tmp_path / "job" / "codes", codes)
    assert code_format(tmp_path / "job") == "job"
    assert open_codes(tmp_path / "job").format == "parquet"
    (tmp_path / "job.json").write_text(json.dumps({"sink": "postgresql://host/x"}))
    with pytest.raises(StorageError, match="without codes: they went to postgresql://host/x"):
        open_codes(tmp_path)
    with pytest.raises(InputError, match=r"postgresql://host/x is a URL, and codes are read"):
        open_codes("postgresql://me:secret@host/x")
    sb.save(sb.ssbc(np.eye(3), 2), tmp_path / "model")
    with pytest.raises(StorageError, match="holds a Learner, not an index or codes"):
        open_codes(tmp_path / "model").index()


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("kafka://x/y", {}, "'kafka://x/y' names no sink: choose a folder, or postgresql://"),
        ("postgresqll://me:hunter2@host/db", {}, "names no sink"),
        ("jsonl:postgresql://me:hunter2@host/db", {}, "names no sink"),
        ("postgresql:/me:hunter2@host/db", {}, "names no sink"),
        ("parquet:x", {}, "parquet:x has the prefix parquet, which went: name the folder, x"),
        ("x.jsonl", {}, r"x\.jsonl names a file, .* convert them .* by streambits index"),
        ("folder", {"table": "x"}, "folder is a folder, and has no table 'x'"),
        ("folder", {"rows": 0}, "rows is 0"),
        ("folder", {"bits": 0}, "bits is 0"),
        ("folder", {"refine": 258}, "refine is 258"),
        ("folder", {"keep": ["epoch"]}, "keep has 'epoch'"),
    ],
)
def test_targets_that_are_refused(target, options, said):
    with pytest.raises(InputError, match=said) as caught:
        open_sink(target, **{"bits": 8} | options)
    assert "hunter2" not in str(caught.value)
