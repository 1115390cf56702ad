"""A job that goes on does not mix two sources: what it has read must be the same still."""

import numpy as np
import pytest

from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import Job, Pace
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Learning
from streambits.methods.settings import Settings


@pytest.fixture
def learn(tmp_path, monkeypatch):
    """learn(source, crash): a job of it; it is cut short after so many rows, if that is asked."""
    monkeypatch.setattr("streambits.jobs.reader.TOGETHER", 400)
    monkeypatch.setattr(open_source, "__kwdefaults__", {**open_source.__kwdefaults__, "rows": 400})

    def learn(path, crash=None, **how):
        def watch(event, progress):
            if event == "commit" and crash is not None and progress.rows >= crash:
                raise StorageError("the disk is full")

        source = open_source(str(path), **how)
        work = Learning(Settings(8, n_landmarks=20).checked())
        with JobFolder(tmp_path / "job", {"source": source.identity()}) as folder:
            rejects = Rejects(None, skip=False)
            return Job(source, work, None, rejects, folder, pace=Pace(400), watchers=[watch]).run()

    return learn


@pytest.mark.parametrize("kind", ["rows.npy", "rows.csv", "rows.csv.gz", "rows.npz"])
def test_an_exchanged_file_is_refused_unless_it_is_accepted(kind, learn, mixture, tmp_path):
    path = tmp_path / kind

    def write(rows):
        if kind == "rows.npy":
            np.save(path, rows)
        elif kind == "rows.npz":
            np.savez(path, rows)
        else:
            np.savetxt(path, rows, "%+.5f", delimiter=",")

    write(mixture(2000, seed=1))
    size = path.stat().st_size
    with pytest.raises(StorageError, match="disk is full"):
        learn(path, crash=800)
    write(mixture(2000, seed=2))
    assert path.stat().st_size == size or kind == "rows.csv.gz"
    with pytest.raises(
        InputError, match=rf"since 800 rows of it were read: .*{kind}: .*differ|had"
    ):
        learn(path)
    with pytest.raises(InputError, match="go on all the same with --set changed_source=accept"):
        learn(path)
    assert learn(path, accept_changes=True).rows == 2000


def test_a_file_that_was_copied_or_touched_is_the_same(learn, mixture, tmp_path):
    np.save(tmp_path / "rows.npy", mixture(2000))
    with pytest.raises(StorageError, match="disk is full"):
        learn(tmp_path / "rows.npy", crash=800)
    np.save(tmp_path / "rows.npy", mixture(2000))
    assert learn(tmp_path / "rows.npy").rows == 2000
    assert learn(tmp_path / "rows.npy").fresh == 0


def test_a_file_that_has_grown_is_refused_and_may_be_gone_on_with(learn, mixture, tmp_path):
    path = tmp_path / "rows.csv"
    np.savetxt(path, mixture(1000), delimiter=",")
    assert learn(path).rows == 1000
    with path.open("a") as file:
        np.savetxt(file, mixture(500, seed=3), delimiter=",")
    with pytest.raises(InputError, match=r"rows.csv: it has [\d,]+ bytes and had [\d,]+"):
        learn(path)
    assert learn(path, accept_changes=True).rows == 1500
    assert learn(path).fresh == 0
