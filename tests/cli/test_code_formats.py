"""JSON lines and arrays of sinks: what was committed, or an error."""

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes import open_sink

PLACES = {
    "jsonl": ("x.jsonl", "x.jsonl", ".x.jsonl.digest"),
    "npy": ("x", "x/codes.npy", "x/.digests"),
}


@pytest.fixture(params=PLACES)
def place(request, monkeypatch, tmp_path):
    """Where codes are, their file, and that of its digest; three codes of ids 0, 1, 2."""
    monkeypatch.chdir(tmp_path)
    where, file, digest = PLACES[request.param]
    sink = open_sink(f"{request.param}:{where}", 16)
    sink.write(np.arange(3), sb.Codes.from_bits(np.eye(3, 16)))
    return where, tmp_path / file, tmp_path / digest, sink


@pytest.fixture
def counted(command):
    return lambda where: command("inspect", where, "--json").json["codes"]


def test_only_what_was_committed_counts(place, counted):
    where, file, _, sink = place
    sink.commit()
    sink.write(np.arange(3, 9), sb.Codes.from_bits(np.eye(6, 16)))
    assert counted(where) == 3
    sink.close()
    assert counted(where) == 9
    assert file.stat().st_size


def test_damage_is_told_unless_nobody_says_what_it_was(place, counted, fails):
    where, file, digest, sink = place
    sink.close()
    raw = file.read_bytes()
    last = raw.rindex(b"4" if where == "x.jsonl" else b"\4")
    file.write_bytes(raw[:last] + (b"5" if where == "x.jsonl" else b"\5") + raw[last + 1 :])
    assert f"delete {digest.relative_to(digest.cwd())} if you" in fails("inspect", where)
    digest.unlink()
    assert counted(where) == 3


def test_bytes_after_the_end_are_damage(place, fails):
    where, file, _, sink = place
    sink.close()
    file.write_bytes(file.read_bytes() + b"\n")
    assert "damaged" in fails("index", where, "--out", "x.index")


def test_damage_is_not_given_a_digest_that_fits(place):
    """A sink that has to look at its files again, because an id came twice, checks them."""
    _, file, _, sink = place
    sink.commit()
    raw = file.read_bytes()
    at = raw.index(b"0100") if file.suffix == ".jsonl" else len(raw) - 6
    file.write_bytes(raw[:at] + b"1" + raw[at + 1 :])
    sink.write([0], sb.Codes.from_bits(np.ones((1, 16))))
    with pytest.raises(sb.errors.StorageError, match="damaged"):
        sink.close()
