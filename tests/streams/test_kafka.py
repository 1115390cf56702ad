"""Against the mock cluster inside librdkafka: the real protocol on loopback.

It keeps about 5 MB a partition, and drops older messages as retention does.
"""

import ctypes
import json
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

kafka = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install 'streambits[kafka]'"
)

from streambits.errors import InputError, StorageError, UnreachableError  # noqa: E402
from streambits.streams.connect import Source  # noqa: E402
from streambits.streams.kafka import KafkaSource  # noqa: E402


class Cluster:
    """One broker in this process, which can be taken down and up."""

    def __init__(self, library):
        self.library, self.topics = library, 0
        for name in ("conf_new", "new", "mock_cluster_new"):
            getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        conf = library.rd_kafka_conf_new()
        self.call("conf_set", conf, b"log_level", b"0", None, 0)
        self.handle = library.rd_kafka_new(0, ctypes.c_void_p(conf), None, ctypes.c_size_t(0))
        self.mock = library.rd_kafka_mock_cluster_new(ctypes.c_void_p(self.handle), 1)
        self.servers = self.call("mock_cluster_bootstraps", self.mock).decode()
        self.producer = kafka.Producer({"bootstrap.servers": self.servers, "log_level": 0})

    def call(self, name, first, *others):
        return getattr(self.library, f"rd_kafka_{name}")(ctypes.c_void_p(first), *others)

    def close(self):
        self.producer.flush(5)
        self.call("mock_cluster_destroy", self.mock)
        self.call("destroy", self.handle)

    def down(self):
        self.call("mock_broker_set_down", self.mock, 1)

    def up(self):
        self.call("mock_broker_set_up", self.mock, 1)

    def topic(self, *partitions):
        """A new topic with these messages in its partitions; its name."""
        self.topics += 1
        name = f"t{self.topics}"
        assert not self.call("mock_topic_create", self.mock, name.encode(), len(partitions), 1)
        for partition, messages in enumerate(partitions):
            self.send(name, messages, partition)
        return name

    def send(self, name, messages, partition=0):
        for message in messages:
            self.producer.produce(name, message, partition=partition)
        assert not self.producer.flush(10)

    def cut(self, name, partition, before):
        self.call("mock_partition_delete_records", self.mock, name.encode(), partition, before)


@pytest.fixture(scope="module")
def cluster():
    folder = Path(find_spec("confluent_kafka").origin).parent.parent
    found = sorted(folder.glob("confluent_kafka.libs/librdkafka*.so*"))
    if not found:
        pytest.skip("this confluent-kafka does not bring librdkafka with its mock cluster")
    cluster = Cluster(ctypes.CDLL(str(found[0])))
    yield cluster
    cluster.close()


def payloads(count, start=0):
    return [json.dumps([i / 4, i]).encode() for i in range(start, count)]


def all_of(chunks):
    chunks = list(chunks)
    ids = [i for chunk in chunks for i in chunk.ids.tolist()]
    rows = [r for chunk in chunks for r in chunk.rows.tolist()]
    return ids, rows, [reject for chunk in chunks for reject in chunk.rejects]


def test_a_topic_is_read_in_order_and_again_from_any_offset(cluster):
    name = cluster.topic(payloads(50))
    source = KafkaSource.from_url(f"kafka://{cluster.servers}/{name}", batch=8)
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


def test_partitions_are_read_one_after_the_other_in_rounds(cluster):
    name = cluster.topic(payloads(20), [], payloads(12))
    source = KafkaSource(cluster.servers, name, batch=7)
    ids = [*range(20), *((2 << 48) + i for i in range(12))]
    chunks = source.read()
    first = next(chunks)
    assert source.lag == 32 - len(first.ids)
    cluster.send(name, payloads(25, 20), 0)
    cluster.send(name, payloads(3), 1)
    chunks = [first, *chunks]
    assert all_of(chunks)[0] == ids
    for chunk in chunks[:-1]:
        rest = ids[ids.index(chunk.ids[-1]) + 1 :]
        assert all_of(source.read(chunk.offset))[0] == rest  # the end goes with it
    more = [*range(20, 25), *((1 << 48) + i for i in range(3))]
    *_, last = source.read(chunks[-1].offset)
    assert all_of(source.read(chunks[-1].offset))[0] == more
    assert all_of(source.read(last.offset)) == ([], [], [])


