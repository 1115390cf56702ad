"""Kafka as the broker of a group.

The partitions of the topic are handed out by a consumer group, which also notices members that are
gone; whoever has the first partition coordinates. Records are in a second topic, streambits-NAME,
of one partition: a log that all members read in the same order. A line of it replaces a record if
it names the revision that the record has at that place of the log; so all members agree which of
two lines was first, and the other counts for nothing.
"""

import json
import time
import uuid
from contextlib import suppress
from typing import Any

from streambits.errors import InputError
from streambits.io.groups import Held, Task
from streambits.io.rows.kafka import (
    ANSWER,
    SETTINGS,
    AdminClient,
    Consumer,
    KafkaError,
    KafkaException,
    KafkaSource,
    NewTopic,
    Producer,
    TopicPartition,
    client_refusal,
    error_text,
)

LEASE = 15.0  # seconds without a sign of life after which partitions are handed to somebody else
SIGNS = 3  # of life in that time
BUSY = 900.0  # seconds that a member may work on a slice before it is believed to hang
FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
PLACE = 0  # the partition of the records
LINES = 500  # of the log that are read at a time
REFUSED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_CONFIG,
)


class KafkaGroup:
    """A member of a group, and what Kafka does for it.

    Parameters
    ----------
    source : KafkaSource
        The topic that the group reads; the topic of records is in the same cluster.
    name : str
        Of the group: the consumer group and the topic of records are called streambits-NAME.
    """

    def __init__(self, source: KafkaSource, name: str) -> None:
        self.name = f"group {name} of {source.name}"
        self._source, self._called = source, f"streambits-{name}"
        self._records: dict[str, Held] = {}
        self._lines: dict[str, str] = {}  # the line by which each record came
        self._next = 0  # of the log
        self._mine: set[int] = set()  # partitions that were handed to this member
        self._finished: set[tuple[int, int]] = set()
        common = {"bootstrap.servers": source.servers, "log_level": 0} | source.config
        member = {
            "group.id": self._called,
            "session.timeout.ms": int(1000 * LEASE),
            "heartbeat.interval.ms": int(1000 * LEASE / SIGNS),
            "max.poll.interval.ms": int(1000 * max(BUSY, LEASE)),
            "partition.assignment.strategy": "range",
        }
        try:
            self._admin = AdminClient(dict(common))
            self._log = Consumer(SETTINGS | common | {"fetch.wait.max.ms": 25})
            self._producer = Producer(common | {"acks": "all", "linger.ms": 0})
            self._members = Consumer(SETTINGS | common | member)
        except KafkaException as error:
            reason = client_refusal(error, source)
            raise InputError(f"{self.name} cannot be joined: {reason}") from None
        source.lanes  # noqa: B018 - an error if there is no such topic
        self._create()
        self._log.assign([TopicPartition(self._called, PLACE, 0)])
        self._members.subscribe([source.topic], on_assign=self._assigned, on_revoke=self._revoked)

    # Records

    def get(self, key: str) -> Held | None:
        self._catch_up()
        return self._records.get(key)

    def put(self, key: str, value: Any, revision: int = 0) -> bool:
        line = uuid.uuid4().hex
        self._write({"key": key, "value": value, "revision": revision, "line": line})
        self._catch_up()
        return self._lines.get(key) == line

    def forget(self, round: int) -> None:  # noqa: A002
        self._write({"forget": f"done.{round}."})

    def _write(self, record: dict[str, Any]) -> None:
        """Append a line to the log; one that was written twice counts once."""
        content = json.dumps(record).encode()

        def ask() -> None:
            reports: list[Any] = []
            self._producer.produce(
                self._called, content, partition=PLACE, on_delivery=lambda *r: reports.append(r)
            )
            if self._producer.flush(ANSWER) or not reports or reports[0][0] is not None:
                self._producer.purge()
                self._producer.flush(1)
                raise KafkaException(*(report[0] for report in reports if report[0]))

        self._source.ask(ask)

    def _catch_up(self) -> None:
        """Read the log to where it ends now."""
        place = TopicPartition(self._called, PLACE)

        def ask() -> None:
            # not asked of the consumer of the log: the answer would wait for the next line of it
            _, end = self._members.get_watermark_offsets(place, timeout=ANSWER)
            last = time.monotonic()
            while self._next < end:
                for message in self._log.consume(min(LINES, end - self._next), timeout=0.2):
                    if message.error() is None:
                        self._apply(message.offset(), json.loads(message.value()))
                        last = time.monotonic()
                if time.monotonic() - last > ANSWER:
                    self._log.assign([TopicPartition(self._called, PLACE, self._next)])
                    raise KafkaException("no line of the log comes")

        self._source.ask(ask)

    def _apply(self, offset: int, record: dict[str, Any]) -> None:
        if offset < self._next:
            return
        self._next = offset + 1
        if "forget" in record:
            for key in [key for key in self._records if key.startswith(record["forget"])]:
                del self._records[key], self._lines[key]
            return
        key = record["key"]
        held = self._records.get(key)
        if record["revision"] == (held.revision if held else 0):
            self._records[key] = Held(record["value"], offset + 1)
            self._lines[key] = record["line"]

    # The coordinator and work

    def coordinates(self) -> bool:
        self._poll(0)
        return 0 in self._mine

    def resign(self) -> None:
        pass  # the consumer group says who coordinates

    def offer(self, round: int, lanes: list[int]) -> None:  # noqa: A002
        pass  # whoever has a partition sees what is to be done in it

    def take(self, round: int, lanes: list[int], seconds: float) -> Task | None:  # noqa: A002
        self._poll(0)
        self._finished = {one for one in self._finished if one[0] >= round}
        for lane in lanes:
            if lane in self._mine and (round, lane) not in self._finished:
                return Task(round, lane)
        self._poll(seconds)
        return None

    def finish(self, task: Task) -> None:
        self._finished.add((task.round, task.lane))

    def give_back(self, task: Task) -> None:
        pass  # it stays with whoever has the partition

    def close(self) -> None:
        with suppress(KafkaException):
            self._members.close()
        self._log.close()
        self._producer.flush(1)

    # What all of that needs

    def _poll(self, seconds: float) -> None:
        """Let the consumer group say what is ours; no message is read here."""
        message = self._members.poll(seconds)
        if message is not None and message.error() is not None and message.error().fatal():
            raise KafkaException(message.error())

    def _assigned(self, consumer: Consumer, partitions: list[Any]) -> None:
        self._mine = {one.partition for one in partitions}
        for one in partitions:
            one.offset = 0
        consumer.assign(partitions)
        consumer.pause(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[Any]) -> None:
        self._mine -= {one.partition for one in partitions}
        consumer.unassign()

    def _create(self) -> None:
        """Make the topic of records, unless it is there."""

        def ask() -> None:
            found = self._log.list_topics(self._called, timeout=ANSWER).topics.get(self._called)
            if found is not None and found.partitions:
                return
            wanted = NewTopic(self._called, num_partitions=1, config=FOREVER)
            [made] = self._admin.create_topics([wanted], request_timeout=ANSWER).values()
            try:
                made.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code in REFUSED:
                    raise InputError(
                        f"{self.name} needs a topic {self._called} of one partition, and the "
                        f"cluster does not let us create it ({error_text(error)}): create it, with "
                        f"retention.ms=-1"
                    ) from error
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        self._source.ask(ask)
