"""Dask: the same bits as in this process, on a cluster of two workers that is really there."""

import os
import subprocess
import sys
import threading
import time

import distributed
import numpy as np
import pyarrow as pa
import pytest
from distributed.scheduler import KilledWorker
from pyarrow import parquet

import streambits as sb
from streambits.engines import dask as engine
from streambits.engines import run
from streambits.engines.partitions import partition_files
from streambits.errors import InputError, StorageError, UnreachableError

SETTINGS = sb.Settings(bits=16, n_landmarks=60, refine=2)


@pytest.fixture(scope="module")
def alone(mixture):
    """The model of 6,000 rows in 5 partitions, learned in this process."""
    partitions = run.array_partitions(np.array_split(mixture(6000), 5))
    return sb.to_bytes(run.learn(run.LocalEngine(), partitions, SETTINGS).learner)


def test_files_give_the_bits_of_this_process(cluster, alone, files, mixture):
    done = []
    where = files(mixture(6000), 5)
    found = engine.learn(cluster, where, SETTINGS, on_done=lambda *one: done.append(one))
    assert sb.to_bytes(found) == alone
    whole = [(what, number + 1, 5) for what in ("sampled", "learned") for number in range(5)]
    assert done == whole


def test_row_groups_give_the_bits_of_files(cluster, alone, tmp_path, mixture):
    rows = pa.FixedSizeListArray.from_arrays(mixture(6000).ravel(), 8)
    parquet.write_table(pa.table({"v": rows}), tmp_path / "a.parquet", row_group_size=1200)
    assert sb.to_bytes(engine.learn(cluster, tmp_path / "a.parquet", SETTINGS, groups=1)) == alone


def test_dask_arrays_and_data_frames_give_the_bits_of_files(cluster, alone, mixture, tmp_path):
    array, frame = (pytest.importorskip(f"dask.{name}") for name in ("array", "dataframe"))
    pandas = pytest.importorskip("pandas")
    rows = mixture(6000)
    blocks = array.from_array(rows, (1200, 3))
    assert sb.to_bytes(engine.learn(cluster, blocks, SETTINGS)) == alone
    for _ in range(2):  # the second time it is there
        assert sb.to_bytes(engine.learn(cluster, blocks, SETTINGS, folder=tmp_path)) == alone
    with pytest.raises(StorageError, match="partition 0"):
        engine.learn(cluster, blocks + 1, SETTINGS, folder=tmp_path)
    table = pandas.DataFrame(rows, columns=[f"x{i}" for i in range(8)])
    table["id"] = np.arange(6000)
    parts = frame.from_pandas(table, npartitions=5)
    assert sb.to_bytes(engine.learn(cluster, parts, SETTINGS, ids="id")) == alone


def test_a_learner_goes_on(cluster, files, mixture):
    rows = mixture(4000)
    begun = sb.ssbc(rows[:40], 8, epochs="never").learn(rows[:1000])
    where = files(rows[1000:], 3)
    found = engine.learn(cluster, where, begun)
    wanted = run.learn(run.LocalEngine(), partition_files(where), begun).learner
    assert found.seen == 4000
    assert sb.to_bytes(found) == sb.to_bytes(wanted)


def test_codes_and_answers_are_those_of_this_process(cluster, files, mixture, tmp_path, content):
    rows = mixture(5000)
    where = files(rows, 4)
    coder = sb.ssbc(rows[:60], 20, epochs="never").learn(rows).coder()
    parts = engine.encode(cluster, coder, where, tmp_path / "out")
    run.encode(run.LocalEngine(), partition_files(where), coder, tmp_path / "alone")
    mine, theirs = content(tmp_path / "out"), content(tmp_path / "alone")
    assert theirs.items() <= mine.items()
    assert [part.rows for part in parts] == [1250] * 4
    assert all(part.kept for part in engine.encode(cluster, coder, where, tmp_path / "out"))
    asked = coder.encode(mixture(30, seed=4))
    wanted = sb.open_codes(tmp_path / "out").index().search(asked, 10)
    found = engine.search(cluster, tmp_path / "out", asked, 10)
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.distances, wanted.distances)


def test_the_sample_of_an_evaluation_comes_from_all_partitions(cluster, files, mixture):
    rows = mixture(3000)
    learner = sb.ssbc(rows[:60], 32).learn(rows)
    found = engine.evaluate(cluster, learner, files(rows, 3), sample=1000, lengths=(), k=5)
    assert (found.rows + found.queries, found.k) == (1000, 5)
    assert found.model.recall[100] > 0.5


def test_a_worker_of_several_threads_gives_the_same_bits(alone, files, mixture):
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=4, dashboard_address="127.0.0.1:0"
    ) as client:
        assert sb.to_bytes(engine.learn(client, files(mixture(6000), 5), SETTINGS)) == alone


def test_workers_of_a_local_cluster_use_one_thread_each(cluster):
    assert set(cluster.run(os.environ.get, "OPENBLAS_NUM_THREADS").values()) == {"1"}
    assert set(cluster.nthreads().values()) == {1}


# Bad input


def test_an_unreadable_partition_is_named(cluster, files, mixture, tmp_path):
    where = files(mixture(2000), 4)
    (tmp_path / "parts/part002.npy").write_bytes(b"rubbish")
    with pytest.raises(StorageError, match=r"partition 2 \(.*part002.npy\)"):
        engine.learn(cluster, where, SETTINGS)