def test_what_is_no_row_is_rejected_with_its_place(cluster):
    name = cluster.topic([], [b"[1, 2]", b"nothing", None, b'{"id": 9, "row": [3, 4]}', b"[1]"])
    ids, rows, rejects = all_of(KafkaSource(cluster.servers, name).read())
    assert ids == [1 << 48, 9]
    assert rows == [[1, 2], [3, 4]]
    assert [r.where for r in rejects] == [f"{name}, partition 1, offset {i}" for i in (1, 2, 4)]
    assert [r.reason[:20] for r in rejects] == [
        "it is no JSON: Expec",
        "the message is empty",
        "1 number, where 2 be",
    ]


def test_following_goes_on_until_it_is_idle(cluster):
    name = cluster.topic(payloads(3), [])
    late = threading.Timer(0.3, lambda: cluster.send(name, payloads(2), 1))
    late.start()
    found = all_of(KafkaSource(cluster.servers, name, idle=1.0).read())[0]
    late.join()
    assert found == [0, 1, 2, 1 << 48, (1 << 48) + 1]


def test_messages_removed_before_they_were_read_are_a_reject(cluster):
    name = cluster.topic(payloads(40))
    source = KafkaSource(cluster.servers, name, batch=10)
    first = next(source.read())
    cluster.cut(name, 0, 30)
    ids, _, rejects = all_of(source.read(first.offset))
    begun = len(first.ids)
    assert ids == list(range(30, 40))
    assert [r.where for r in rejects] == [f"{name}, partition 0, offsets {begun} to 29"]
    assert all_of(source.read())[2] == []


def test_another_topic_of_the_same_name_is_noticed(cluster):
    name = cluster.topic(payloads(5))
    source = KafkaSource(cluster.servers, name)
    offset = {"next": {"0": 9}, "end": {"0": 9}, "columns": 2}
    with pytest.raises(StorageError, match="ends at 5 in partition 0, and was read up to 9"):
        list(source.read(offset))
    with pytest.raises(InputError, match=r"no topic for kafka://.*/nothing"):
        list(KafkaSource(cluster.servers, "nothing").read())
    with pytest.raises(InputError, match=r"cannot be read: .*no.such.setting"):
        list(KafkaSource(cluster.servers, name, config={"no.such.setting": 1}).read())


def test_a_broker_that_comes_back_is_read_on_from(cluster):
    name = cluster.topic(payloads(20_000), payloads(10))
    chunks = KafkaSource(cluster.servers, name, batch=500).read()
    found = [next(chunks), next(chunks)]
    cluster.down()
    back = threading.Timer(1, cluster.up)
    back.start()
    found += list(chunks)
    back.join()
    assert all_of(found)[0] == [*range(20_000), *((1 << 48) + i for i in range(10))]


def test_a_broker_that_stays_away_is_told_in_a_sentence(cluster, monkeypatch):
    monkeypatch.setattr("streambits.streams.kafka.ANSWER", 1)
    name = cluster.topic(payloads(10), payloads(10))
    source = KafkaSource(cluster.servers, name, patience=1)
    chunks = source.read()
    first = next(chunks)
    cluster.down()
    try:
        with pytest.raises(UnreachableError, match="committed is safe, and the same command"):
            list(chunks)
        gone = KafkaSource("127.0.0.1:1", name)
        start = time.monotonic()
        with pytest.raises(UnreachableError, match=f"kafka://127.0.0.1:1/{name} cannot be"):
            list(gone.read())
        assert time.monotonic() - start < 5
    finally:
        cluster.up()
    assert len(all_of([first, *source.read(first.offset)])[0]) == 20


def test_without_the_package_the_extra_is_named():
    code = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from streambits.errors import MissingExtraError\n"
        "try: import streambits.streams.kafka\n"
        "except MissingExtraError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"confluent-kafka" in run.stdout
    assert b"streambits[kafka]" in run.stdout
