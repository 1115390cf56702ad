import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streambits as sb
from streambits.engines import run
from streambits.engines.partitions import partition_files
from streambits.engines.parts import Part, code_file
from streambits.engines.shards import learn_partition
from streambits.errors import InputError, StorageError, StreambitsError, UnreachableError
from streambits.methods.settings import Settings

spark = pytest.importorskip("streambits.engines.spark", exc_type=ImportError)
F = pytest.importorskip("pyspark.sql.functions")

COUNT, WIDTH = 6000, 8
SETTINGS = Settings(bits=16, n_landmarks=40)
ROWS = np.random.default_rng(0).random((COUNT, WIDTH), dtype=np.float32)


def table(rows, ids=None):
    """Rows as a table, not in the order of their ids."""
    ids = np.arange(len(rows)) if ids is None else np.asarray(ids)
    order = np.random.default_rng(1).permutation(len(rows))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows[order].ravel()), rows.shape[1])
    return pa.table({"id": ids[order], "vector": lists})


def shares(count, n_partitions, ids=None):
    """The partition of every row, computed without Spark."""
    ids = range(count) if ids is None else ids
    return np.array([zlib.crc32(str(one).encode()) % n_partitions for one in ids])


def local(rows, which, ids="id"):
    """The same partitions in this process, each in the order of its ids."""
    frames = []
    for number in range(which.max() + 1):
        here = np.flatnonzero(which == number)
        frame = pd.DataFrame(rows[here])
        frame[ids] = here
        frames.append(frame)
    return run.array_partitions(frames, ids=ids)


@pytest.fixture(scope="module")
def session(sail_server):
    with contextlib.closing(_Stopped(sail_server.url)) as found:
        yield found.session


