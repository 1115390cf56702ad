"""A job leaves one model, the one that made its codes; and what Python can do with its folder."""

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError, MergeError, StorageError
from streambits.io.codes import open_codes
from streambits.io.rows import open_source
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import JobPlan, run_job
from streambits.jobs.models import merge_models, open_model, open_model_of
from streambits.jobs.reader import sample_source
from streambits.jobs.search import open_searcher
from streambits.jobs.work import Encoding, Learning, Online
from streambits.methods.settings import Settings


@pytest.fixture(scope="module")
def stream(mixture):
    return mixture(3000, seed=5)


@pytest.fixture
def online(stream, tmp_path):
    """online(refresh, epochs): the folder of an online job that has ended."""

    def online(refresh, epochs="never", rows=stream):
        np.save(tmp_path / "rows.npy", rows)
        settings = Settings(16, n_landmarks=40, epochs=epochs, refresh=refresh).checked()
        source = open_source(tmp_path / "rows.npy")
        plan = JobPlan("online", source, Online(settings), settings.plain(), tmp_path / "job", 16)
        assert run_job(plan).rows == len(rows)
        return JobFolder(tmp_path / "job")

    return online


@pytest.mark.parametrize("refresh", [500, 700, "auto"])  # 500: a coder is made after the last row
def test_both_models_have_the_coder_of_the_last_codes(online, stream, refresh, fingerprint):
    folder = online(refresh)
    coder, coders = sb.load(folder.model_file).coder(), sb.load(folder.coders_file)
    assert fingerprint(coder) == fingerprint(coders.newest)
    last = open_codes(folder.path).index().get(range(2990, 3000))
    assert coder.encode(stream[-10:]) == last
    assert open_model(folder.path).coder.encode(stream[-10:]) == last
    assert sb.evaluate(open_model(folder.path).learner(), stream, lengths=()).model.bits == 16


def test_an_epoch_that_has_no_codes_yet_is_not_what_the_folder_stands_for(online, stream):
    folder = online(500, epochs=1024, rows=stream[:2048])
    assert sb.load(folder.model_file).epoch == 2
    found = open_model(folder.path)
    assert found.coder.epoch == 1
    assert found.learner().epoch == 2
    assert open_codes(folder.path).epochs == (0, 1)


def test_the_model_of_codes_is_recorded(online, tmp_path, stream):
    folder = online("auto")
    model = open_model(folder.path)
    plan = JobPlan(
        "encode",
        open_source(tmp_path / "rows.npy"),
        Encoding(model.coder, "job"),
        {"model": model.digest},
        tmp_path / "again",
        16,
        names={"model": str(folder.path)},
    )
    run_job(plan)
    assert open_model_of(tmp_path / "again").path == folder.coders_file
    assert open_model_of(tmp_path / "again", folder.path).digest == model.digest
    assert open_searcher(tmp_path / "again").search(stream[:5], 1).distances.tolist() == [[0]] * 5
    sb.save(sb.load(folder.coders_file), tmp_path / "copy.safetensors")
    folder.coders_file.unlink()
    with pytest.raises(InputError, match="which has changed"):
        open_model_of(tmp_path / "again")
    with pytest.raises(InputError, match="that is not in"):
        open_model_of(tmp_path / "again", folder.path)
    found = open_model_of(tmp_path / "again", tmp_path / "copy.safetensors")
    assert found.learner() is None


def test_shards(stream, tmp_path):
    learner = sb.ssbc(stream[:40], 16)
    for name, rows in (("a", stream[:1000]), ("b", stream[1000:])):
        sb.save(learner.fresh().learn(rows), tmp_path / name)
    assert merge_models([tmp_path / "a", tmp_path / "b"]).seen == 3000
    with pytest.raises(MergeError, match="is a copy of"):
        merge_models([tmp_path / "a", tmp_path / "b", tmp_path / "a"])
    with pytest.raises(StorageError, match=r"has no model\.safetensors"):
        merge_models([tmp_path / "a", tmp_path])


def test_a_learn_job_stands_for_its_learner(stream, tmp_path, fingerprint):
    np.save(tmp_path / "rows.npy", stream)
    settings = Settings(16, n_landmarks=40, epochs="never").checked()
    source = open_source(tmp_path / "rows.npy")
    run_job(JobPlan("learn", source, Learning(settings), settings.plain(), tmp_path / "job"))
    found = open_model(tmp_path / "job")
    assert found.path == JobFolder(tmp_path / "job").model_file
    wanted = sb.ssbc(sb.reservoir([stream[:400]], 40), 16, epochs="never").learn(stream)
    assert fingerprint(found.coder) == fingerprint(wanted.coder())


def test_a_sample_of_a_source(stream, tmp_path):
    rows = stream.copy()
    rows[7, 3] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    found = sample_source(open_source(tmp_path / "rows.npy"), 100)
    assert (found.rows.shape, found.rejects) == ((100, 8), 1)
    np.save(tmp_path / "bad.npy", np.full((3, 8), np.nan))
    with pytest.raises(InputError, match="no row that can be used"):
        sample_source(open_source(tmp_path / "bad.npy"), 100)
