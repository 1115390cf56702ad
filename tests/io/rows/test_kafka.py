"""Against the mock cluster inside librdkafka: the real protocol on loopback."""

import json
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install 'streambits[kafka]'"
)

from streambits.errors import InputError, StorageError, UnreachableError
from streambits.io.protocols import Source
from streambits.io.rows import kafka
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
    source = KafkaSource.from_url(f"{kafka_cluster.url}/{name}", rows=8)
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
    source = KafkaSource(kafka_cluster.servers, name, rows=7)
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
    name = kafka_cluster.new(
        [], [b"[1, 2]", b"nothing", None, b'{"id": 9, "row": [3, 4]}', b"[1]", b""]
    )
    ids, rows, rejects = all_of(KafkaSource(kafka_cluster.servers, name).read())
    assert ids == [1 << 48, 9]
    assert rows == [[1, 2], [3, 4]]
    assert [r.where for r in rejects] == [f"{name}, partition 1, offset {i}" for i in (1, 2, 4, 5)]
    assert [r.reason[:20] for r in rejects] == [
        "it is not JSON: Expe",
        "the message has no k",
        "expected 2 values, g",
        "the message is empty",
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
    source = KafkaSource(kafka_cluster.servers, name, rows=10)
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
    chunks = KafkaSource(kafka_cluster.servers, name, rows=500).read()
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
    source = KafkaSource(kafka_cluster.servers, name, retry_seconds=1)
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


def changes(count, names):
    """Keyed messages that write and remove ids over and over, and (id -> row) after them."""
    table, messages = {}, []
    for i in range(count):
        name = names[i * 5 % len(names)]
        key = str(name).encode()
        value = json.dumps({"id": name, "embedding": [i, 1], "text": f"text {i}"}).encode()
        value = [value, value, None, json.dumps({"id": name, "embedding": None}).encode()][
            i * 7 % 4
        ]
        messages.append((key, value))
        table.pop(name, None)
        table |= {name: [[i, 1], [f"text {i}"]]} if i * 7 % 4 < 2 else {}
    return messages, table


@pytest.mark.parametrize("ids", ["id", "@key"])
@pytest.mark.parametrize("names", [range(9), [*"abcdefgh7"]])
def test_rows_and_removals_are_in_order_from_every_offset(kafka_cluster, table_of, names, ids):
    messages, table = changes(60, names)
    name = kafka_cluster.new(messages)
    source = KafkaSource(kafka_cluster.servers, name, rows=4, id_key=ids, keep=("text",))
    chunks = list(source.read())
    assert table_of(chunks) == table
    assert len(table) < len(names)
    assert not [reject for chunk in chunks for reject in chunk.rejects]
    for count, chunk in enumerate(chunks, 1):
        offset = json.loads(json.dumps(chunk.offset))
        rest = source.read(offset) if count < len(chunks) else ()
        assert table_of(rest, table_of(chunks[:count])) == table


def test_keys_are_ids_in_any_partition_and_format(kafka_cluster, table_of):
    one, two = np.array([[1, 2], [3, 4]], "<f4").tolist()
    raw = [np.array(row, "<f4").tobytes() for row in (one, two)]
    name = kafka_cluster.new([(b"a", raw[0]), (b"b", raw[1])], [(b"c", raw[0]), (b"a", None)])
    source = KafkaSource(kafka_cluster.servers, name, format="f4", id_key="@key")
    assert table_of(source.read()) == {"b": [two, None], "c": [one, None]}
    by_place = list(KafkaSource(kafka_cluster.servers, name, format="f4").read())
    assert all_of(by_place)[0] == ids_of(0, 0, 1) + ids_of(1, 0)
    assert [reject.where for reject in all_of(by_place)[2]] == [kafka_cluster.where(name, 1, 1)]


SECRETS = "security.protocol=SASL_SSL\nsasl.mechanism = PLAIN\n# a comment\n\nsasl.username=me\n"


def test_settings_of_the_client_come_from_a_file(kafka_cluster, monkeypatch, tmp_path, caplog):
    name = kafka_cluster.new([b"[1, 2]"])
    url = f"{kafka_cluster.url}/{name}"
    path = tmp_path / "kafka.properties"
    path.write_text("client.id=somebody\nbootstrap.servers=elsewhere:1\nauto.offset.reset=latest\n")
    source = KafkaSource.from_url(url, properties=path)
    assert source.config == {"client.id": "somebody"}
    assert [chunk.ids.tolist() for chunk in source.read()] == [[0]]
    assert source.identity() == KafkaSource.from_url(url).identity()
    assert not caplog.records  # all may read it: there is no password in it
    path.write_text(f"{SECRETS}sasl.password=hunter2\n")
    path.chmod(0o600)
    monkeypatch.setenv("STREAMBITS_KAFKA_PROPERTIES", str(path))
    monkeypatch.setenv("STREAMBITS_KAFKA_SASL_USERNAME", "another")
    monkeypatch.setenv("STREAMBITS_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    source = KafkaSource.from_url(url, config={"client.id": "me"})
    assert source.config == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "another",
        "sasl.password": "hunter2",
        "client.id": "me",
    }
    assert "hunter2" in source.secrets
    monkeypatch.setattr("streambits.io.rows.kafka.ANSWER", 0.5)
    with pytest.raises(UnreachableError) as caught:  # the cluster knows no logging in
        source.identity()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("security.protocol=hunter2", r"kafka\.properties, line 2: security\.protocol is refused"),
        ("no.such.setting=hunter2", r"kafka\.properties, line 2: no\.such\.setting is refused"),
        ("ssl.truststore.location=hunter2", r"use `ssl\.ca\.location`.*kafka\.properties"),
    ],
)
def test_a_setting_that_the_client_refuses_is_told_by_its_line(tmp_path, line, complaint):
    path = tmp_path / "kafka.properties"
    path.write_text(f"client.id=me\n{line}\n")
    with pytest.raises(InputError, match=complaint) as caught:
        next(KafkaSource.from_url("kafka://127.0.0.1:1/topic", properties=path).read())
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None  # the client's own words have the value