class _Stopped:
    def __init__(self, url):
        self.session = spark.connect(url, retry_seconds=1)

    def close(self):
        self.session.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows in four files."""
    place = tmp_path_factory.mktemp("rows")
    whole = table(ROWS)
    for number in range(4):
        some = whole.slice(number * COUNT // 4, COUNT // 4)
        pq.write_table(some, place / f"{number}.parquet", row_group_size=700)
    return place


@pytest.fixture(scope="module")
def frame(session, folder):
    return spark.read_parquet(session, folder)


@pytest.mark.parametrize("n_partitions", [1, 4, 16])
def test_the_same_bits_as_in_this_process(session, frame, n_partitions, tmp_path):
    seen = []
    learner = spark.learn(
        session,
        frame,
        SETTINGS,
        n_partitions=n_partitions,
        on_done=lambda what, done, count: seen.append((what, done, count)),
    )
    partitions = local(ROWS, shares(COUNT, n_partitions))
    expected = run.learn(run.LocalEngine(), partitions, SETTINGS).learner
    assert sb.to_bytes(learner) == sb.to_bytes(expected)
    assert seen == [
        (what, done, n_partitions)
        for what in ("sampled", "learned")
        for done in range(1, n_partitions + 1)
    ]

    coder = learner.coder()
    parts = spark.encode(session, coder, frame, tmp_path / "a", n_partitions=n_partitions)
    assert [part.rows for part in parts] == np.bincount(shares(COUNT, n_partitions)).tolist()
    run.encode(run.LocalEngine(), partitions, coder, tmp_path / "b")
    files = sorted(os.listdir(tmp_path / "a" / "codes"))
    assert files == sorted(os.listdir(tmp_path / "b" / "codes"))
    for name in files:
        ours, theirs = (tmp_path / one / "codes" / name for one in "ab")
        assert ours.read_bytes() == theirs.read_bytes()
    again = spark.encode(session, coder, frame, tmp_path / "a", n_partitions=n_partitions)
    assert all(part.kept for part in again)

    index = sb.HammingIndex(bits=16)
    index.add(coder.encode(ROWS), np.arange(COUNT))
    stored = spark.read_parquet(session, tmp_path / "a" / "codes")
    for queries in (coder.encode(ROWS[:20]), coder.project(ROWS[:20])):
        wanted = index.search(queries, 5)
        paths = [tmp_path / "a" / "codes" / name for name in files]
        for codes in (paths, stored, stored.repartition(3)):
            hits = spark.search(session, codes, queries, 5)
            np.testing.assert_array_equal(hits.ids, wanted.ids)
            np.testing.assert_array_equal(hits.distances, wanted.distances)
            assert hits.distances.dtype == wanted.distances.dtype


def test_files_that_tasks_read_are_partitions_too(session, folder, tmp_path):
    options = {"columns": "vector", "ids": "id", "groups": 2}
    learner = spark.learn(session, folder, SETTINGS, **options)
    partitions = partition_files(folder, **options)
    assert len(partitions) == 8
    expected = run.learn(run.LocalEngine(), partitions, SETTINGS).learner
    assert sb.to_bytes(learner) == sb.to_bytes(expected)
    parts = spark.encode(session, learner.coder(), folder, tmp_path, columns="vector")
    assert [part.rows for part in parts] == [COUNT // 4] * 4
    assert sum(len(batch.ids) for batch in sb.open_codes(tmp_path / "codes")) == COUNT


def test_columns_of_numbers_ids_of_text_and_a_column_of_partitions(session, tmp_path):
    names = [f"x{column}" for column in range(WIDTH)]
    some, days = ROWS[:900].astype(np.float64), np.arange(900) % 3
    columns = dict(zip(names, some.T, strict=True))
    texts = [f"row {number:04d}" for number in range(900)]
    whole = pa.table({"name": texts, "day": [f"2026-0{day + 1}" for day in days], **columns})
    frame = session.createDataFrame(whole).repartition(5)
    options = {"vectors": names, "ids": "name", "partition": "day"}
    learner = spark.learn(session, frame, SETTINGS, **options)
    partitions = run.array_partitions([some[days == day] for day in range(3)])
    expected = run.learn(run.LocalEngine(), partitions, SETTINGS).learner
    assert sb.to_bytes(learner) == sb.to_bytes(expected)

    coder = learner.coder()
    spark.encode(session, coder, frame, tmp_path, **options)
    index = sb.HammingIndex(bits=16)
    index.add(coder.encode(some), texts)
    wanted = index.search(coder.encode(some[:7]), 4)
    hits = spark.search(
        session, spark.read_parquet(session, tmp_path / "codes"), coder.encode(some[:7]), 4
    )
    assert hits.ids.tolist() == wanted.ids.tolist()
    found = spark.evaluate(session, learner, frame, sample=300, partitions=options)
    assert found.rows + found.queries == 300


def test_a_given_learner_stays_as_it_is_and_what_it_knows_is_kept(session, frame):
    learner = sb.ssbc(ROWS[:40], bits=16).learn(ROWS[:100] + 0.01)
    before = sb.to_bytes(learner)
    found = spark.learn(session, frame, learner, n_partitions=2)
    assert sb.to_bytes(learner) == before
    assert (found.seen, found.epochs) == (COUNT + 100, learner.epochs)


def test_refined_codes_are_found_by_what_they_decode_to(session, frame, tmp_path):
    learner = spark.learn(
        session, frame, Settings(bits=16, refine=4, n_landmarks=40), n_partitions=2
    )
    coder = learner.coder()
    spark.encode(session, coder, frame, tmp_path, n_partitions=2)
    index = sb.HammingIndex(bits=16, refine=4)
    index.add(coder.encode(ROWS), np.arange(COUNT))
    how = {"k": 5, "candidates": "all"}
    wanted = index.search(coder.queries(ROWS[:9]), **how)
    stored = spark.read_parquet(session, tmp_path / "codes")
    hits = spark.search(session, stored, coder.queries(ROWS[:9]), **how)
    np.testing.assert_array_equal(hits.ids, wanted.ids)


def test_only_shards_travel(session, frame, monkeypatch):
    came = []

    class Counting(spark.Results):
        def add(self, number, piece, pieces, error, content):
            came.append(len(content))
            return super().add(number, piece, pieces, error, content)

    monkeypatch.setattr(spark, "Results", Counting)
    learner = sb.ssbc(ROWS[:40], bits=16, epochs="never")
    spark.learn(session, frame, learner, n_partitions=4)
    shards = [learn_partition(learner, one) for one in local(ROWS, shares(COUNT, 4))]
    sizes = sum(len(sb.to_bytes(shard)) for shard in shards)
    assert sum(came) == pytest.approx(sizes, abs=4 * 100)  # partitions have longer names here


class Repeatable:
    """A DataFrame whose results are sorted, so that none comes before all tasks are done.

    Spark repeats tasks anyway; Sail 0.7 does not, if the client has got something already."""

    def __init__(self, frame):
        self.frame = frame

    def repartition(self, *how):
        return Repeatable(self.frame.repartition(*how))

    def mapInArrow(self, *how):
        return self.frame.mapInArrow(*how).orderBy("number", "piece")


def test_a_partition_counts_once_though_tasks_are_repeated(sail, folder, tmp_path):
    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def failing(task):
        def work(shared, partition):  # a worker that dies with its work done, at first
            found = task(shared, partition)
            mark = attempts / str(partition.number)
            if partition.number % 2 and not mark.exists():
                mark.touch()
                raise RuntimeError("the worker is gone")
            return found

        return work

    with sail(mode="local-cluster") as server:
        session = spark.connect(server.url)
        frame, partitions = spark.partition_frame(
            spark.read_parquet(session, folder), n_partitions=4
        )
        engine = spark.SparkEngine(session, Repeatable(frame))
        undisturbed = engine.map
        engine.map = lambda work, *more: undisturbed(failing(work), *more)
        coder = sb.ssbc(ROWS[:40], bits=16).coder()
        parts = run.encode(engine, partitions, coder, tmp_path / "job")
        session.stop()
    assert sorted(os.listdir(attempts)) == ["1", "3"]
    assert sum(part.rows for part in parts) == COUNT
    names = sorted(os.listdir(tmp_path / "job" / "codes"))
    assert names == [code_file("", number).name for number in range(4)]
    run.encode(run.LocalEngine(), local(ROWS, shares(COUNT, 4)), coder, tmp_path / "local")
    for name in names:
        ours, theirs = (tmp_path / one / "codes" / name for one in ("job", "local"))
        assert ours.read_bytes() == theirs.read_bytes()


def bad_frame(session, rows, ids=None, **columns):
    lists = [None if row is None else list(map(float, row)) for row in rows]
    ids = list(range(len(rows))) if ids is None else ids
    data = {"id": ids, "vector": pa.array(lists, pa.list_(pa.float64())), **columns}
    return session.createDataFrame(pa.table(data))


ERRORS = {
    "a value that is not a number": (
        lambda session: bad_frame(session, [*ROWS[:70], [np.nan] * WIDTH]),
        {},
        InputError,
        r"partition 1 \(the DataFrame, share 1 of 2 by id\): .*, id 70: value 1 of 8 is NaN",
    ),
    "no vector": (
        lambda session: bad_frame(session, [*ROWS[:70], None]),
        {},
        InputError,
        "id 70: the row is missing",
    ),
    "another width in a partition": (
        lambda session: bad_frame(session, [*ROWS[:70], [1.0, 2.0]]),
        {},
        InputError,
        "id 70: expected 8 values, got 2",
    ),
    "another width in another partition": (
        lambda session: bad_frame(session, [*ROWS[:70], *ROWS[:70, :3]], part=[0] * 70 + [1] * 70),
        {"n_partitions": None, "partition": "part", "vectors": "vector"},
        InputError,
        r"partition 1 \(the DataFrame, part = 1\) has rows of 3 numbers, and partition 0",
    ),
    "no id": (
        lambda session: bad_frame(session, ROWS[:3], [1, None, 2]),
        {},
        InputError,
        "1 rows of the DataFrame have no id in the column 'id'",
    ),
    "an id twice": (
        lambda session: bad_frame(session, ROWS[:70], [5, *range(69)]),
        {},
        InputError,
        "the id 5 comes twice",
    ),
    "no such column": (
        lambda session: bad_frame(session, ROWS[:3]),
        {"vectors": "vectors"},
        InputError,
        "the DataFrame has no column 'vectors'; it has id, vector",
    ),
    "no such column of partitions": (
        lambda session: bad_frame(session, ROWS[:3]),
        {"partition": "day"},
        InputError,
        "the DataFrame has no column 'day'",
    ),
    "texts as vectors": (
        lambda session: session.createDataFrame(pa.table({"id": [1], "vector": ["a"]})),
        {"vectors": "vector"},
        InputError,
        "column 'vector' is string, neither numbers nor lists of numbers",
    ),
    "no rows": (
        lambda session: bad_frame(session, ROWS[:3]).filter("id < 0"),
        {},
        InputError,
        "the DataFrame has no rows",
    ),
    "no partitions": (
        lambda session: bad_frame(session, ROWS[:3]),
        {"n_partitions": 0},
        InputError,
        "n_partitions",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input_is_named(session, name):
    make, options, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        spark.learn(session, make(session), SETTINGS, **{"n_partitions": 2, **options})


def test_data_that_change_meanwhile_are_refused(session, tmp_path):
    learner = sb.ssbc(ROWS[:40], bits=16)
    pq.write_table(table(ROWS[:500]), tmp_path / "a.parquet")
    frame, partitions = spark.partition_frame(spark.read_parquet(session, tmp_path), n_partitions=2)
    pq.write_table(table(ROWS[:500], np.arange(500, 1000)), tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"of the .* rows that were counted: the data have changed"
    ):
        run.learn(spark.SparkEngine(session, frame), partitions, learner)
    pq.write_table(table(ROWS[:1], [7]), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").unlink()
    here = shares(8, 2)[7]
    others = [replace(partitions[1 - here], number=0)]
    with pytest.raises(InputError, match=f"a partition '{here}' that was not there"):
        run.learn(spark.SparkEngine(session, frame), others, learner)


def test_codes_are_checked(session, tmp_path):
    coder = sb.ssbc(ROWS[:40], bits=16).coder()
    frame = session.createDataFrame(pa.table({"id": [1], "code": [b"ab"]}))
    with pytest.raises(InputError, match="the DataFrame has no column 'epoch'; it has id, code"):
        spark.search(session, frame, coder.encode(ROWS[:1]))
    codes = pa.table({"id": [1, 1], "epoch": [0, 0], "code": [b"ab", b"cd"]})
    frame = session.createDataFrame(codes)
    with pytest.raises(InputError, match="1"):
        spark.search(session, frame, coder.encode(ROWS[:1]))
    with pytest.raises(InputError, match="the DataFrame has no codes"):
        spark.search(session, frame.filter("id > 5"), coder.encode(ROWS[:1]))
    with pytest.raises(StorageError, match=r"nothing\.parquet"):
        spark.search(session, [tmp_path / "nothing.parquet"], coder.encode(ROWS[:1]))


def test_files_that_the_server_cannot_read(session, tmp_path):
    with pytest.raises(StorageError, match="there is no Parquet file at /nowhere"):
        spark.read_parquet(session, "/nowhere")
    (tmp_path / "a.parquet").write_bytes(b"rubbish, and enough of it")
    with pytest.raises(StorageError, match=r"reading .*a\.parquet, cannot do it"):
        spark.read_parquet(session, tmp_path / "a.parquet")


def test_a_data_frame_of_another_spark_is_refused(session):
    class Classic:
        def mapInArrow(self):
            pass

    with pytest.raises(InputError, match="not of Spark Connect"):
        spark.learn(session, Classic(), SETTINGS)


def test_it_can_be_imported_by_a_program_without_a_file():
    program = "import streambits.engines.spark as found; assert found"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("remote", ["http://host:1", "sc://", "sc://host:port", "host"])
def test_what_is_not_an_address(remote):
    with pytest.raises(InputError, match="is not the address of a Spark Connect server: sc://"):
        spark.connect(remote)


def test_no_server_at_the_address():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        begun = time.monotonic()
        with pytest.raises(UnreachableError, match=f"server at sc://127.0.0.1:{port}: .*refused"):
            spark.connect(f"sc://127.0.0.1:{port}/;token=secret")
    assert time.monotonic() - begun < 3


def test_workers_without_the_package(sail):
    with sail(without=True) as server:
        session = spark.connect(server.url)
        frame = bad_frame(session, ROWS[:100])
        with pytest.raises(StreambitsError, match=r"has no streambits .*: install that version"):
            spark.learn(session, frame, sb.ssbc(ROWS[:40], bits=16), n_partitions=2)
        session.stop()


def test_workers_with_another_version(session, frame, monkeypatch):
    monkeypatch.setattr(sb, "__version__", "99.0")
    with pytest.raises(StreambitsError, match=r"has streambits .*, and this is streambits 99\.0: "):
        spark.learn(session, frame, sb.ssbc(ROWS[:40], bits=16), n_partitions=2)


def test_a_server_that_goes_away_in_the_middle(sail, tmp_path):
    def work(shared, item):
        shared.touch()
        time.sleep(60)
        return Part(item, "", 0, 0)

    with sail() as server:
        session = spark.connect(server.url, retry_seconds=0.1)

        def end():
            while not (tmp_path / "began").exists():
                time.sleep(0.05)
            server.process.kill()

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(UnreachableError, match="does not answer any more"):
            spark.SparkEngine(session).map(work, [0], tmp_path / "began", run.silent)
        thread.join()
        session.client.close()
