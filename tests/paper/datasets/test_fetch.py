import hashlib
import io

import pytest
from rich.console import Console

from paper.datasets.fetch import Remote, check, download, trust
from streambits.errors import StorageError

CONTENT = b"0123456789" * 50000


def remote(site, content=CONTENT, checksum=""):
    site.files["data.txt"] = content
    return Remote("data.txt", site.url("data.txt"), checksum)


def digest(method, content=CONTENT):
    return f"{method}:{hashlib.new(method, content).hexdigest()}"


def said():
    return Console(file=io.StringIO(), width=200, highlight=False)


@pytest.mark.parametrize("method", ["sha256", "md5"])
def test_a_file_with_the_published_checksum_is_kept_and_nothing_else(site, tmp_path, method):
    console = said()
    path = download(remote(site, checksum=digest(method)), tmp_path / "new" / "folder", console)
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert console.file.getvalue() == f"downloading data.txt from {site.url('data.txt')}\n"


def test_without_a_published_checksum_the_first_copy_is_trusted_and_later_ones_compared(
    site, tmp_path
):
    console, file = said(), remote(site)
    path = download(file, tmp_path, console)
    check(file, path)
    trust(file, path, console)
    record = tmp_path / "data.txt.sha256"
    assert record.read_text() == f"{hashlib.sha256(CONTENT).hexdigest()}  data.txt\n"
    assert "nobody publishes a checksum of data.txt: this first copy is trusted" in (
        console.file.getvalue()
    )
    check(file, path)
    site.files["data.txt"] = b"something else"
    with pytest.raises(StorageError, match=r"belongs \(says .*data.txt.sha256\): it was deleted"):
        download(file, tmp_path, said())
    assert path.read_bytes() == CONTENT
    path.write_bytes(b"changed later")
    trust(file, path)  # too late
    with pytest.raises(StorageError, match="it was deleted"):
        check(file, path)
    assert [left.name for left in tmp_path.iterdir()] == [record.name]