class Fake:
    """What librdkafka may do: a client, with a log of each partition, that hands out odd things.

    logs: for each partition, its offsets; ends: where a partition ends, if not after its last;
    before: what `consume` gives first, once for each list: (partition, offset, error code).
    """

    def __init__(self, logs, ends=None, lows=None, before=()):
        self.logs, self.before = logs, list(before)
        self.ends = {p: log[-1] + 1 for p, log in logs.items() if log} | (ends or {})
        self.lows = {p: log[0] if log else 0 for p, log in logs.items()} | (lows or {})
        self.settings, self.asked, self.place = None, 0, (0, 0)

    def __call__(self, settings):
        self.settings = settings
        return self

    def list_topics(self, topic, **_):
        found = SimpleNamespace(partitions=dict.fromkeys(self.logs))
        return SimpleNamespace(topics={topic: found}, cluster_id="fake")

    def get_watermark_offsets(self, which, **_):
        return self.lows[which.partition], self.ends[which.partition]

    def assign(self, which):
        self.place = which[0].partition, which[0].offset

    def consume(self, count, **_):
        self.asked += 1
        assert self.asked < 100, "it asks again and again"
        if self.before:
            return [self.message(*one) for one in self.before.pop(0)]
        partition, place = self.place
        found = [i for i in self.logs[partition] if i >= place][:count]
        self.place = partition, found[-1] + 1 if found else place
        return [self.message(partition, offset) for offset in found]

    def message(self, partition, offset, code=None):
        error = code and SimpleNamespace(code=lambda: code, str=lambda: "trouble")
        parts = {"partition": partition, "offset": offset, "error": error, "key": None}
        parts["value"] = b"[1, 2]"
        return SimpleNamespace(**{name: lambda part=part: part for name, part in parts.items()})

    def close(self):
        pass


