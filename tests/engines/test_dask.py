"""Dask: the same bits as in this process, whatever the workers are, and errors that name them."""

import os
import signal
import subprocess
import sys
import threading

import distributed
import numpy as np
import pytest
from distributed.scheduler import KilledWorker

import streambits as sb
from streambits.engines import dask as engine
from streambits.engines.partitions import partition_files
from streambits.errors import InputError, StorageError, UnreachableError

SETTINGS = sb.Settings(bits=16, n_landmarks=60, refine=2)


@pytest.fixture(scope="module")
def alone(mixture, arrays, learn_here):
    """The model of 6,000 rows in 5 partitions, learned in this process."""
    return sb.to_bytes(learn_here(arrays(mixture(6000), 5), SETTINGS))


def content(folder):
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def walk(client, where, folder, asked):
    """Learn, encode and search; the model and the answers."""
    model = sb.to_bytes(engine.learn(client, where, SETTINGS))
    coder = sb.from_bytes(model).coder()
    parts = engine.encode(client, coder, where, folder)
    return model, parts, engine.search(client, folder, coder.queries(asked), 10, candidates="all")


def test_worker_processes_give_the_bits_of_this_one(cluster, alone, mixture, *, files, tmp_path):
    rows, asked = mixture(6000), mixture(30, seed=4)
    with cluster(2) as there, distributed.Client(there, set_as_default=False) as client:
        model, parts, hits = walk(client, files(rows, 5), tmp_path / "job", asked)
    assert model == alone
    assert [part.rows for part in parts] == [1200] * 5
    searcher = sb.open(tmp_path / "job")  # the folder has the coder
    wanted = searcher.index.search(
        sb.from_bytes(model).coder().queries(asked), 10, candidates="all"
    )
    np.testing.assert_array_equal(hits.ids, wanted.ids)
    np.testing.assert_array_equal(hits.distances, wanted.distances)
    assert sb.describe(tmp_path / "job")["codes"]["codes"] == 6000


def test_dask_arrays_and_data_frames_give_the_bits_of_files(client, alone, mixture, tmp_path):
    array, frame = (pytest.importorskip(f"dask.{name}") for name in ("array", "dataframe"))
    pandas = pytest.importorskip("pandas")
    rows = mixture(6000)
    blocks = array.from_array(rows, (1200, 3))
    assert sb.to_bytes(engine.learn(client, blocks, SETTINGS)) == alone
    table = pandas.DataFrame(rows, columns=[f"x{i}" for i in range(8)])
    table["id"] = [f"row {i}" for i in range(6000)]
    parts = frame.from_pandas(table, npartitions=5)
    assert sb.to_bytes(engine.learn(client, parts, SETTINGS, ids="id")) == alone
    coder = sb.from_bytes(alone).coder()
    for source, more, last in ((blocks, {}, 5999), (parts, {"ids": "id"}, "row 5999")):
        engine.encode(client, coder, source, tmp_path / str(last), **more)
        index = sb.open_codes(tmp_path / str(last) / "codes").index()
        assert len(index) == 6000
        assert (index.get([last]).packed == coder.encode(rows[-1:]).packed).all()


def test_a_learner_goes_on_and_samples_are_of_all_rows(client, files, mixture, learn_here):
    rows = mixture(4000)
    begun = sb.ssbc(rows[:40], 8, epochs="never").learn(rows[:1000])
    before, where = sb.to_bytes(begun), files(rows[1000:], 3)
    found = engine.learn(client, where, begun)
    assert found.seen == 4000
    assert sb.to_bytes(found) == sb.to_bytes(learn_here(partition_files(where), begun))
    assert sb.to_bytes(begun) == before
    drawn = engine.sample(client, where, 500)
    assert drawn.shape == (500, 8)
    assert {row.tobytes() for row in drawn} <= {row.tobytes() for row in rows[1000:]}


def test_an_encode_goes_on_and_a_folder_belongs_to_one_coder(client, files, mixture, tmp_path):
    rows = mixture(3000)
    where, out = files(rows, 3), tmp_path / "job"
    coder = sb.ssbc(rows[:60], 20, epochs="never").learn(rows).coder()
    engine.encode(client, coder, where, out)
    first = content(out)
    (out / "codes/part-000001.parquet").unlink()
    (out / "codes/.part-000002.parquet.1.2.new").write_bytes(b"of a worker that was killed")
    parts = engine.encode(client, coder, where, out)
    assert [(part.rows, part.kept) for part in parts] == [(1000, n != 1) for n in range(3)]
    assert content(out) == first
    (tmp_path / "parts/part002.npy").unlink()
    engine.encode(client, coder, where, out)
    assert content(out).keys() == first.keys() - {"codes/part-000002.parquet"}
    other = sb.ssbc(rows[:60], 20, epochs="never", seed=1).learn(rows).coder()
    with pytest.raises(StorageError, match="belongs to another job: model is "):
        engine.encode(client, other, where, out)


def test_shards_are_named_by_a_folder_or_a_list(client, mixture, files, tmp_path):
    coder = sb.ssbc(mixture(60), 20, epochs="never").learn(mixture(900)).coder()
    engine.encode(client, coder, files(mixture(900), 3), tmp_path / "job")
    asked, codes = coder.encode(mixture(4, seed=2)), tmp_path / "job/codes"
    named = (tmp_path / "job", codes, sorted(codes.iterdir()), str(codes))
    first, *others = (engine.search(client, one, asked, 5).ids.tolist() for one in named)
    assert others == [first] * 3
    (tmp_path / "none").mkdir()
    with pytest.raises(StorageError, match="no Parquet files"):
        engine.search(client, tmp_path / "none", asked, 5)


