"""Jobs that are killed at random moments, and started again until they are done.

2 kills of each kind; with STREAMBITS_SLOW=1 100, and 20 to 50.
"""

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from streambits.io.codes.parquet import read_codes

pytestmark = pytest.mark.slow
SLOW = bool(os.environ.get("STREAMBITS_SLOW"))
KILLS, BROKER_KILLS, DELETE_KILLS, FEW = (100, 20, 50, 20) if SLOW else (2, 2, 2, 2)
LEARN = ["--bits", 8, "--set", "n_landmarks=40", "--skip-bad", "--set", "quiet=true"]
ONLINE = [*LEARN, "--set", "refresh=700"]


def kill_until(jobs, command, kills, tmp_path, content):
    """Jobs in new folders, one after the other, until there were enough kills."""
    wanted = content(tmp_path / "alone")
    seconds = jobs.whole([*command, "--out", tmp_path / "timed"])
    assert content(tmp_path / "timed") == wanted
    found = tries = 0
    while found < kills:
        tries += 1
        folder = tmp_path / f"killed{tries}"
        found += jobs.killed([*command, "--out", folder], min(seconds, 2.0))
        assert content(folder) == wanted
        assert not list(folder.rglob(".*.new"))
    return found


def test_online_over_parquet(jobs, moving, moving_files, tmp_path, content):
    command = ["online", moving_files, *ONLINE]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    wanted = content(tmp_path / "alone")
    kinds = {name.partition("/")[0] for name in wanted}
    assert kinds == {
        "codes",
        "epochs",
        "model.safetensors",
        "coders.safetensors",
        "rejects.jsonl",
    }
    assert kill_until(jobs, command, KILLS, tmp_path, content) >= KILLS
    coded = list(read_codes(tmp_path / "killed1" / "codes"))
    assert len({codes.epoch for _, codes in coded}) > 1
    good = np.flatnonzero(np.isfinite(moving).all(axis=1))
    assert sorted(i for ids, _ in coded for i in ids.tolist()) == good.tolist()
    assert len(wanted["rejects.jsonl"].splitlines()) == len(moving) - len(good)


def test_online_with_many_epochs_of_which_few_are_kept(jobs, moving_files, tmp_path, content):
    command = ["online", moving_files, *ONLINE, "--set", "epochs=600", "--set", "keep_epochs=3"]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    wanted = content(tmp_path / "alone")
    assert sum(name.startswith("epochs/") for name in wanted) == 2  # and the current one
    kill_until(jobs, command, FEW, tmp_path, content)


def test_online_that_is_converted_at_its_end(jobs, moving_files, tmp_path, content):
    def command(name):
        return ["online", moving_files, *ONLINE, "--to", tmp_path / f"{name}.jsonl"]

    seconds = jobs.whole([*command("alone"), "--out", tmp_path / "job"])
    kills = tries = 0
    while kills < FEW:
        tries += 1
        name = f"killed{tries}"
        kills += jobs.killed([*command(name), "--out", tmp_path / f"job{tries}"], seconds)
        files = [tmp_path / f"{file}.jsonl" for file in (name, "alone")]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert content(tmp_path / f"job{tries}") == content(tmp_path / "job")


def test_learn(jobs, moving_files, tmp_path, content):
    command = ["learn", moving_files, *LEARN]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    wanted = content(tmp_path / "alone")
    assert set(wanted) == {"model.safetensors", "rejects.jsonl"}
    kill_until(jobs, command, FEW, tmp_path, content)


def test_encode(jobs, moving_files, tmp_path, content):
    jobs.whole(["learn", moving_files, *LEARN, "--out", tmp_path / "model"])
    command = ["encode", tmp_path / "model", moving_files, "--skip-bad", "--set", "quiet=true"]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    wanted = content(tmp_path / "alone")
    assert set(wanted) >= {"codes", "rejects.jsonl"}
    kill_until(jobs, command, FEW, tmp_path, content)


@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGTERM])
def test_ids_that_come_twice(which, jobs, mixture, tmp_path, content):
    rng = np.random.default_rng(0)
    rows = pa.FixedSizeListArray.from_arrays(pa.array(mixture(5000).ravel()), 8)
    table = pa.table({"key": rng.integers(3000, size=5000), "v": rows})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    command = ["online", tmp_path / "rows.parquet", *ONLINE, "--ids", "key"]
    seconds = jobs.whole([*command, "--out", tmp_path / "alone"])
    ids = [i for ids, _ in read_codes(tmp_path / "alone" / "codes") for i in ids.tolist()]
    assert sorted(ids) == np.unique(table["key"]).tolist()
    for tries in range(4):
        folder = tmp_path / f"stopped{tries}"
        for _ in range(3):
            most = float(rng.uniform(0, seconds))
            more = ["--set", f"commit_rows={rng.integers(100, 900)}", "--out", folder]
            jobs.run([*command, *more], seconds=most, signal=which, rows=100)
        jobs.whole([*command, "--out", folder])
        assert content(folder) == content(tmp_path / "alone")