def test_partitions_of_other_widths_are_named(cluster, files, mixture, tmp_path):
    where = files(mixture(2000), 4)
    np.save(tmp_path / "parts/part003.npy", np.ones((10, 5)))
    with pytest.raises(InputError, match=r"partition 3 .*rows of 5 numbers, and partition 2"):
        engine.learn(cluster, where, SETTINGS)
    learner = sb.ssbc(mixture(40), 8)
    with pytest.raises(InputError, match=r"partition 3 .*its rows have 5 numbers"):
        engine.learn(cluster, where, learner)


def test_a_merge_that_fails_leaves_nothing_behind_and_the_client_connected(
    cluster, files, mixture, tmp_path
):
    where = files(mixture(1200), 12)
    np.save(tmp_path / "parts/part010.npy", np.ones((10, 5)))
    learner = sb.ssbc(mixture(40), 8, epochs="never")
    for _ in range(12):  # the next one was refused every second time
        with pytest.raises(InputError, match="partition 10 "):
            engine.learn(cluster, where, learner)

    def left(dask_scheduler):
        return len(dask_scheduler.tasks)

    end = time.monotonic() + 20
    while cluster.run_on_scheduler(left) and time.monotonic() < end:
        time.sleep(0.05)
    assert cluster.run_on_scheduler(left) == 0


def test_rows_that_are_here_need_no_cluster(cluster, mixture):
    with pytest.raises(InputError, match="source is a ndarray"):
        engine.learn(cluster, mixture(10), SETTINGS)
    with pytest.raises(InputError, match="client is a str"):
        engine.learn("tcp://127.0.0.1:8786", "*.npy", SETTINGS)
    array = pytest.importorskip("dask.array")
    with pytest.raises(InputError, match="1 dimensions"):
        engine.learn(cluster, array.ones(10), SETTINGS)


def test_no_scheduler_at_the_address():
    with pytest.raises(
        UnreachableError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 "
    ):
        engine.connect("tcp://127.0.0.1:9", timeout=0.3)
    with pytest.raises(UnreachableError, match="no Dask scheduler answers at nonsense://x"):
        engine.connect("nonsense://x", timeout=0.3)


@pytest.mark.parametrize(("installed", "complaint"), [(None, "cannot import"), ("0.0.9", "0.0.9")])
def test_a_worker_without_this_version_is_named(installed, complaint, tmp_path):
    """A worker process whose streambits is another one, or none that can be imported."""
    package = tmp_path / "streambits"
    package.mkdir()
    text = "raise ImportError('not installed')" if installed is None else "__version__ = '0.0.9'"
    (package / "__init__.py").write_text(text)
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as there:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", there.scheduler_address]
        more = ["--no-dashboard", "--no-nanny", "--nthreads", "1"]
        variables = os.environ | {"PYTHONPATH": str(tmp_path)}
        worker = subprocess.Popen(
            [*command, *more], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with (
                distributed.Client(there, set_as_default=False) as client,
                pytest.raises(InputError, match=f"the worker tcp://.*{complaint}"),
            ):
                engine.DaskEngine(client)
        finally:
            worker.kill()
            worker.wait()


def test_a_cluster_that_goes_away_is_named_and_what_is_done_is_kept(files, mixture, tmp_path):
    rows = mixture(40_000)
    where = files(rows, 40)
    coder = sb.ssbc(rows[:60], 20, epochs="never").learn(rows[:3000]).coder()
    there = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    )
    with there, distributed.Client(there, set_as_default=False) as client:
        address = client.scheduler.address
        gone = threading.Thread(target=there.close)

        def done(what, number, _):
            if (what, number) == ("encoded", 3):
                gone.start()
                gone.join()

        with pytest.raises(UnreachableError, match=f"the Dask cluster at {address} went away"):
            engine.encode(client, coder, where, tmp_path / "out", on_done=done)
    kept = len(list((tmp_path / "out/partitions").glob("*.json")))
    assert kept >= 3
    parts = run.encode(run.LocalEngine(), partition_files(where), coder, tmp_path / "out")
    assert sum(part.kept for part in parts) == kept
    assert not list((tmp_path / "out").rglob(".*"))


def test_a_cluster_without_workers_is_not_waited_for_without_end(files, mixture, monkeypatch):
    monkeypatch.setattr(engine, "WAIT", 0.5)
    learner = sb.ssbc(mixture(40), 8)
    there = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    )
    with there, distributed.Client(there, set_as_default=False) as client:
        found = engine.DaskEngine(client)
        there.scale(0)
        partitions = partition_files(files(mixture(1000), 2))
        with pytest.raises(UnreachableError, match=r"went away or does not answer .*0/1 workers"):
            run.learn(found, partitions, learner)


def test_a_partition_that_kills_its_workers_is_named(cluster, files, mixture):
    partitions = partition_files(files(mixture(100), 2))
    found = engine.DaskEngine(cluster)
    complaint = r"partition 1 \(.*part001.npy\): 4 workers have"
    with pytest.raises(UnreachableError, match=complaint), found._errors(partitions):
        raise KilledWorker(("streambits-learn-1", 1), "tcp://127.0.0.1:1", 3)
    with pytest.raises(InputError, match="no module numba: install streambits"), found._errors():
        raise ModuleNotFoundError("no", name="numba")


def test_what_fails_leaves_no_tasks_behind(cluster, files, mixture, tmp_path):
    where = files(mixture(2000), 8)
    (tmp_path / "parts/part000.npy").write_bytes(b"rubbish")
    with pytest.raises(StorageError):
        engine.learn(cluster, where, sb.ssbc(mixture(40), 8))
    for _ in range(50):
        left = cluster.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        if not left:
            break
        time.sleep(0.1)
    assert not left
