"""Where data sets are looked for, and what the cache is good for."""

import hashlib

import numpy as np
import pytest

from paper import datasets
from paper.datasets import lookup, parsers
from paper.datasets.fetch import Remote
from paper.datasets.published import PUBLISHED
from paper.datasets.table import standardise
from streambits.errors import InputError, StorageError


def text(rows):
    return "".join("".join(f"   {value:.7e}" for value in row) + "\n" for row in rows).encode()


RAW = np.random.default_rng(3).random((30, 18)).round(4).astype(np.float32)
TEXT = text(RAW)
STANDARD = standardise(RAW)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMBITS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def served(site, monkeypatch):
    """CBM's data.txt on a site of this machine."""
    site.files["data.txt"] = TEXT
    checksum = f"sha256:{hashlib.sha256(TEXT).hexdigest()}"
    remote = Remote("data.txt", site.url("data.txt"), checksum)
    monkeypatch.setitem(PUBLISHED, "cbm", PUBLISHED["cbm"]._replace(remotes=(remote,)))
    return site


def test_the_ready_file_comes_before_the_official_one_and_both_before_the_cache(folder, cache):
    (cache / "cbm").mkdir()
    (cache / "cbm" / "data.txt").write_bytes(text(RAW[:10]))
    assert len(datasets.load("cbm")) == 10
    (folder / "data.txt").write_bytes(text(RAW[:20]))
    assert len(datasets.load("cbm")) == 20
    np.savez(folder / "cbm_naval.npz", X=RAW)
    assert len(datasets.load("cbm")) == 30


def test_a_download_is_kept_and_parsed_once(folder, served, cache, monkeypatch, capsys):
    np.testing.assert_array_equal(datasets.load("cbm", download=True), STANDARD)
    assert f"downloading data.txt from {served.url('data.txt')}" in capsys.readouterr().err
    assert sorted(path.name for path in (cache / "cbm").iterdir()) == ["data.txt", lookup.PARSED]
    monkeypatch.setattr(parsers, "numbers", None)  # nothing is parsed any more
    assert datasets.available("cbm")
    np.testing.assert_array_equal(datasets.load("cbm"), STANDARD)
    (cache / "cbm" / "data.txt").unlink()
    np.testing.assert_array_equal(datasets.load("cbm", download=True), STANDARD)
    assert served.asked == ["data.txt"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_missing_is_one_sentence_with_the_file_the_folder_and_the_site(folder, name):
    entry = PUBLISHED[name]
    assert not datasets.available(name)
    with pytest.raises(InputError, match=f"the data set {name} is read from ") as error:
        datasets.load(name)
    said = str(error.value)
    wanted = [entry.ready, *entry.places[0], str(folder), "STREAMBITS_DATA", "--download"]
    assert all(word in said for word in wanted)
    assert entry.remotes[0].url.startswith(said.rsplit(maxsplit=1)[-1])
    assert "\n" not in said
    assert ". " not in said


def test_a_bad_ready_file_is_named(folder):
    path = folder / "cbm_naval.npz"
    np.savez(path, Z=RAW)
    with pytest.raises(StorageError, match=r"cbm_naval.npz holds no array X"):
        datasets.load("cbm")
    np.savez(path, X=RAW, y=np.arange(4))
    with pytest.raises(StorageError, match=r"30 rows, but 4 labels"):
        datasets.load("cbm")
    for content in (b"", b"half", path.read_bytes()[:-100], path.read_bytes()[:100]):
        path.write_bytes(content)
        with pytest.raises(StorageError, match=r"cbm_naval.npz is cut off or no .npz file"):
            datasets.load("cbm")
