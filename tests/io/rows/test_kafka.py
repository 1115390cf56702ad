"""Against the mock cluster inside librdkafka: the real protocol on loopback."""

import json
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install 'streambits[kafka]'"
)

from streambits.errors import InputError, StorageError, UnreachableError
from streambits.io.protocols import Source
from streambits.io.rows.kafka import KafkaSource


def payloads(count, start=0):
    return [json.dumps([i / 4, i]).encode() for i in range(start, count)]


def all_of(chunks):
    chunks = list(chunks)
    ids = [i for chunk in chunks for i in chunk.ids.tolist()]
    rows = [r for chunk in chunks for r in chunk.rows.tolist()]
    return ids, rows, [reject for chunk in chunks for reject in chunk.rejects]


def test_a_topic_is_read_in_order_and_again_from_any_offset(kafka_cluster):
    name = kafka_cluster.new(payloads(50))
    source = KafkaSource.from_url(f"{kafka_cluster.url}/{name}", batch=8)
    assert isinstance(source, Source)
    assert (source.lag, source.length) == (None, None)
    chunks = list(source.read())
    ids, rows, rejects = all_of(chunks)
    assert (ids, rejects, source.lag) == (list(range(50)), [], 0)
    assert rows == [json.loads(message) for message in payloads(50)]
    assert max(len(chunk.ids) for chunk in chunks) <= 8
    for chunk in chunks[:-1:2]:
        offset = json.loads(json.dumps(chunk.offset))
        assert all_of(source.read(offset))[0] == list(range(offset["next"]["0"], 50))
    assert json.loads(json.dumps(source.identity())) == source.identity()


def test_partitions_are_read_one_after_the_other_in_rounds(kafka_cluster):
    name = kafka_cluster.new(payloads(20), [], payloads(12))
    source = KafkaSource(kafka_cluster.servers, name, batch=7)
    ids = [*range(20), *((2 << 48) + i for i in range(12))]
    chunks = source.read()
    first = next(chunks)
    assert source.lag == 32 - len(first.ids)
    kafka_cluster.publish(name, payloads(25, 20), 0)
    kafka_cluster.publish(name, payloads(3), 1)
    chunks = [first, *chunks]
    assert all_of(chunks)[0] == ids
    for chunk in chunks[:-1]:
        rest = ids[ids.index(chunk.ids[-1]) + 1 :]
        assert all_of(source.read(chunk.offset))[0] == rest  # the end goes with it
    more = [*range(20, 25), *((1 << 48) + i for i in range(3))]
    *_, last = source.read(chunks[-1].offset)
    assert all_of(source.read(chunks[-1].offset))[0] == more
    assert all_of(source.read(last.offset)) == ([], [], [])


def test_what_is_no_row_is_rejected_with_its_place(kafka_cluster):
    name = kafka_cluster.new([], [b"[1, 2]", b"nothing", None, b'{"id": 9, "row": [3, 4]}', b"[1]"])
    ids, rows, rejects = all_of(KafkaSource(kafka_cluster.servers, name).read())
    assert ids == [1 << 48, 9]
    assert rows == [[1, 2], [3, 4]]
    assert [r.where for r in rejects] == [f"{name}, partition 1, offset {i}" for i in (1, 2, 4)]
    assert [r.reason[:20] for r in rejects] == [
        "it is no JSON: Expec",
        "the message is empty",
        "1 number, where 2 be",
    ]


def test_following_goes_on_until_it_is_idle(kafka_cluster):
    name = kafka_cluster.new(payloads(3), [])
    late = threading.Timer(0.3, lambda: kafka_cluster.publish(name, payloads(2), 1))
    late.start()
    found = all_of(KafkaSource(kafka_cluster.servers, name, idle=1.0).read())[0]
    late.join()
    assert found == [0, 1, 2, 1 << 48, (1 << 48) + 1]


def test_messages_removed_before_they_were_read_are_a_reject(kafka_cluster):
    name = kafka_cluster.new(payloads(40))
    source = KafkaSource(kafka_cluster.servers, name, batch=10)
    first = next(source.read())
    kafka_cluster.cut(name, 0, 30)
    ids, _, rejects = all_of(source.read(first.offset))
    begun = len(first.ids)
    assert ids == list(range(30, 40))
    assert [r.where for r in rejects] == [f"{name}, partition 0, offsets {begun} to 29"]
    assert all_of(source.read())[2] == []