def payloads(rows):
    return [json.dumps(row).encode() for row in rows.astype(float).tolist()]


@pytest.mark.parametrize("layout", ["json", "f4"])
def test_online_over_nats(jobs, moving, nats_server, *, tmp_path, content, layout):
    messages, more = payloads(moving), []
    if layout == "f4":  # 40 rows per message
        messages = [part.astype("<f4").tobytes() for part in np.split(moving, range(40, 9000, 40))]
        more = ["--set", "format=f4", "--columns", moving.shape[1]]
    name = nats_server.new(messages)
    command = ["online", f"{nats_server.url}/{name}", *ONLINE, *more]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    wanted = content(tmp_path / "alone")
    assert len(wanted["rejects.jsonl"].splitlines()) == 18
    assert kill_until(jobs, command, BROKER_KILLS, tmp_path, content) >= BROKER_KILLS


def test_online_over_kafka(jobs, moving, kafka_cluster, tmp_path, content):
    name = kafka_cluster.new(payloads(moving[:5200]), [], payloads(moving[5200:]))
    command = ["online", f"{kafka_cluster.url}/{name}", *ONLINE]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    rejects = content(tmp_path / "alone")["rejects.jsonl"].splitlines()
    bad = [(0, i) if i < 5200 else (2, i - 5200) for i in range(77, 9000, 500)]
    assert [json.loads(line)["where"] for line in rejects] == [
        kafka_cluster.where(name, offset, partition) for partition, offset in bad
    ]
    assert kill_until(jobs, command, BROKER_KILLS, tmp_path, content) >= BROKER_KILLS
    ids = [i for part, _ in read_codes(tmp_path / "killed1" / "codes") for i in part.tolist()]
    good = np.isfinite(moving).all(axis=1)
    numbered = [i if i < 5200 else (2 << 48) + i - 5200 for i in np.flatnonzero(good).tolist()]
    assert sorted(ids) == numbered


def test_online_over_a_folder_that_grows(jobs, moving, as_parquet, tmp_path, content):
    """Parquet files come while it is not running, as often as it is killed."""

    def grown(name, run):
        files = tmp_path / f"{name}-files"
        files.mkdir()
        command = ["online", files, *ONLINE, "--out", tmp_path / name]
        kills = 0
        good = moving[np.isfinite(moving).all(axis=1)]  # rejects would name the folder
        for number, part in enumerate(np.array_split(good, 6)):
            as_parquet(files / f"{5 - number}.parquet", part)  # newer ones sort first
            kills += run(command) or 0
        return kills

    seconds = []
    grown("alone", lambda command: seconds.append(jobs.whole(command)))
    kills = tries = 0
    while kills < KILLS:
        tries += 1
        kills += grown(f"killed{tries}", lambda command: jobs.killed(command, max(seconds)))
        assert content(tmp_path / f"killed{tries}") == content(tmp_path / "alone")


def changing(rows):
    """Messages that write, change and remove documents with text ids, in an order."""
    rng = np.random.default_rng(5)
    for number, row in enumerate(rows.tolist()):
        yield {"id": f"doc-{number % 700}", "embedding": row, "title": f"version {number}"}
        if number % 3 == 2:
            yield {"id": f"doc-{rng.integers(700)}", "embedding": None}


def test_online_over_a_broker_with_deletes_and_text_ids(jobs, broker, mixture, tmp_path, content):
    items = list(changing(mixture(2000, dtype=np.float64)))
    name = broker.new([json.dumps(item).encode() for item in items])
    more = ["--ids", "id", "--columns", "embedding", "--keep", "title"]
    command = ["online", f"{broker.url}/{name}", *ONLINE, *more]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    live = {}
    for number, item in enumerate(items):
        live.pop(item["id"], None)
        if item["embedding"] is not None:
            live[item["id"]] = number
    table = parquet.read_table(tmp_path / "alone" / "codes").to_pydict()
    assert table["id"] == list(live)
    assert table["title"] == [items[number]["title"] for number in live.values()]
    assert table["epoch"].count(-1) == 0
    kill_until(jobs, command, DELETE_KILLS, tmp_path, content)
