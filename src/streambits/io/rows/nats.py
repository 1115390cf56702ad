"""NATS JetStream: a stream as a source of rows."""

import concurrent.futures
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

from streambits._arrays import as_count, as_number
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.io.retry import DEFAULT, Retry
from streambits.io.rows.loop import Loop
from streambits.io.rows.messages import Message, Parser
from streambits.io.urls import Url, secrets_in, shown, without
from streambits.model.batches import Reject, RowBatch

try:
    import nats
    from nats.js import api
    from nats.js.errors import BadRequestError, NotFoundError
except ImportError:
    raise MissingExtraError("nats-py", "nats") from None

LOST = (nats.errors.Error, OSError, concurrent.futures.CancelledError)
REFUSED = (nats.errors.AuthorizationError, BadRequestError)
EXAMPLE = "nats://host:4222/stream?subject=name"
VARIABLES = {  # in the environment, and what `nats.connect` calls it
    "STREAMBITS_NATS_USER": "user",
    "STREAMBITS_NATS_PASSWORD": "password",
    "STREAMBITS_NATS_TOKEN": "token",
    "STREAMBITS_NATS_CREDENTIALS": "user_credentials",
}
WAIT = 1.0  # seconds for messages to come
UNUSED = 300.0  # seconds after which the server forgets a reader that was killed


