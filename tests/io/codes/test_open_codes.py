"""Codes of every format are read back, and are what was committed, or an error."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import streambits as sb
from streambits.errors import InputError, StorageError
from streambits.io.codes import code_format, open_codes, open_sink, save_index

PLACES = {
    "jsonl": ("x.jsonl", "x.jsonl", ".x.jsonl.digest"),
    "npy": ("x", "x/codes.npy", "x/.digests"),
}
TARGETS = {
    "parquet": "set",
    "jsonl": "codes.jsonl",
    "npy": "npy:arrays",
    "index": "codes.index",
    "faiss": "codes.faiss",
}


def counted(where):
    return sum(len(batch.ids) for batch in open_codes(where))


def pairs(batches):
    return {
        key: (code.epoch, code.packed.tobytes(), np.array(code.refinement).tobytes())
        for ids, codes in batches
        for key, code in zip(ids.tolist(), codes, strict=True)
    }


def later(codes, epoch=2):
    return sb.Codes(codes.packed, codes.bits, epoch, codes.refinement)


@pytest.mark.parametrize("kind", TARGETS)
def test_what_a_sink_wrote_is_read_back(kind, codes, tmp_path, monkeypatch):
    if kind == "faiss":
        pytest.importorskip("faiss")
    monkeypatch.chdir(tmp_path)
    sink = open_sink(TARGETS[kind], 20)
    ids = np.random.default_rng(0).integers(0, 300, 500)  # some come again
    sink.write(ids[:400], codes[:400])
    if kind != "faiss":
        sink.write(ids[400:], later(codes[400:]))
    sink.close()
    wanted = pairs([(ids[:400], codes[:400])])
    if kind != "faiss":
        wanted |= pairs([(ids[400:], later(codes[400:]))])
    where = TARGETS[kind].removeprefix("npy:")
    bits = None if kind in ("parquet", "index") else 20
    found = open_codes(where, bits=bits)
    assert (code_format(where), found.format, found.bits) == (kind, kind, 20)
    assert found.epochs == ((0,) if kind == "faiss" else (0, 2))
    assert pairs(found) == pairs(found) == wanted  # as often as one likes
    index = found.index(strategy="scan")
    assert (index.strategy, pairs(index.items())) == ("scan", wanted)
    assert found.index().strategy == "auto"
    assert repr(found) == f"StoredCodes({where!r}, format {kind})"


@pytest.mark.parametrize("length", ["refined", "pure"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npy", "index"])
def test_refined_codes_are_read_back(kind, length, lengths, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes, ids = lengths[length], np.random.default_rng(0).integers(0, 300, 500)
    sink = open_sink(TARGETS[kind], codes.bits, refine=codes.refine)
    parts = [(ids[:400], codes[:400]), (ids[400:], later(codes[400:]))]
    for part in parts:
        sink.write(*part)
    sink.close()
    found = open_codes(TARGETS[kind].removeprefix("npy:"), bits=codes.bits)
    assert (found.format, found.bits, found.refine) == (kind, codes.bits, codes.refine)
    assert pairs(found) == pairs(found.index().items()) == pairs(parts)
    for ending in (".parquet", ".index"):
        save_index(found.index(), f"again{ending}")
        again = open_codes(f"again{ending}")
        assert (again.refine, again.epochs) == (codes.refine, (0, 2))
        assert pairs(again) == pairs(parts)


def test_lines_of_others_may_be_refined(tmp_path):
    path = tmp_path / "codes.jsonl"
    for code in ('"code": "", ', ""):
        path.write_text(f'{{"refinement": "0aFF", {code}"id": 7, "epoch": 1}}\n' * 2)
        [batch] = open_codes(path)
        assert (batch.codes.bits, batch.codes.refinement.tolist()) == (0, [[10, 255]] * 2)
    for line, said in (
        ('{"id": 7, "epoch": 1}', "holds no code"),
        ('{"id": 7, "code": "", "epoch": 1}', "of different lengths, or of none"),
        ('{"id": 7, "refinement": "", "epoch": 1}', "holds no code"),
        ('{"id": 7, "code": "05", "refinement": 5, "epoch": 1}', "holds no code"),
        ('{"id": 7, "refinement": "05", "epoch": 1}', "of different lengths"),
        ('{"id": 7, "code": "05", "refinement": "0aFF", "epoch": 1}', "of different lengths"),
        ('["refinement"]', "holds no code"),
    ):
        path.write_text(f'{{"refinement": "0aFF", "id": 7, "epoch": 1}}\n{line}\n')
        with pytest.raises(StorageError, match=said):
            list(open_codes(path))


def test_a_file_is_refined_from_beginning_to_end(tmp_path, monkeypatch):
    """Also if it is read in several pieces."""
    monkeypatch.setattr("streambits.io.codes.jsonl.LINES", 3)
    path = tmp_path / "codes.jsonl"
    path.write_text('{"id": 7, "code": "05", "epoch": 0}\n' * 3)
    with path.open("a") as file:
        file.write('{"id": 7, "code": "05", "refinement": "0a", "epoch": 0}\n')
    with pytest.raises(StorageError, match="of different lengths"):
        open_codes(path).index()


@pytest.mark.parametrize("length", ["refined", "pure"])
def test_arrays_of_others_may_be_refined(length, lengths, tmp_path):
    codes = lengths[length]
    for name, array in (("ids", np.arange(500)), ("epochs", np.zeros(500, int))):
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "codes.npy", codes.packed)
    np.save(tmp_path / "refinements.npy", codes.refinement)
    [batch] = open_codes(tmp_path, bits=codes.bits)
    assert batch.codes == codes
    for wrong in (codes.refinement[1:], codes.refinement[:, :0], codes.refinement.astype(int)):
        np.save(tmp_path / "refinements.npy", wrong)
        with pytest.raises((StorageError, InputError), match=r"different lengths|refinements\.npy"):
            list(open_codes(tmp_path, bits=codes.bits))


def test_an_array_that_is_gone_does_not_make_codes_plain(lengths, tmp_path):
    sink = open_sink(f"npy:{tmp_path}", 20, refine=3)
    sink.write(np.arange(500), lengths["refined"])
    sink.close()
    (tmp_path / "refinements.npy").unlink()
    with pytest.raises(StorageError, match=r"refinements\.npy cannot be read"):
        list(open_codes(tmp_path, bits=20))


def test_what_a_sink_without_codes_left_does_not_matter(lengths, tmp_path):
    open_sink(f"npy:{tmp_path}", 20, refine=3).close()
    assert list(open_codes(tmp_path, bits=20)) == []
    sink = open_sink(f"npy:{tmp_path}", 20)
    sink.write(np.arange(500), lengths["plain"])
    sink.close()
    [batch] = open_codes(tmp_path, bits=20)
    assert batch.codes == lengths["plain"]


def test_faiss_holds_sign_bits_alone(lengths, tmp_path):
    pytest.importorskip("faiss")
    with pytest.raises(InputError, match=r"holds sign bits alone, and the codes have 3 bytes of"):
        open_sink(f"{tmp_path}/codes.faiss", 20, refine=3)
    index = sb.HammingIndex(20)
    index.add(lengths["refined"])
    save_index(index, tmp_path / "codes.faiss")
    assert open_codes(tmp_path / "codes.faiss", bits=20).index().get(range(500)) == lengths["plain"]


def test_the_last_code_of_an_id_counts_whatever_its_epoch(tmp_path):
    """Rows of a Parquet file that another program put together, out of the order of epochs."""
    rows = {"id": [1, 1, 2, 1], "code": [b"\0", b"\1", b"\2", b"\3"], "epoch": [0, 1, 1, 0]}
    kinds = pa.schema([("id", pa.int64()), ("code", pa.binary(1)), ("epoch", pa.int32())])
    parquet.write_table(pa.table(rows, schema=kinds), tmp_path / "x.parquet")
    found = open_codes(tmp_path / "x.parquet")
    last = {key: (epoch, code) for key, (epoch, code, _) in pairs(found).items()}
    assert last == {1: (0, b"\3"), 2: (1, b"\2")}
    assert pairs(found.index().items()) == pairs(found)


@pytest.mark.parametrize("bits", [1, 12, 64, 100])
@pytest.mark.parametrize("ending", [".parquet", ".index"])
def test_an_index_comes_back_from_a_file(bits, ending, tmp_path):
    rng = np.random.default_rng(bits)
    index, path = sb.HammingIndex(bits, strategy="scan"), tmp_path / f"codes{ending}"
    for epoch in (0, 3):
        codes = sb.Codes.from_bits(rng.random((50, bits)) < 0.5, epoch)
        index.add(codes, rng.permutation(50) + 100 * epoch)
    save_index(index, path)
    back = open_codes(path).index(strategy="multi")
    assert (back.bits, back.epochs, back.strategy) == (bits, (0, 3), "multi")
    assert pairs(back.items()) == pairs(index.items())


def test_an_empty_file_has_nothing_to_come_back_from(tmp_path):
    save_index(sb.HammingIndex(8), tmp_path / "codes.parquet")
    found = open_codes(tmp_path / "codes.parquet")
    assert (list(found), found.epochs) == ([], ())
    for ask in (lambda: found.bits, found.index):
        with pytest.raises(StorageError, match=r"codes\.parquet has no codes"):
            ask()


def test_codes_of_a_job_are_in_its_folder_or_it_is_said_where(codes, tmp_path):
    job = tmp_path / "job"
    sink = open_sink(str(job / "codes"), 20)
    sink.write(np.arange(9), codes[:9])
    sink.close()
    assert (code_format(job), open_codes(job).format, counted(job)) == ("job", "parquet", 9)
    other = tmp_path / "other"
    other.mkdir()
    (other / "job.json").write_text(json.dumps({"sink": "x.jsonl"}))
    with pytest.raises(StorageError, match=r"without codes: they went to x\.jsonl"):
        open_codes(other)


def test_places_without_codes_are_refused_when_they_are_opened(tmp_path):
    with pytest.raises(StorageError, match="nowhere does not exist"):
        open_codes("nowhere")
    with pytest.raises(InputError, match=r"postgresql://host/x is a URL, and codes are read"):
        open_codes("postgresql://me:secret@host/x")
    sb.save(sb.ssbc(np.eye(3), 2), tmp_path / "model")
    with pytest.raises(StorageError, match="holds a Learner, not an index or codes"):
        open_codes(tmp_path / "model").index()


def test_options_that_a_format_has_not_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"rows is not an option of jsonl, which x\.jsonl is"):
        open_sink("x.jsonl", 20, rows=3)
    with pytest.raises(InputError, match="table is not an option of index"):
        open_sink("x.index", 20, table="x")
    with pytest.raises(InputError, match="strategy is 'fast'"):
        open_sink("x.index", 20, strategy="fast")
    assert open_sink(str(tmp_path / "x.index"), 20, strategy="multi").index.strategy == "multi"


@pytest.fixture(params=PLACES)
def place(request, monkeypatch, tmp_path):
    """Where codes are, their file, and that of its digest; three codes of ids 0, 1, 2."""
    monkeypatch.chdir(tmp_path)
    where, file, digest = PLACES[request.param]
    sink = open_sink(f"{request.param}:{where}", 16)
    sink.write(np.arange(3), sb.Codes.from_bits(np.eye(3, 16)))
    return where, tmp_path / file, tmp_path / digest, sink


def test_only_what_was_committed_counts(place):
    where, file, _, sink = place
    sink.commit()
    sink.write(np.arange(3, 9), sb.Codes.from_bits(np.eye(6, 16)))
    assert counted(where) == 3
    sink.close()
    assert counted(where) == 9
    assert file.stat().st_size


def test_damage_is_told_unless_nobody_says_what_it_was(place):
    where, file, digest, sink = place
    sink.close()
    raw = file.read_bytes()
    last = raw.rindex(b"4" if where == "x.jsonl" else b"\4")
    file.write_bytes(raw[:last] + (b"5" if where == "x.jsonl" else b"\5") + raw[last + 1 :])
    with pytest.raises(StorageError, match=f"delete {digest.relative_to(digest.cwd())} if you"):
        counted(where)
    digest.unlink()
    assert counted(where) == 3


def test_bytes_after_the_end_are_damage(place):
    where, file, _, sink = place
    sink.close()
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(StorageError, match="damaged"):
        open_codes(where).index()


def test_damage_is_not_given_a_digest_that_fits(place):
    """A sink that has to look at its files again, because an id came twice, checks them."""
    _, file, _, sink = place
    sink.commit()
    raw = file.read_bytes()
    at = raw.index(b"0100") if file.suffix == ".jsonl" else len(raw) - 6
    file.write_bytes(raw[:at] + b"1" + raw[at + 1 :])
    sink.write([0], sb.Codes.from_bits(np.ones((1, 16))))
    with pytest.raises(StorageError, match="damaged"):
        sink.close()