@pytest.fixture
def fake(monkeypatch):
    """fake(...): a source whose client is a Fake."""

    def of(*logs, retry_seconds=0, **odd):
        client = Fake(dict(enumerate(map(list, logs))), **odd)
        monkeypatch.setattr(kafka, "Consumer", client)
        return KafkaSource("host", "topic", retry_seconds=retry_seconds), client

    return of


def ids_of(partition, *offsets):
    return [(partition << 48) + offset for offset in offsets]


def test_the_client_keeps_no_place_and_chooses_none(fake):
    source, client = fake(range(3))
    assert all_of(source.read())[0] == [0, 1, 2]
    assert client.settings["enable.auto.commit"] is False
    assert client.settings["enable.auto.offset.store"] is False
    assert client.settings["auto.offset.reset"] == "error"


def test_partitions_are_read_by_their_numbers_however_they_are_listed(fake):
    source, client = fake(range(2), range(2), range(2))
    client.logs = {p: client.logs[p] for p in (2, 0, 1)}
    assert all_of(source.read())[0] == ids_of(0, 0, 1) + ids_of(1, 0, 1) + ids_of(2, 0, 1)


def test_a_partition_that_gives_nothing_ends_the_retry(fake):
    source, client = fake([], ends={0: 5})
    with pytest.raises(UnreachableError, match="no message comes"):
        list(source.read())
    assert client.asked == 1


def test_what_was_removed_beyond_the_end_of_a_round_belongs_to_the_next(fake):
    source, _ = fake(range(30, 33))
    [chunk] = source.read({"next": {"0": 10}, "end": {"0": 20}, "columns": 2})
    assert chunk.offset["next"] == {"0": 20}
    assert [reject.where for reject in chunk.rejects] == ["topic, partition 0, offsets 10 to 19"]
    ids, _, rejects = all_of(source.read(chunk.offset))
    assert ids == [30, 31, 32]
    assert [reject.where for reject in rejects] == ["topic, partition 0, offsets 20 to 29"]


def test_messages_that_are_not_meant_are_left_out(fake):
    """Of the partition before, older ones and later ones, which the client had in its queue."""
    at = {"next": {"0": 3, "1": 4}, "end": {"0": 6, "1": 8}, "columns": 2}
    odd = [(1, 3), (0, 2), (0, 3), (0, 0), (0, 4), (1, 9), (0, 3), (0, 5), (0, 6), (0, 7)]
    source, _ = fake(range(9), range(10), before=[odd])
    chunks = list(source.read(at))
    assert all_of(chunks)[0] == ids_of(0, 3, 4, 5) + ids_of(1, 4, 5, 6, 7)
    assert chunks[-1].offset["next"] == {"0": 6, "1": 8}
    assert all_of(source.read(chunks[-1].offset))[0] == ids_of(0, 6, 7, 8) + ids_of(1, 8, 9)


def test_an_end_that_has_moved_on_does_not_skip_what_came_since(fake):
    """Where the last offsets of a round hold no messages, the client tells of the end it sees."""
    log, end = [*range(15), *range(20, 25)], kafka.KafkaError._PARTITION_EOF
    seen = [(0, offset) for offset in range(15)]
    source, _ = fake(log, before=[[*seen, (0, 25, end)]])
    *_, last = source.read({"next": {"0": 0}, "end": {"0": 20}, "columns": 2})
    assert last.offset["next"] in ({"0": 15}, {"0": 20})
    assert all_of(source.read({**last.offset, "next": {"0": 20}}))[0] == list(range(20, 25))
    link = kafka._TopicConsumer(source, {0: 15})
    link._sort_out([link._consumer.message(0, 25, end)], 0, 20)
    assert link.places == {0: 20}


@pytest.mark.parametrize("offset", ["no", [1, 2], {"no": "offset"}, {"next": 5, "end": 7}])
def test_offsets_of_something_else(offset):
    with pytest.raises(InputError, match=r"is not an offset of kafka://host/topic"):
        next(KafkaSource("host", "topic").read(offset))