class NatsSource:
    """The messages of a stream, in the order of their sequence numbers, one row each.

    Nothing is acknowledged and the server keeps nothing for us: the offset says where to go on,
    so any number of jobs can read one stream, and reading it again gives the same rows. A row
    that brings no id has its sequence number as its id. A server that goes away is waited for,
    and reading goes on after the last message that came. Messages that the stream's limits
    removed before they were read are a reject.

    server: its URL, or several with commas between. stream: its name. subject: only these.
    batch: most messages at a time, which bounds the memory. By default reading ends at the
    message that was the last one when it began; with follow=True it does not end, and with `idle`
    it ends after so many seconds without a message. retry_seconds: seconds to wait for the server.
    options: more for `nats.connect`, such as user_credentials. The rest: see `Parser`.
    """

    def __init__(
        self,
        server: str,
        stream: str,
        *,
        subject: str | None = None,
        batch: int = 1024,
        follow: bool = False,
        idle: float | None = None,
        retry_seconds: float = DEFAULT,
        options: Mapping[str, Any] | None = None,
        **parsing: Any,
    ) -> None:
        self.servers = [one.strip() for one in server.split(",")]
        for one in self.servers:
            Url.parse(one if "://" in one else f"nats://{one}", EXAMPLE)
        self.stream, self.subject = stream, subject
        self.batch = as_count(batch, "batch")
        self.idle = None if idle is None else as_number(idle, "idle", least=0)
        self.follow = follow or idle is not None
        self.options = dict(options or {})
        url = server if "://" in server else f"nats://{server}"
        self.name = f"{shown(url).rstrip('/')}/{stream}"
        hidden = [self.options.get(name) for name in ("password", "token")]
        self.secrets = secrets_in(url) + tuple(text for text in hidden if isinstance(text, str))
        self.retry_seconds = self.waiting(retry_seconds).seconds
        self._parser = Parser(**parsing)
        self._lag: int | None = None

    @classmethod
    def from_url(cls, url: str, **settings: Any) -> Self:
        """From nats://user:password@host:port,host:port/stream?subject=name.

        Who logs in may also be said by the environment, in STREAMBITS_NATS_USER and
        STREAMBITS_NATS_PASSWORD, in STREAMBITS_NATS_TOKEN, or by a file of credentials in
        STREAMBITS_NATS_CREDENTIALS; `options`, and then the URL, go before it.
        """
        parts = Url.parse(url, EXAMPLE)
        if parts.query.keys() - {"subject"}:
            raise InputError(f"{shown(url)} must have no setting but subject: write {EXAMPLE}")
        options = _login(parts) | dict(settings.pop("options", None) or {})
        servers = ",".join(f"{parts.scheme}://{host}" for host in parts.hosts.split(","))
        settings = {"subject": parts.query.get("subject"), "options": options} | settings
        return cls(servers, parts.path.strip("/"), **settings)

    @property
    def length(self) -> None:
        """Not known: a stream grows."""

    def waiting(self, seconds: float | None = None) -> Retry:
        """Retry for the server, by default as much as this was given."""
        return Retry(self.retry_seconds if seconds is None else seconds, self.name, self.secrets)

    @property
    def lag(self) -> int | None:
        """Messages in the stream after the last one that was read; None before the first."""
        return self._lag

    def identity(self) -> Any:
        """The stream, when it was created, which asks the server, and what rows are made of."""
        reader = _Reader(self, None, None)
        with Loop() as loop:
            try:
                info = loop.do(reader.look())
            except LOST as error:
                raise self.waiting(0).unreachable(error) from error
            finally:
                loop.do(reader.close())
        created = info.created.isoformat() if info.created else None
        found = {"nats": self.stream, "subject": self.subject, "created": created}
        return found | self._parser.identity()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Chunks from the first message of the stream, or from an offset.

        An offset also says where its reading was to end, so going on ends there too; if that is
        where it was, reading ends at what is the last message now.
        """
        at = offset or {}
        parser = self._parser.again(at.get("columns"))
        ahead = not self.follow and at and at["next"] <= (at["end"] or 0)
        reader = _Reader(self, at.get("next"), at["end"] if ahead else None)
        with Loop() as loop:
            try:
                for messages, lost in self._batches(loop, reader):
                    ahead = False
                    self._lag = reader.pending
                    yield parser.chunk(messages, {"next": reader.next, "end": reader.end}, lost)
                if ahead:  # there was nothing left up to the old end
                    yield from self.read({**at, "end": None})
            finally:
                loop.do(reader.close())

    def _batches(
        self, loop: Loop, reader: "_Reader"
    ) -> Iterator[tuple[list[Message], tuple[Reject, ...]]]:
        retry, heard = self.waiting(), time.monotonic()
        while not reader.finished:
            try:
                messages, lost = loop.do(reader.fetch())
            except LOST as error:
                loop.do(reader.close())
                if not reader.opened:
                    raise retry.unreachable(reader.reason or error) from error
                retry.wait(reader.reason or error)
                continue
            retry.answered()
            if messages or lost:
                yield messages, lost
                heard = time.monotonic()
            elif self.idle is not None and time.monotonic() - heard >= self.idle:
                return


class _Reader:
    """Fetches messages in order over a connection, which is opened whenever there is none.

    next: the sequence number to go on with; end: the last to read; both None until it is opened,
    and end for ever if following. pending: messages in the stream after `next`.
    """

    def __init__(self, source: NatsSource, start: int | None, end: int | None) -> None:
        self.source, self.next, self.end = source, start, end
        self.pending = 0
        self.opened = False
        self.reason: Exception | None = None
        self._link: Any = None
        self._messages: Any = None
        self._over = False  # a message after the end has come
        self._came = 0  # from the present consumer, which counts them too

    @property
    def finished(self) -> bool:
        """Whether all is read, as far as it is to be read."""
        if self.end is None or self.next is None:
            return False
        if self._over or self.next > self.end:
            return True
        return self._messages is not None and not self.pending

    async def look(self) -> Any:
        """What the server says of the stream."""
        if self._link is None:
            self._link = await self._connect()
        try:
            return await self._link.jetstream().stream_info(self.source.stream)
        except NotFoundError:
            raise InputError(
                f"the server has no stream for {self.source.name}: check its name, or create it"
            ) from None

    async def _connect(self) -> Any:
        link = nats.NATS()
        try:
            await link.connect(
                self.source.servers,
                error_cb=self._note,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                **self.source.options,
            )
        except LOST:  # one that is not let in is left open
            await link.close()
            raise
        return link

    async def fetch(self) -> tuple[list[Message], tuple[Reject, ...]]:
        """The next messages, few or none if none come for a second; and what is lost before."""
        lost: tuple[Reject, ...] = ()
        if self._messages is None:
            lost = await self._open()
        if self.finished:
            return [], lost
        count = min(self.source.batch, max(self.pending, 1))
        try:
            found = await self._messages.fetch(count, timeout=WAIT)
        except TimeoutError:
            self.pending = (await self._messages.consumer_info()).num_pending
            return [], lost
        return self._in_order(found), lost

    async def close(self) -> None:
        link, self._link, self._messages = self._link, None, None
        if link is not None:
            await link.close()

    async def _open(self) -> tuple[Reject, ...]:
        """Begin to read at `next`; gives what is no longer there."""
        try:
            state = (await self.look()).state
            lost = self._find(state.first_seq, state.last_seq)
            config = api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.next,
                ack_policy=api.AckPolicy.NONE,
                filter_subject=self.source.subject,
                inactive_threshold=UNUSED,
                mem_storage=True,
            )
            stream = self._link.jetstream()
            info = await stream.add_consumer(self.source.stream, config)
            self._messages = await stream.pull_subscribe_bind(
                info.name, self.source.stream, pending_bytes_limit=0
            )
        except REFUSED as error:
            reason = without(error, self.source.secrets)
            raise InputError(f"{self.source.name} refuses to be read: {reason}") from error
        self.opened, self.pending, self._came = True, info.num_pending, 0
        return lost

    def _find(self, first: int, last: int) -> tuple[Reject, ...]:
        if self.next is not None and self.next > last + 1:
            raise StorageError(
                f"{self.source.name} ends at {last}, and was read up to {self.next - 1}: it is not "
                f"the stream it was; begin a new job"
            )
        if self.end is None and not self.source.follow:
            self.end = last
        start, self.next = self.next, max(first, 1, self.next or 0)
        if start is None or start == self.next:
            return ()
        where = f"{self.source.stream}, sequences {start} to {self.next - 1}"
        return (Reject(where, "removed from the stream before they were read"),)

    def _in_order(self, found: list[Any]) -> list[Message]:
        messages = []
        for message in found:
            about = message.metadata
            sequence = int(about.sequence.stream)
            if about.sequence.consumer != self._came + 1:  # one was dropped on its way
                self._messages = None
                break
            if self.end is not None and sequence > self.end:
                self._over = True
                break
            where = f"{message.subject}/{self.source.stream} {sequence}"
            messages.append(Message(sequence, where, message.data))
            self._came += 1
            self.next, self.pending = sequence + 1, about.num_pending
        return messages

    async def _note(self, error: Exception) -> None:
        self.reason = error


def _login(url: Url) -> dict[str, str]:
    """Who logs in, as `nats.connect` wants it: by the URL, or else by the environment."""
    told = {name: os.environ[key] for key, name in VARIABLES.items() if os.environ.get(key)}
    if url.user is None:
        return told
    password = told.get("password") if url.password is None else url.password
    return {"token": url.user} if password is None else {"user": url.user, "password": password}