# Bad input


def test_what_is_wrong_in_a_partition_names_it(client, files, mixture, tmp_path):
    where = files(mixture(2000), 4)
    np.save(tmp_path / "parts/part003.npy", np.ones((10, 5)))
    with pytest.raises(InputError, match=r"partition 3 .*rows of 5 numbers, and partition 2"):
        engine.learn(client, where, SETTINGS)
    with pytest.raises(InputError, match=r"partition 3 .*its rows have 5 numbers"):
        engine.learn(client, where, sb.ssbc(mixture(40), 8))
    (tmp_path / "parts/part002.npy").write_bytes(b"rubbish")
    with pytest.raises(StorageError, match=r"partition 2 \(.*part002.npy\)"):
        engine.learn(client, where, SETTINGS)


def test_rows_that_are_here_need_no_cluster(client, mixture):
    with pytest.raises(InputError, match="source is a ndarray"):
        engine.learn(client, mixture(10), SETTINGS)
    with pytest.raises(InputError, match="client is a str"):
        engine.learn("tcp://127.0.0.1:8786", "*.npy", SETTINGS)
    with pytest.raises(InputError, match="1 dimensions"):
        engine.learn(client, pytest.importorskip("dask.array").ones(10), SETTINGS)


def test_a_partition_that_kills_its_workers_and_a_missing_module_are_named(client, files, mixture):
    partitions = partition_files(files(mixture(100), 2))
    there = engine._Cluster(client)
    complaint = r"partition 1 \(.*part001.npy\): 4 workers have"
    with pytest.raises(UnreachableError, match=complaint), there._errors(partitions):
        raise KilledWorker(("streambits-learn-1", 1), "tcp://127.0.0.1:1", 3)
    with pytest.raises(InputError, match="no module numba: install streambits"), there._errors():
        raise ModuleNotFoundError("no", name="numba")


def test_a_cluster_without_workers_is_not_waited_for_without_end(files, mixture, monkeypatch):
    monkeypatch.setattr(engine, "WAIT", 0.2)
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as there,
        distributed.Client(there, set_as_default=False) as client,
        pytest.raises(UnreachableError, match=r"went away or does not answer .*0/1 workers"),
    ):
        engine.learn(client, files(mixture(1000), 2), sb.ssbc(mixture(40), 8))


@pytest.mark.slow
def test_a_merge_that_fails_leaves_nothing_behind_and_the_client_connected(
    cluster, files, mixture, tmp_path
):
    where = files(mixture(1200), 12)
    np.save(tmp_path / "parts/part010.npy", np.ones((10, 5)))
    learner = sb.ssbc(mixture(40), 8, epochs="never")
    with cluster(2) as there, distributed.Client(there, set_as_default=False) as client:
        for _ in range(12):  # the next one was refused every second time
            with pytest.raises(InputError, match="partition 10 "):
                engine.learn(client, where, learner)
        for _ in range(400):
            left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
            if not left:
                break
            threading.Event().wait(0.05)
        assert left == 0


@pytest.mark.slow
@pytest.mark.parametrize("version", [None, "0.0.9"])
def test_a_worker_without_this_version_is_named(cluster, version, tmp_path):
    """A worker process whose streambits is another one, or none that can be imported."""
    (tmp_path / "streambits").mkdir()
    text = f"__version__ = {version!r}" if version else "raise ImportError('not installed')"
    (tmp_path / "streambits/__init__.py").write_text(text)
    with cluster(0) as there:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", there.scheduler_address]
        with subprocess.Popen(
            [*command, "--no-dashboard", "--no-nanny", "--nthreads", "1"],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as worker:
            try:
                with (
                    distributed.Client(there, set_as_default=False) as client,
                    pytest.raises(
                        InputError, match=f"worker tcp://.* {version or 'not installed'}"
                    ),
                ):
                    engine.learn(client, "*.npy", SETTINGS)
            finally:
                worker.kill()


@pytest.mark.slow
def test_killed_workers_and_a_cluster_that_goes_away(cluster, files, mixture, *, tmp_path):
    """A worker that is killed changes nothing; without workers the call ends, and goes on later."""
    rows, asked = mixture(16 * 4000), mixture(5, seed=3)
    where = files(rows, 16)
    with cluster(2) as there, distributed.Client(there, set_as_default=False) as client:
        model, _, hits = walk(client, where, tmp_path / "alone", asked)
        processes = sorted(client.run(os.getpid).values())
        killer = threading.Timer(0.5, os.kill, (processes[0], signal.SIGKILL))
        killer.start()
        again, _, found = walk(client, where, tmp_path / "killed", asked)
        killer.join()
    assert again == model
    assert found.ids.tolist() == hits.ids.tolist()
    assert content(tmp_path / "killed") == content(tmp_path / "alone")
    coder, there = sb.from_bytes(model).coder(), cluster(1)
    with there, distributed.Client(there, set_as_default=False) as client:

        def encode_again_and_again():
            for number in range(99):
                engine.encode(client, coder, where, tmp_path / f"cut {number}")

        stop = threading.Timer(0.5, there.close)
        stop.start()
        where_it_was = f"the Dask cluster at {client.scheduler.address} went away"
        with pytest.raises(UnreachableError, match=where_it_was):
            encode_again_and_again()
        stop.join()
