"""`--engine`: functions of the library on the command line, resumable; options it cannot do."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streambits as sb
from streambits.engines.partitions import partition_files
from streambits.engines.run import LocalEngine, learn

DASK = ("--engine", "dask", "--workers", 1)
FEW = ("--bits", 16, "--n-landmarks", 40)


@pytest.fixture
def folder(tmp_path, mixture):
    """A folder of 3 files of 700 rows."""
    (tmp_path / "rows").mkdir()
    for number, part in enumerate(np.split(mixture(2100), 3)):
        np.save(tmp_path / f"rows/{number}.npy", part)
    np.save(tmp_path / "queries.npy", mixture(4, seed=3))
    return tmp_path


@pytest.fixture(scope="module")
def cluster():
    """The options of a cluster that runs: --workers starts one for each command."""
    dask = pytest.importorskip("streambits.engines.dask", exc_type=ImportError)
    with dask.local_cluster(1) as client:
        yield "--engine", "dask", "--scheduler", client.scheduler.address


def test_learn_encode_and_search(command, folder, cluster):
    rows, model, codes = folder / "rows", folder / "model", folder / "codes"
    done = command("learn", rows, *FEW, "--out", model, *DASK, "--json")
    assert (done.code, done.json["rows"], done.json["partitions"]) == (0, 2100, 3)
    assert "sampled 3 of 3 partitions" in done.err
    assert "learned 3 of 3 partitions" in done.err
    settings = sb.Settings(bits=16, n_landmarks=40)
    wanted = learn(LocalEngine(), partition_files(rows), settings).learner
    assert sb.to_bytes(sb.load(model / "model.safetensors")) == sb.to_bytes(wanted)
    done = command("encode", model, rows, "--out", codes, *cluster, "--log-json")
    events = [json.loads(line) for line in done.err.splitlines()]
    assert [(one["what"], one["done"]) for one in events[-3:]] == [
        ("encoded", n) for n in (1, 2, 3)
    ]
    asked = ("search", codes, "--query", folder / "queries.npy", "-k", 5)
    here, there = command(*asked), command(*asked, *cluster)
    assert (here.code, there.code) == (0, 0)
    assert there.lines == here.lines
    again = command("encode", model, rows, "--out", codes, *cluster, "--json", "--quiet")
    assert (again.json["kept"], again.err) == (3, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("learn", "rows", "--engine", "dask"), "needs --scheduler ADDRESS or --workers N"),
        (("learn", "rows", *DASK, "--scheduler", "tcp://h:1"), "--scheduler ADDRESS or --workers"),
        (("learn", "rows", "--workers", 2), "--workers needs --engine"),
        (("learn", "rows", "--row-groups", 2), "--row-groups needs --engine"),
        (("learn", "rows", *DASK, "--skip-bad"), "--skip-bad is not an option of --engine dask"),
        (("learn", "rows", *DASK, "--device", "cuda"), "--device is not an option of --engine"),
        (("encode", "model", "rows", *DASK, "--to", "x.jsonl"), "--to is not an option of"),
        (("encode", "model", "rows", *DASK, "--keep", "name"), "--keep is not an option of"),
        (("search", "codes", "--query", "q.npy", *DASK, "--radius", 3), "--radius is not an"),
        (("search", "codes", "--query", "q.npy", *DASK, "--rerank", "r"), "--rerank is not an"),
    ],
)
def test_what_an_engine_cannot_do_is_refused_by_name(command, folder, arguments, complaint):
    out = () if arguments[0] == "search" else ("--out", folder / "out")
    done = command(*arguments, *out)
    assert done.code == 2
    assert complaint in " ".join(done.err.replace("│", " ").split())
    assert not (folder / "out").exists()


def test_codes_of_an_engine_need_a_folder(command, folder):
    done = command("encode", folder / "model", folder / "rows", *DASK)
    assert done.code == 2
    assert "--engine needs a folder" in done.err


def test_what_cannot_be_partitioned_and_urls_are_refused(fails, folder):
    assert "cannot be partitioned" in fails("learn", "-", "--out", folder / "out", *DASK)
    assert "a URL" in fails("learn", folder / "rows", "--out", "postgresql://host/out", *DASK)
    assert not (folder / "out").exists()


def test_no_scheduler_at_the_address(fails, folder, monkeypatch):
    from streambits.engines import dask  # noqa: PLC0415

    connect = dask.connect
    monkeypatch.setattr(dask, "connect", lambda address: connect(address, timeout=0.2))
    there = ("--engine", "dask", "--scheduler", "tcp://127.0.0.1:9")
    line = fails("learn", folder / "rows", *FEW, "--out", folder / "out", *there)
    assert line.startswith("no Dask scheduler answers at tcp://127.0.0.1:9")


def test_a_bad_partition_is_one_line_and_the_same_command_goes_on(command, fails, folder, cluster):
    bad = folder / "rows/1.npy"
    whole = bad.read_bytes()
    told = ("learn", folder / "rows", *FEW, "--out", folder / "out", *cluster, "--quiet")
    bad.write_bytes(whole[:-9])
    assert fails(*told).startswith(f"partition 1 ({bad})")
    bad.write_bytes(whole)
    assert command(*told).code == 0
    assert sb.load(folder / "out/model.safetensors").seen == 2100


def test_learn_encode_and_search_on_spark(command, folder, sail_server):
    pytest.importorskip("streambits.engines.spark", exc_type=ImportError)
    rows = np.concatenate([np.load(folder / f"rows/{number}.npy") for number in range(3)])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    pq.write_table(pa.table({"id": np.arange(2100), "v": lists}), folder / "rows.parquet")
    spark = ("--engine", "spark", "--remote", sail_server.url)
    read = (folder / "rows.parquet", "--ids", "id", "--columns", "v", *spark, "--partitions", 2)
    done = command("learn", *read, *FEW, "--out", folder / "model", "--json")
    assert (done.code, done.json["rows"], done.json["partitions"]) == (0, 2100, 2), done.err
    assert "learned 2 of 2 partitions" in done.err
    again = command("learn", *read, *FEW, "--out", folder / "model", "--json", "--quiet")
    assert (again.code, again.json["rows"]) == (0, 2100), again.err
    done = command("encode", folder / "model", *read, "--out", folder / "codes")
    assert done.code == 0, done.err
    asked = ("search", folder / "codes", "--query", folder / "queries.npy", "-k", 5)
    here, there = command(*asked), command(*asked, *spark)
    assert (here.code, there.code) == (0, 0)
    assert there.lines == here.lines
    missing = command("learn", *read[:-2], "--columns", "w", "--out", folder / "other")
    assert missing.code
    assert "the DataFrame has no column 'w'; it has id, v" in missing.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--engine", "spark"), "--engine spark needs --remote ADDRESS"),
        (("--engine", "spark", "--remote", "sc://h", "--workers", 2), "--workers is for --engine"),
        (("--engine", "spark", "--remote", "sc://h"), "name it with --ids"),
        ((*DASK, "--partitions", 2), "--partitions is for --engine spark"),
        (("--remote", "sc://h"), "--remote needs --engine"),
    ],
)
def test_options_of_spark_are_checked(command, folder, arguments, complaint):
    done = command("learn", folder / "rows", "--out", folder / "model", *arguments)
    assert done.code == 2
    assert complaint in " ".join(done.err.replace("│", " ").split())
