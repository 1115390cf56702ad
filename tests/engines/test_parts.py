"""Parts of codes: one per partition, the same bytes, made once; and answers out of many of them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits.engines import parts as module
from streambits.engines.job import EngineJob
from streambits.engines.job import encode as encode_job
from streambits.engines.job import learn as learn_job
from streambits.engines.partitions import partition_files
from streambits.engines.parts import code_files, merge_hits, remove_leftovers, search_shard
from streambits.engines.run import LocalEngine, array_partitions, encode, search
from streambits.errors import InputError, StorageError
from streambits.io.codes import open_sink
from streambits.io.codes.parquet import part_facts


@pytest.fixture(scope="module")
def coder(mixture):
    return sb.ssbc(mixture(60), 20, epochs="never").learn(mixture(3000)).coder()


@pytest.fixture
def opened(tmp_path):
    """opened(rows, count): the codes of rows in so many parts, and the folder."""

    def opened(coder, rows, cuts, name="out"):
        parts = encode(
            LocalEngine(), array_partitions(np.split(rows, cuts)), coder, tmp_path / name
        )
        return tmp_path / name, parts

    return opened


def test_parts_are_read_as_one_data_set(coder, mixture, opened):
    rows = mixture(5000)
    folder, parts = opened(coder, rows, [100, 100, 4000])
    assert [part.rows for part in parts] == [100, 0, 3900, 1000]
    assert [part.bytes for part in parts] == [
        path.stat().st_size for path in sorted((folder / "codes").iterdir())
    ]
    index = sb.open_codes(folder / "codes").index()
    np.testing.assert_array_equal(index.get(np.arange(5000)).packed, coder.encode(rows).packed)


def test_the_bytes_of_a_part_do_not_depend_on_batches(coder, mixture, opened, monkeypatch):
    rows = mixture(5000)
    first, _ = opened(coder, rows, [2000], "first")
    monkeypatch.setattr("streambits.engines.partitions.PIECE", 77)
    second, _ = opened(coder, rows, [2000], "second")
    for path in sorted((first / "codes").iterdir()):
        assert path.read_bytes() == (second / "codes" / path.name).read_bytes()


def test_what_is_finished_is_kept_and_what_has_changed_is_made_again(coder, mixture, opened):
    rows = mixture(3000)
    folder, _ = opened(coder, rows, [1000, 2000])
    _, parts = opened(coder, rows, [1000, 2000])
    assert [part.kept for part in parts] == [True] * 3
    other = rows.copy()
    other[1500] += 1
    _, parts = opened(coder, other, [1000, 2000])
    assert [part.kept for part in parts] == [True, False, True]
    (folder / "codes/part-000002.parquet").write_bytes(b"cut")
    (folder / "partitions/000000.json").write_text("{}")
    _, parts = opened(coder, other, [1000, 2000])
    assert [part.kept for part in parts] == [False, True, False]
    _, parts = opened(coder, np.concatenate([other[:1], other]), [1001, 2001])
    assert [part.kept for part in parts] == [False] * 3  # their ids are others
    again = sb.ssbc(mixture(60), 20, seed=1).learn(rows).coder()
    _, parts = opened(again, other, [1000, 2000])
    assert [part.kept for part in parts] == [False] * 3


def test_fewer_partitions_than_before_leave_nothing(coder, mixture, opened):
    rows = mixture(1000)
    folder, _ = opened(coder, rows, [100, 200, 300])
    (folder / "codes/.part-000000.parquet.1.2.new").write_bytes(b"half")
    opened(coder, rows, [500])
    assert [path.name for path in sorted((folder / "codes").iterdir())] == [
        "part-000000.parquet",
        "part-000001.parquet",
    ]
    remove_leftovers(folder, 0)
    assert not list((folder / "codes").iterdir())


def test_a_folder_that_a_worker_does_not_see_is_named(coder, mixture, tmp_path):
    (one,) = array_partitions([mixture(10)])
    with pytest.raises(StorageError, match=r"partition 0 .* on a disk that all workers"):
        module.encode_partition(coder, one, tmp_path / "elsewhere")


@given(
    cuts=st.lists(st.integers(0, 400), max_size=6).map(sorted),
    k=st.integers(1, 30),
    order=st.randoms(use_true_random=False),
)
def test_shards_answer_as_one_index(coder, mixture, cuts, k, order):
    rows = mixture(400)
    codes, asked = coder.encode(rows), coder.encode(mixture(5, seed=9))
    whole = sb.HammingIndex(20)
    whole.add(codes)
    shards = []
    for some in np.split(np.arange(400), cuts):
        shards.append(sb.HammingIndex(20))
        shards[-1].add(codes[some], some)
    order.shuffle(shards)
    for queries in (asked, coder.project(mixture(5, seed=9))):
        wanted = whole.search(queries, k)
        found = search(LocalEngine(), shards, queries, k)
        np.testing.assert_array_equal(found.ids, wanted.ids)
        np.testing.assert_array_equal(found.distances, wanted.distances)


def test_texts_of_equal_distance_are_in_the_order_of_an_index(coder, mixture):
    codes = coder.encode(mixture(300))[np.zeros(300, int)]  # all the same
    names = np.array([f"text {i}" for i in range(300)], np.dtypes.StringDType())
    whole, shards = sb.HammingIndex(20), [sb.HammingIndex(20), sb.HammingIndex(20)]
    whole.add(codes, names)
    for shard, some in zip(shards, (slice(0, 100), slice(100, 300))):
        shard.add(codes[some], names[some])
    wanted = whole.search(codes[:1], 50)
    found = merge_hits([search_shard(one, codes[:1], 50) for one in shards], 50)
    assert found.ids.tolist() == wanted.ids.tolist()


def test_refined_codes_answer_as_one_index(mixture, opened):
    rows = mixture(4000)
    coder = sb.ssbc(rows[:60], 16, refine=4, epochs="never").learn(rows).coder()
    folder, _ = opened(coder, rows, [500, 2500])
    whole, asked = sb.open_codes(folder / "codes").index(), coder.queries(mixture(20, seed=5))
    found = search(LocalEngine(), code_files(folder), asked, 10, candidates="all")
    wanted = whole.search(asked, 10, candidates="all")
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.distances, wanted.distances)
    near = search(LocalEngine(), code_files(folder), asked, 10, candidates=100)
    assert (near.distances <= whole.search(asked, 10, candidates=100).distances).all()


def test_an_id_in_two_shards_is_refused(coder, mixture):
    codes = coder.encode(mixture(20))
    shards = [sb.HammingIndex(20), sb.HammingIndex(20)]
    for shard in shards:
        shard.add(codes[:5], range(5))
    with pytest.raises(InputError, match="the id 0 is in two shards"):
        search(LocalEngine(), shards, codes[:1], 10)
    with pytest.raises(InputError, match="no shards"):
        search(LocalEngine(), [], codes[:1], 10)


def test_shards_are_named_by_a_folder_a_file_or_a_list(coder, mixture, opened, tmp_path):
    folder, _ = opened(coder, mixture(300), [100])
    files = sorted((folder / "codes").iterdir())
    assert code_files(folder) == code_files(folder / "codes") == files
    assert code_files(files[0]) == files[:1]
    assert code_files(files) == files
    (tmp_path / "none").mkdir()
    with pytest.raises(StorageError, match="no Parquet files"):
        code_files(tmp_path / "none")


# Folders of jobs


def plan_of(files, folder):
    return EngineJob(list(partition_files(files)), folder, {"files": [[str(files)]]})


def test_a_job_goes_on_with_what_it_had(tmp_path, mixture, files, content):
    rows = mixture(6000)
    where, settings = files(rows, 6), sb.Settings(bits=8, n_landmarks=40)
    wanted = learn_job(LocalEngine(), plan_of(where, tmp_path / "alone"), settings)
    bad = tmp_path / "parts" / "part004.npy"
    whole, done = bad.read_bytes(), []
    bad.write_bytes(whole[:-8])
    with pytest.raises(StorageError, match=r"partition 4 .*part004.npy"):
        learn_job(LocalEngine(), plan_of(where, tmp_path / "job"), settings)
    start = settings.checked().learner([mixture(400, seed=3)])
    bad.write_bytes(whole)
    first = EngineJob(plan_of(where, tmp_path / "other").partitions, tmp_path / "other", {})
    bad.write_bytes(whole[:-8])
    with pytest.raises(StorageError, match="partition 4"):
        learn_job(LocalEngine(), first, start)
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "other/shards").iterdir()}
    assert len(shards) == 4
    bad.write_bytes(whole)
    learn_job(
        LocalEngine(),
        first,
        start,
        on_done=lambda *_: done.append(
            {path: path.stat().st_mtime_ns for path in (tmp_path / "other/shards").iterdir()}
        ),
    )
    assert shards.items() <= done[-1].items()  # they were not written again
    found = learn_job(LocalEngine(), plan_of(where, tmp_path / "job"), settings)
    assert sb.to_bytes(found.learner) == sb.to_bytes(wanted.learner)
    assert content(tmp_path / "job") == content(tmp_path / "alone")
    assert not (tmp_path / "job/shards").exists()


def test_a_job_that_has_ended_says_so_and_refuses_other_files(tmp_path, mixture, files):
    where, settings = files(mixture(3000), 3), sb.Settings(bits=8, n_landmarks=40)
    first = learn_job(LocalEngine(), plan_of(where, tmp_path / "job"), settings)

    class Nobody:
        """An engine that is not needed."""

    again = learn_job(Nobody(), plan_of(where, tmp_path / "job"), settings)
    assert sb.to_bytes(again.learner) == sb.to_bytes(first.learner)
    assert [one.rows for one in again.reports] == [1000] * 3
    np.save(tmp_path / "parts/part003.npy", mixture(10))
    with pytest.raises(StorageError, match=r"partition 3 .* is new: choose another folder"):
        learn_job(Nobody(), plan_of(where, tmp_path / "job"), settings)
    for number in (2, 3):
        (tmp_path / f"parts/part00{number}.npy").unlink()
    with pytest.raises(StorageError, match="learned 3 partitions, and there are 2 now"):
        learn_job(Nobody(), plan_of(where, tmp_path / "job"), settings)
    with pytest.raises(StorageError, match="belongs to another job: bits is 8 there and 9 here"):
        learn_job(Nobody(), plan_of(where, tmp_path / "job"), sb.Settings(bits=9, n_landmarks=40))


def test_the_folder_of_codes_is_searched_by_its_own_coder(tmp_path, mixture, files, coder):
    rows = mixture(2000)
    parts = encode_job(LocalEngine(), plan_of(files(rows, 4), tmp_path / "job"), coder)
    assert sum(part.rows for part in parts) == 2000
    searcher = sb.open(tmp_path / "job")
    assert searcher.search(rows[:5], 1, real=False).distances.tolist() == [[0]] * 5
    job = json.loads((tmp_path / "job/job.json").read_text())
    assert (job["verb"], job["sink"]) == ("encode", "codes")
    assert sb.describe(tmp_path / "job")["codes"]["codes"] == 2000


def test_a_file_with_marks_of_removals_is_refused(coder, mixture, tmp_path):
    sink = open_sink(str(tmp_path / "codes"), bits=20)
    sink.write(np.arange(100), coder.encode(mixture(100)))
    sink.commit()
    sink.remove(np.array([7]))
    sink.commit()
    marked = [path for path in code_files(tmp_path / "codes") if part_facts(path).tombstones]
    assert marked
    with pytest.raises(StorageError, match="marks of removals"):
        search_shard(marked[0], coder.encode(mixture(2)))
