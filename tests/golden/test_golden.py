"""The same model file and rows give the same bytes, and files of earlier versions are read.

A failure here is never mended by making the files anew: `make.py` says when it is run.
"""

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import paper.methods  # noqa: F401 - makes the models of rivals loadable
import streambits as sb
from golden import make
from streambits.io.codes.parquet import read_codes

EXPECTED = json.loads(make.DIGESTS.read_text())
VERSIONS = sorted(path.name for path in make.HERE.iterdir() if (path / "expected.json").exists())
MOST = 3 * 2**20


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_file_and_rows_give_the_bytes_that_they_gave(name, threads):
    coder = sb.load(make.MODELS / f"{name}.safetensors")
    rows = make.rows_of(name.split("-")[1])
    with threadpool_limits(threads, user_api="blas"):
        assert make.digest(coder.encode(rows)) == EXPECTED[name]
        pieces = [coder.encode(rows[start : start + 77]) for start in range(0, len(rows), 77)]
    assert make.digest(sb.Codes.concat(pieces)) == EXPECTED[name]


def test_six_methods_on_two_data_sets_plain_and_refined_are_there():
    names = {"-".join(parts) for parts in product(make.METHODS, make.DATA, make.KINDS)}
    assert (len(make.METHODS), len(make.DATA), len(make.KINDS)) == (6, 2, 2)
    assert names <= set(EXPECTED)
    assert {path.stem for path in make.MODELS.iterdir()} == set(EXPECTED)
    assert sum(path.stat().st_size for path in make.HERE.rglob("*") if path.is_file()) < MOST


def test_files_of_this_version_are_kept():
    assert sb.__version__ in VERSIONS


@pytest.fixture(params=VERSIONS)
def kept(request, tmp_path, monkeypatch):
    """A copy of the files of a version, to be changed at will, and what is in them."""
    shutil.copytree(make.HERE / request.param, tmp_path / "kept")
    monkeypatch.chdir(tmp_path / "kept")
    return json.loads((tmp_path / "kept" / "expected.json").read_text())


def test_learner_and_coder(kept):
    rows, expected = make.rows_of("sensors"), kept["models"]
    learner = sb.load("learner.safetensors")
    assert learner.seen == expected["seen"]
    assert make.digest(learner.coder().encode(rows)) == expected["learner"]
    assert make.digest(sb.load("coder.safetensors").encode(rows)) == expected["coder"]
    assert learner.learn(rows[300:]).seen == expected["seen"] + 300
    assert learner.coder().encode(rows).bits == 8


def test_coder_set_and_index(kept):
    rows, expected = make.rows_of("sensors"), kept["models"]
    coders, index = sb.load("coders.safetensors"), sb.load("two-epochs.index")
    index.verify()
    assert list(index.epochs) == list(coders) == expected["epochs"]
    assert len(index) == expected["index"]
    assert 7 not in index
    found = coders.search(index, rows[::100], 5, real=False)
    assert found.ids.tolist() == expected["found"]


def test_stream_index(kept):
    """A snapshot with a journal of changes since, which are applied again."""
    rows, expected = make.rows_of("sensors"), kept["stream_index"]
    with sb.StreamIndex.open("stream-index") as index:
        assert (len(index), index.journal_bytes) == (expected["rows"], expected["journal"])
        assert 3 not in index
        assert np.array_equal(index.rows([0, 499]), rows[[0, 499]])
        assert index.search(rows[450:453], k=1, rerank=50).ids[:, 0].tolist() == [450, 451, 452]
        index.add(rows[500:], np.arange(500, 600))
    with sb.StreamIndex.open("stream-index", read_only=True) as index:
        assert len(index) == expected["rows"] + 100


def test_job(kept, capsys):
    """It is described, searched, and goes on with the same command where a file was added."""
    rows, expected = make.rows_of("sensors"), kept["job"]
    assert make.contents(sb.open_codes("job")) == expected["codes"]
    assert sb.describe("job")
    assert sb.open("job").search(rows[:3], 5).ids.shape == (3, 5)
    np.save("rows/b.npy", rows[400:])
    assert make.run(*make.JOB) == 0, capsys.readouterr().err
    assert sum(len(ids) for ids, _ in read_codes("job/codes")) == len(rows)


@pytest.mark.parametrize("name", make.FORMATS)
def test_codes(kept, name):
    target, refine = make.FORMATS[name]
    path = target if Path(target).exists() else "codes-npy"  # as version 0.2.0 wrote it
    stored = sb.open_codes(path, bits=16)
    if name == "faiss":  # it has no epochs
        index = stored.index()
        assert len(index) == 49
        assert index.get([3]).packed.tobytes() == sb.load("codes.index").get([3]).packed.tobytes()
        return
    assert stored.bits == 16
    assert make.contents(stored) == kept["codes"][name]
    assert {codes.refine for _, codes in stored} == {refine}