def test_another_topic_of_the_same_name_is_noticed(kafka_cluster):
    name = kafka_cluster.new(payloads(5))
    source = KafkaSource(kafka_cluster.servers, name)
    offset = {"next": {"0": 9}, "end": {"0": 9}, "columns": 2}
    with pytest.raises(StorageError, match="ends at 5 in partition 0, and was read up to 9"):
        list(source.read(offset))
    with pytest.raises(InputError, match=r"no topic for kafka://.*/nothing"):
        list(KafkaSource(kafka_cluster.servers, "nothing").read())
    with pytest.raises(InputError, match=r"cannot be read: .*no.such.setting"):
        list(KafkaSource(kafka_cluster.servers, name, config={"no.such.setting": 1}).read())


def test_a_broker_that_comes_back_is_read_on_from(kafka_cluster):
    name = kafka_cluster.new(payloads(20_000), payloads(10))
    chunks = KafkaSource(kafka_cluster.servers, name, batch=500).read()
    found = [next(chunks), next(chunks)]
    kafka_cluster.stop()
    back = threading.Timer(1, kafka_cluster.start)
    back.start()
    found += list(chunks)
    back.join()
    assert all_of(found)[0] == [*range(20_000), *((1 << 48) + i for i in range(10))]


def test_a_broker_that_stays_away_is_told_in_a_sentence(kafka_cluster, monkeypatch):
    monkeypatch.setattr("streambits.io.rows.kafka.ANSWER", 1)
    name = kafka_cluster.new(payloads(10), payloads(10))
    source = KafkaSource(kafka_cluster.servers, name, patience=1)
    chunks = source.read()
    first = next(chunks)
    kafka_cluster.stop()
    try:
        with pytest.raises(UnreachableError, match="committed is safe, and the same command"):
            list(chunks)
        gone = KafkaSource("127.0.0.1:1", name)
        start = time.monotonic()
        with pytest.raises(UnreachableError, match=f"kafka://127.0.0.1:1/{name} cannot be"):
            list(gone.read())
        assert time.monotonic() - start < 5
    finally:
        kafka_cluster.start()
    assert len(all_of([first, *source.read(first.offset)])[0]) == 20


def test_without_the_package_the_extra_is_named():
    code = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from streambits.errors import MissingExtraError\n"
        "try: import streambits.io.rows.kafka\n"
        "except MissingExtraError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"confluent-kafka" in run.stdout
    assert b"streambits[kafka]" in run.stdout


def test_settings_of_the_client_come_from_the_environment(kafka_cluster, monkeypatch):
    name = kafka_cluster.new([b"[1, 2]"])
    url = f"{kafka_cluster.url}/{name}"
    monkeypatch.setenv("STREAMBITS_KAFKA_CLIENT_ID", "somebody")
    monkeypatch.setenv("STREAMBITS_KAFKA_SASL_USERNAME", "me")
    monkeypatch.setenv("STREAMBITS_KAFKA_SASL_PASSWORD", "hunter2")
    source = KafkaSource.from_url(url, config={"client.id": "another"})
    assert source.config == {
        "client.id": "another",
        "sasl.username": "me",
        "sasl.password": "hunter2",
    }
    assert [chunk.ids.tolist() for chunk in source.read()] == [[0]]
    monkeypatch.setenv("STREAMBITS_KAFKA_SECURITY_PROTOCOL", "hunter2")  # by mistake
    with pytest.raises(InputError, match=r"security\.protocol") as caught:
        next(KafkaSource.from_url(url).read())
    assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("STREAMBITS_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("STREAMBITS_KAFKA_SASL_MECHANISM", "PLAIN")
    monkeypatch.setattr("streambits.io.rows.kafka.ANSWER", 0.5)
    with pytest.raises(UnreachableError) as caught:  # the cluster knows no logging in
        KafkaSource.from_url(url).identity()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "kafka://me:hunter2@host/topic",
        "kafka://host/topic?sasl.password=hunter2",
        "kafka://me:hunter2@[::1/topic",
        "kafka://me:hunter2/topic",
    ],
)
def test_a_url_has_hosts_and_a_topic_only(url):
    with pytest.raises(InputError, match=r"is not a URL such as|STREAMBITS_KAFKA_SASL_") as caught:
        KafkaSource.from_url(url)
    assert "hunter2" not in str(caught.value)
