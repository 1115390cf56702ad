"""NATS JetStream as the broker of a group.

Records are keys of a key-value bucket; slices are messages of a work queue, which a durable pull
consumer hands out and hands out again when a member does not say that it is still working. The
coordinator is whoever holds the one message of a second queue. So JetStream does all of the
distribution, and notices members that are gone.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from streambits.errors import InputError, StorageError
from streambits.io.groups import Held, Task
from streambits.io.rows.nats import (
    LOST,
    REFUSED,
    APIError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    Loop,
    NatsSource,
    NotFoundError,
    api,
    connect,
)
from streambits.io.urls import without

LEASE = 15.0  # seconds without a sign of life after which work is handed to somebody else
SIGNS = 3  # of life in that time
THERE = (10071, 10164)  # the server's numbers for "there is such a message already"
ACK, WORKING, NAK = b"+ACK", b"+WPI", b"-NAK"
SOON = 0.02  # seconds to see whether there is a message


class NatsGroup:
    """A member of a group, and what JetStream does for it.

    Parameters
    ----------
    source : NatsSource
        The stream that the group reads; what the group needs is kept by the same servers.
    name : str
        Of the group: the bucket and the queue are called streambits-NAME.
    """

    def __init__(self, source: NatsSource, name: str) -> None:
        self.name = f"group {name} of {source.name}"
        self._source, self._called = source, f"streambits-{name}"
        self._subject = f"streambits.{name}"
        self._loop = Loop()
        self._link: Any = None
        self._bucket: Any = None
        self._queues: dict[str, Any] = {}
        self._reason: Exception | None = None
        self._receipts: set[str] = set()  # of what this member works on
        self._token: str | None = None  # the receipt of the coordinator
        self._beating: Any = None

    # Records

    def get(self, key: str) -> Held | None:
        async def ask() -> Held | None:
            try:
                found = await self._bucket.get(key)
            except KeyNotFoundError:
                return None
            return Held(json.loads(found.value), int(found.revision))

        found: Held | None = self._ask(ask)
        return found

    def put(self, key: str, value: Any, revision: int = 0) -> bool:
        content = json.dumps(value).encode()

        async def ask() -> bool:
            try:
                if revision:
                    await self._bucket.update(key, content, last=revision)
                else:
                    await self._bucket.create(key, content)
            except KeyWrongLastSequenceError:
                return False
            return True

        if self._ask(ask):
            return True
        there = self.get(key)  # ours, if the answer was lost and it was asked again
        return there is not None and bool(there.value == json.loads(content))

    def forget(self, round: int) -> None:  # noqa: A002
        subject = f"$KV.{self._called}.done.{round}.*"
        self._ask(
            lambda: self._link.jetstream().purge_stream(f"KV_{self._called}", subject=subject)
        )

    # The coordinator

    def coordinates(self) -> bool:
        if self._token is None:
            self._token = self._ask(lambda: self._fetched("coordinator", SOON))
        return self._token is not None

    def resign(self) -> None:
        self._receipts.discard(self._token or "")  # somebody else has it by now
        self._token = None

    # Work

    def offer(self, round: int, lanes: list[int]) -> None:  # noqa: A002
        async def ask() -> None:
            for lane in lanes:
                await self._publish(f"{self._subject}.task.{round}.{lane}")

        self._ask(ask)

    def take(self, round: int, lanes: list[int], seconds: float) -> Task | None:  # noqa: A002
        del round, lanes  # the queue knows
        found = self._ask(lambda: self._fetched("task", seconds))
        if found is None:
            return None
        receipt, subject = found.split(" ", 1)
        number, lane = map(int, subject.rsplit(".", 2)[1:])
        return Task(number, lane, f"{receipt} {subject}")

    def finish(self, task: Task) -> None:
        self._answer(task.receipt, ACK)

    def give_back(self, task: Task) -> None:
        self._answer(task.receipt, NAK)

    def close(self) -> None:
        async def leave() -> None:
            if self._beating is not None:
                self._beating.cancel()
            if self._link is None:
                return
            with suppress(*LOST, APIError):
                for receipt in self._receipts:
                    await self._link.publish(receipt.split(" ")[0], NAK)
                await self._link.flush(1)
            await self._link.close()

        with self._loop as loop:
            loop.do(leave())

    # What all of that needs

    def _ask(self, question: Callable[[], Awaitable[Any]]) -> Any:
        """Ask the server until it answers, or for as long as a server may be away."""
        retry = self._source.retry()

        async def ask() -> Any:
            if self._link is None or not self._link.is_connected:
                await self._open()
            return await question()

        while True:
            try:
                answer = self._loop.do(ask())
            except REFUSED as error:
                reason = without(error, self._source.secrets)
                raise InputError(f"{self.name} is refused by the server: {reason}") from error
            except NotFoundError as error:
                raise StorageError(
                    f"{self.name} is not on the server any more, which held what was agreed upon: "
                    f"begin a new group with a new folder"
                ) from error
            except LOST as error:
                self._loop.do(self._drop())
                retry.wait(self._reason or error)
            else:
                retry.answered()
                return answer

    async def _open(self) -> None:
        """Connect, and make what is not there yet."""
        await self._drop()
        link = await connect(self._source, self._note)
        stream = link.jetstream()
        self._link = link
        copies = (await stream.stream_info(self._source.stream)).config.num_replicas
        self._bucket = await stream.create_key_value(
            bucket=self._called, history=1, storage=api.StorageType.FILE, replicas=copies
        )
        await stream.add_stream(
            name=self._called,
            subjects=[f"{self._subject}.>"],
            retention=api.RetentionPolicy.WORK_QUEUE,
            num_replicas=copies,
        )
        for name, subject, most in (("task", "task.>", 1000), ("coordinator", "coordinator", 1)):
            config = api.ConsumerConfig(
                durable_name=name,
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=LEASE,
                max_ack_pending=most,
                filter_subject=f"{self._subject}.{subject}",
            )
            await stream.add_consumer(self._called, config)
            self._queues[name] = await stream.pull_subscribe_bind(name, self._called)
        await self._publish(f"{self._subject}.coordinator")
        if self._beating is None:
            self._beating = asyncio.ensure_future(self._beat())

    async def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _publish(self, subject: str) -> None:
        """Put a message into the queue, unless there is one of that subject."""
        headers = {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE: "0"}
        try:
            await self._link.jetstream().publish(subject, b"", headers=headers)
        except APIError as error:
            if error.err_code not in THERE:
                raise

    async def _fetched(self, queue: str, seconds: float) -> str | None:
        """The receipt of a message and its subject; None if none comes."""
        try:
            [found] = await self._queues[queue].fetch(1, timeout=seconds)
        except TimeoutError:
            return None
        receipt = f"{found.reply} {found.subject}"
        self._receipts.add(receipt)
        return receipt

    def _answer(self, receipt: str, answer: bytes) -> None:
        self._receipts.discard(receipt)

        async def ask() -> None:
            await self._link.publish(receipt.split(" ", maxsplit=1)[0], answer)
            await self._link.flush(2)

        self._ask(ask)

    async def _beat(self) -> None:
        """Say now and then that this member still works on what it has."""
        while True:
            await asyncio.sleep(LEASE / SIGNS)
            link = self._link
            for receipt in tuple(self._receipts) if link is not None else ():
                with suppress(*LOST):
                    await link.publish(receipt.split(" ")[0], WORKING)

    async def _note(self, error: Exception) -> None:
        self._reason = error
