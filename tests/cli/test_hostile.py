"""What verbs say to files that no sane program writes: one line, whatever is in them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import streambits as sb
from streambits._digests import seal
from streambits.jobs.folder import Checkpoint
from streambits.storage import save

DEEP = "[" * 100_000
GOOD = '{"id": 1, "code": "0500", "epoch": 0}\n'


@pytest.mark.parametrize(
    "line",
    [
        GOOD.replace("1,", f"{10**23},"),
        GOOD.replace("1,", "Infinity,"),
        GOOD.replace("1,", "1.5,"),
        GOOD.replace("1,", f"{'9' * 10_000},"),
        GOOD.replace(" 0}", f" {10**11}}}"),
        GOOD.replace("0500", ""),
        GOOD.replace(" 0}", f" {DEEP}"),
        DEEP,
        "5",
        "\ufffe",
    ],
)
@pytest.mark.parametrize("verb", ["inspect", "index"])
def test_lines(fails, tmp_path, line, verb):
    path = tmp_path / "codes.jsonl"
    path.write_text(line)
    told = fails(verb, path, *(["--out", tmp_path / "x.index"] if verb == "index" else []))
    assert "codes.jsonl" in told


def npy(header):
    """An array file with that header and no content."""
    text = header.ljust(118).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HEADERS = [
    "{'descr': '|u1', 'fortran_order': False, 'shape': (1152921504606846976, 8), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (((((",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2, 8), }",
    "(" * 60 + ")" * 58,
    "",
]


@pytest.mark.parametrize("header", HEADERS)
def test_packed_codes(fails, tmp_path, header):
    path = tmp_path / "codes.npy"
    path.write_bytes(npy(header))
    assert "cannot be read as .npy" in fails("inspect", path)
    assert "cannot be read as .npy" in fails("search", path, "--query", path, "--allow", path)


@pytest.mark.parametrize(
    "content",
    [
        DEEP.encode(),
        b"[]",
        b"null",
        json.dumps({"verb": "online"}).encode(),
        seal({"settings": "x"}),
        seal({"names": 5}),
        seal({"source": {"files": [5]}}),
        seal({"source": {"files": [[]]}}),
    ],
)
def test_a_description_of_a_job(fails, tmp_path, content):
    (tmp_path / "job.json").write_bytes(content)
    assert "job.json" in fails("inspect", tmp_path)


@pytest.mark.parametrize(
    "more", [["--epoch", 10**20], ["--epoch", 2**31], ["--bits", 10**20], ["--epoch", -1]]
)
def test_numbers_beyond_use(misused, tmp_path, more):
    np.save(tmp_path / "codes.npy", np.zeros((4, 2), np.uint8))
    assert "Invalid value" in misused("index", tmp_path / "codes.npy", *more)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    "name", ["model.safetensors", "lock", "job.json", "checkpoint.safetensors"]
)
def test_what_may_not_be_read_is_told_as_such(command, fails, monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    sb.save(sb.methods.METHODS["itq"](np.eye(8), 4), "model.safetensors")
    save(Checkpoint(None, None, {"rows": 0}, {}), "checkpoint.safetensors")
    Path("job.json").write_bytes(seal({"verb": "online", "settings": {}}))
    Path("lock").touch()
    where = name if name.startswith("model") else "."
    assert command("inspect", where).code == 0
    tmp_path.chmod(0o755)
    Path(name).chmod(0)
    os.seteuid(65534)
    try:
        told = fails("inspect", where)
    finally:
        os.seteuid(0)
    assert told == f"{name} cannot be read: Permission denied"
