"""The mock cluster inside librdkafka: the real protocol on loopback.

It lives in the process of the tests, and others can connect to it. It keeps about 5 MB a
partition, and drops older messages as retention does.
"""

import ctypes
from importlib.util import find_spec
from pathlib import Path

import pytest


class Kafka:
    """One broker, which can be stopped and started; first: the number of the first message."""

    first = 0

    def __init__(self, library):
        self.library, self.topics = library, 0
        for name in ("conf_new", "new", "mock_cluster_new"):
            getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        conf = library.rd_kafka_conf_new()
        self.call("conf_set", conf, b"log_level", b"0", None, 0)
        self.handle = library.rd_kafka_new(0, ctypes.c_void_p(conf), None, ctypes.c_size_t(0))
        self.mock = library.rd_kafka_mock_cluster_new(ctypes.c_void_p(self.handle), 1)
        self.call("mock_group_initial_rebalance_delay_ms", self.mock, 100)
        self.servers = self.call("mock_cluster_bootstraps", self.mock).decode()
        self.url = f"kafka://{self.servers}"
        settings = {"bootstrap.servers": self.servers, "log_level": 0}
        self.producer = pytest.importorskip("confluent_kafka").Producer(settings)

    def call(self, name, first, *others):
        return getattr(self.library, f"rd_kafka_{name}")(ctypes.c_void_p(first), *others)

    def close(self):
        self.producer.flush(5)
        self.call("mock_cluster_destroy", self.mock)
        self.call("destroy", self.handle)

    def stop(self):
        self.call("mock_broker_set_down", self.mock, 1)

    def start(self):
        self.call("mock_broker_set_up", self.mock, 1)

    def new(self, *partitions):
        """A new topic with these messages in its partitions; its name."""
        self.topics += 1
        name = f"t{self.topics}"
        assert not self.call("mock_topic_create", self.mock, name.encode(), len(partitions), 1)
        for partition, messages in enumerate(partitions):
            self.publish(name, messages, partition)
        return name

    def create(self, name):
        """An empty topic of one partition: clients cannot create any here."""
        self.call("mock_topic_create", self.mock, name.encode(), 1, 1)

    def publish(self, name, messages, partition=0):
        """Add messages: bytes, None (no value), or a pair of a key and either."""
        for message in messages:
            key, value = message if isinstance(message, tuple) else (None, message)
            self.producer.produce(name, value, key, partition=partition)
        assert not self.producer.flush(10)

    def where(self, name, number, partition=0):
        """How a message is named."""
        return f"{name}, partition {partition}, offset {number}"

    def cut(self, name, before):
        """Remove the messages before that number from the first partition."""
        self.call("mock_partition_delete_records", self.mock, name.encode(), 0, before)


@pytest.fixture(scope="module")
def kafka_cluster():
    """A cluster with new(), publish(), cut(), stop() and start()."""
    found = find_spec("confluent_kafka")
    if found is None:
        pytest.skip("confluent-kafka is not installed: pip install 'streambits[kafka]'")
    libraries = Path(found.origin).parent.parent.glob("confluent_kafka.libs/librdkafka*.so*")
    path = min(libraries, default=None)
    if path is None:
        pytest.skip("this confluent-kafka does not bring librdkafka with its mock cluster")
    cluster = Kafka(ctypes.CDLL(str(path)))
    yield cluster
    cluster.close()
