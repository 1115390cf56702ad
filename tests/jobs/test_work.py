"""Epochs that are over are in files: jobs do not grow with them, and all can be searched."""

import numpy as np
import pytest

import streambits as sb
from streambits.errors import EpochError, StorageError
from streambits.io.codes import open_sink
from streambits.io.codes.parquet import read_codes
from streambits.io.rows import open_source
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import Job, Pace
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Online
from streambits.methods.settings import Settings

SETTINGS = Settings(16, n_landmarks=30, epochs=512, refresh=256).checked()


@pytest.fixture(scope="module")
def stream(mixture):
    return mixture(4500, seed=5)


@pytest.fixture
def run(stream, tmp_path):
    """run(watcher, keep): the job, in a folder of its own; watcher(event, progress, folder)."""

    def run(watcher=None, keep=None, commit=400, name="job", rows=stream):
        np.save(tmp_path / "rows.npy", rows)
        folder = tmp_path / name

        def watch(event, progress):
            if watcher is not None:
                watcher(event, progress, folder)

        source = open_source(tmp_path / "rows.npy", rows=400)
        sink = open_sink(folder / "codes", 16)
        work, rejects = Online(SETTINGS, keep), Rejects(None, skip=False)
        with JobFolder(folder, {}) as held:
            pace = Pace(commit)
            Job(source, work, sink, rejects, held, pace=pace, watchers=[watch]).run()
        return folder

    return run


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("streambits.jobs.reader.TOGETHER", 400)


def index_of(folder):
    index = sb.HammingIndex(16)
    for ids, codes in read_codes(folder / "codes"):
        index.add(codes, ids)
    return index


def files_of(folder):
    return sorted(int(file.name[6:12]) for file in (folder / "epochs").iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_the_checkpoint_does_not_grow_with_the_number_of_epochs(run, mixture):
    sizes, held = {}, {}

    def watch(event, progress, folder):
        if event == "commit":
            kept = folder / "checkpoint.safetensors"
            sizes[progress.epoch] = kept.stat().st_size
            held[progress.epoch] = JobFolder(folder, {}).checkpoint().models["coders"].nbytes

    run(watch, rows=mixture(16_000, seed=5))
    assert max(sizes) > 30
    for found in (sizes, held):
        late = [size for epoch, size in found.items() if epoch >= 20]
        assert max(late) <= 1.1 * min(late)


@pytest.mark.usefixtures("small_chunks")
def test_epochs_in_files_are_searched_as_those_in_memory(run, stream):
    folder = run()
    index, coders = index_of(folder), sb.load(folder / "coders.safetensors")
    assert files_of(folder) == list(range(max(coders)))
    assert list(coders) == list(index.epochs)
    known = sb.CoderSet()
    for _ in sb.encode_online(SETTINGS, [stream], coders=known):
        pass
    ours, theirs = (found.search(index, stream[::900], 5) for found in (coders, known))
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.allclose(ours.distances, theirs.distances)
    assert coders[3].encode(stream[:9]) == known[3].encode(stream[:9])
    assert coders.seen == known.seen == len(stream)


@pytest.mark.usefixtures("small_chunks")
def test_a_job_that_runs_can_be_searched_in_all_its_epochs(run, stream):
    found = []

    def watch(event, progress, folder):
        if event == "commit" and progress.epoch > 5 and not found:
            coders = JobFolder(folder, {}).checkpoint().models["coders"]
            coders.store_in(folder, sb.load)
            index = index_of(folder)
            assert list(coders) == list(index.epochs)
            found.append(coders.search(index, stream[:2], 100))

    run(watch)
    [hits] = found
    assert all(row in ids for row, ids in enumerate(hits.ids))


@pytest.mark.usefixtures("small_chunks")
def test_only_few_epochs_are_kept_if_that_is_asked(run, stream):
    seen = []

    def watch(event, progress, folder):
        if event == "commit" and (folder / "epochs").exists():
            named = set(JobFolder(folder, {}).checkpoint().models["coders"])
            seen.append(named - set(files_of(folder)) <= {max(named)})  # all but the current
            assert len(files_of(folder)) < 5

    folder = run(watch, keep=4)
    coders, index = sb.load(folder / "coders.safetensors"), index_of(folder)
    assert seen
    assert all(seen)
    assert list(coders) == list(index.epochs[-4:])
    assert files_of(folder) == list(coders)[:-1]
    assert coders.retired == next(iter(coders))
    with pytest.raises(EpochError, match="no coder of epoch 0, which the index holds: it was reti"):
        coders.search(index, stream[:1], 1)


@pytest.mark.usefixtures("small_chunks")
def test_a_file_that_is_gone_or_another_is_named(run, stream):
    folder = run()
    lost = folder / "epochs" / "epoch-000003.safetensors"
    lost.unlink()
    coders = sb.load(folder / "coders.safetensors")
    with pytest.raises(StorageError, match=r"epoch-000003.safetensors does not exist"):
        coders[3]
    (folder / "epochs" / "epoch-000004.safetensors").rename(lost)
    with pytest.raises(StorageError, match="does not hold epoch 3"):
        coders[3]
    assert coders[5].epoch == 5
