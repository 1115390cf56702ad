"""The HTTP application: every endpoint reads a body, asks the service, and writes bytes.

FastAPI routes the requests and describes them at /openapi.json; bodies of rows do not go through
its models, because a million numbers are checked faster as an array. Whatever is wrong with a
request is answered by one sentence, and changes nothing.
"""

import asyncio
import hmac
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

from streambits import storage
from streambits._arrays import as_choice, as_count
from streambits.errors import InputError, MissingExtraError, StorageError, StreambitsError
from streambits.service import panels
from streambits.service.live import BY, BusyError, Query, Service, UnavailableError

try:
    from fastapi import Depends, FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from starlette.concurrency import run_in_threadpool
    from starlette.datastructures import Headers, QueryParams
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response, StreamingResponse
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Receive, Scope, Send

    from streambits.service import bodies
except ImportError:
    raise MissingExtraError("fastapi", "serve") from None

PAGE = Path(__file__).parent / "page"
INLINE = 1 << 15  # bytes of a body, at most, that is parsed in the event loop
SHOWN = 1.0  # seconds between two status events
TICK, HEARTBEAT = 0.25, 15.0  # seconds between two looks for events, and two signs of life
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-store"),
]
logger = logging.getLogger("streambits")


class Limits(NamedTuple):
    """What a request may cost.

    Attributes
    ----------
    body : int
        Bytes of a body.
    rows : int
        Rows, or ids, of a request.
    memory : int
        Bytes of all bodies that are read at a time; one without a length counts as the largest.
    seconds : float
        For a client to send its body, or to take an answer.
    listeners : int
        Listeners to events.
    """

    body: int = 32 << 20
    rows: int = 100_000
    memory: int = 256 << 20
    seconds: float = 30.0
    listeners: int = 16


class RefusedError(Exception):
    """A request that is answered by a status and a sentence."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, {k.replace("_", "-"): v for k, v in headers.items()}


def create_app(
    service: Service,
    token: str,
    *,
    limits: Limits | None = None,
    hosts: tuple[str, ...] = (),
    address: str = "http://127.0.0.1",
    page: Path = PAGE,
) -> FastAPI:
    """Build the application.

    Parameters
    ----------
    service : Service
        What answers; it must have been started.
    token : str
        What a client must show to change something, or to see raw rows.
    limits : Limits, optional
    hosts : tuple of str, optional
        Names by which the service may be called, against pages that rebind theirs to this machine;
        empty: any.
    address : str
        Where it is, for commands that are shown.
    page : Path
        Folder of the page.

    Returns
    -------
    FastAPI
    """
    api = FastAPI(
        title="streambits",
        description=__doc__.split("\n\n")[0],
        docs_url=None,  # they load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        openapi_url="/openapi.json",
    )
    ends = _Endpoints(service, token, limits or Limits(), address)
    for method, path, endpoint, about in ends.routes():
        api.add_api_route(
            path,
            endpoint,
            methods=[method],
            response_class=Response,
            response_model=None,
            summary=(endpoint.__doc__ or "").split("\n")[0],
            openapi_extra=about,
            dependencies=[Depends(_only(IN_QUERY.get((method, path), ())))],
        )
    api.mount("/", StaticFiles(directory=page, html=True))
    for kind in (*STATUSES, RefusedError, HTTPException):
        api.add_exception_handler(kind, _refusal)
    api.add_middleware(Guard, hosts=hosts, seconds=ends.limits.seconds)
    document = api.openapi()
    bearer = {"bearer": {"type": "http", "scheme": "bearer"}}
    document.setdefault("components", {})["securitySchemes"] = bearer
    return api


# The query string

RAW_ROWS = ("columns", "ids", "first_id")
ASKED = ("k", "by", "candidates", "rerank", "exact", "allow")
IN_QUERY = {  # names in the query string of endpoints; beside a JSON body there are none
    ("GET", "/v1/rows"): ("id", "text"),
    ("POST", "/v1/rows"): RAW_ROWS,
    ("POST", "/v1/encode"): RAW_ROWS,
    ("POST", "/v1/search"): ("columns", *ASKED),
}


def _only(names: tuple[str, ...]) -> Callable[[Request], Awaitable[None]]:
    """What refuses a request with other names in its query string."""

    async def check(request: Request) -> None:
        _check_options(request.query_params, names)

    return check


def _check_options(options: QueryParams, names: tuple[str, ...]) -> None:
    """Refuse names that would be ignored."""
    other = [name for name in options if name not in names]
    if other:
        known = f"it can have {', '.join(names)}" if names else "there is nothing to say there"
        raise InputError(
            f"the query string has {other[0][:60]!r}, which is not known here; {known}"
        )


# Errors

STATUSES: dict[type[Exception], int] = {
    StreambitsError: 409,
    UnavailableError: 409,
    InputError: 422,
    RequestValidationError: 422,
    bodies.TooLargeError: 413,
    bodies.UnsupportedError: 415,
    MemoryError: 413,
    BusyError: 429,
    StorageError: 503,
}


def _refusal(request: Request, error: Exception) -> Response:
    """What is answered instead."""
    del request
    text, headers = str(error), {}
    if isinstance(error, RefusedError):
        status, headers = error.status, error.headers
    elif isinstance(error, HTTPException):
        status, headers = error.status_code, dict(error.headers or {})
        text = f"{error.detail}; the API is at /openapi.json"
    else:
        status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    if isinstance(error, BusyError):
        headers = {"Retry-After": str(error.seconds)}
    if isinstance(error, RequestValidationError):
        text = "the request cannot be read"
    body = bodies.to_json({"error": text.encode("utf-8", "replace").decode()})
    return Response(body, status, headers, bodies.JSON)


class Guard:
    """Middleware: headers, the name of the host, clients that do not read, and faults of ours."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...], seconds: float) -> None:
        self.app, self.hosts, self.seconds = app, hosts, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def guarded(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], *HEADERS]
            async with asyncio.timeout(self.seconds):  # a client that does not read is let go
                await send(message)

        answer, host = self.app, _host(scope)
        if self.hosts and host not in self.hosts:
            words = f"this service is not called {host[:100]!r}: use its address, or start it with"
            answer = _refusal(Request(scope), RefusedError(421, f"{words} --allow-host"))
        try:
            await answer(scope, receive, guarded)
        except (ClientDisconnect, TimeoutError):
            return
        except Exception:
            if begun:
                raise
            logger.exception("a request failed")
            fault = RefusedError(500, "this is a fault of streambits")
            await _refusal(Request(scope), fault)(scope, receive, guarded)


def _host(scope: Scope) -> str:
    name = Headers(scope=scope).get("host", "").strip().lower()
    return name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]


# Endpoints


class _Endpoints:
    """All of them, over one service."""

    def __init__(self, service: Service, token: str, limits: Limits, address: str) -> None:
        self.service, self.limits = service, limits
        self._token = token.encode()
        self._reading = self._listening = 0  # bytes, and listeners
        folder = service.folder or "FOLDER"
        self._reencode = (
            f'curl -X POST -H "Authorization: Bearer $(cat {folder}/token)" '
            f"-H 'Content-Type: application/json' -d '{{\"reencode\": true}}' {address}/v1/epochs"
        )
        self._spectrum = panels.Cached(lambda: panels.spectrum_document(service))
        self._bits = panels.Cached(lambda: panels.bits(service))
        self._map = panels.Cached(lambda: panels.map_of_sample(service), 10.0)
        self._recall = panels.LiveRecall(service)

    def routes(self) -> list[tuple[str, str, Callable[..., Any], dict[str, Any]]]:
        """Method, path, function, and what OpenAPI says of it."""
        secret: dict[str, Any] = {"security": [{"bearer": []}]}
        rows = _about("rows and ids", "RowsAndIds", _ROWS_AND_IDS) | secret
        ids = _about("ids", "Ids", _IDS) | secret
        return [
            ("POST", "/v1/rows", self.add, rows),
            ("DELETE", "/v1/rows", self.remove, ids),
            ("GET", "/v1/rows", self.rows, secret),
            ("POST", "/v1/search", self.search, _about("queries", "Queries", _QUERIES)),
            ("POST", "/v1/encode", self.encode, _about("rows", "Rows", _ROWS)),
            ("GET", "/v1/status", self.status, {}),
            ("GET", "/v1/drift", self.drift, {}),
            ("GET", "/v1/epochs", self.epochs, {}),
            ("POST", "/v1/epochs", self.renew, _about("options", "Renew", _RENEW) | secret),
            ("GET", "/v1/recall", self.recall, {}),
            ("GET", "/v1/spectrum", self.spectrum, {}),
            ("GET", "/v1/bits", self.bits, {}),
            ("GET", "/v1/map", self.map, secret),
            ("GET", "/v1/model", self.model, secret),
            ("GET", "/v1/events", self.events, {}),
            ("GET", "/metrics", self.metrics, {}),
            ("GET", "/healthz", self.healthz, {}),
            ("GET", "/readyz", self.readyz, {}),
        ]

    # Changes

    async def add(self, request: Request) -> Response:
        """Add rows, or replace those of the same ids; answered when they are on the disk."""
        self._check_token(request)
        found = await self._parsed(request, self._rows)
        if found.ids is None:
            raise InputError(
                "rows need ids, so that sending them again does no harm: ids in JSON, a column id "
                "in Arrow, ?ids=int64 or ?first_id=N for raw rows"
            )
        if len(found.ids) != len(found.rows):
            raise InputError(f"there are {len(found.ids)} ids for {len(found.rows)} rows")
        done = self.service.add(found.ids, found.rows)
        return _json({"rows": await asyncio.wrap_future(done)})

    async def remove(self, request: Request) -> Response:
        """Remove rows by their ids; those that are not there do not matter."""
        self._check_token(request)
        ids = await self._parsed(request, self._ids)
        return _json({"removed": await asyncio.wrap_future(self.service.remove(ids))})

    async def renew(self, request: Request) -> Response:
        """Begin a new epoch, or with {"reencode": true} make the codes of old ones again."""
        self._check_token(request)
        body = await self._body(request)
        options = bodies.from_json(body, ("reencode",)) if body else {}
        if type(options.get("reencode", False)) is not bool:
            raise InputError("reencode must be true or false")
        if self.service.index.learner is None:
            raise UnavailableError("rows wait for landmarks: there is no epoch to renew yet")
        if options.get("reencode"):
            if not self.service.index.keep_rows:
                raise UnavailableError("raw rows are not kept: codes cannot be made again")
            return _json({"reencoded": await asyncio.wrap_future(self.service.reencode())})
        return _json({"epoch": await asyncio.wrap_future(self.service.renew())})

    # Questions

    async def search(self, request: Request) -> Response:
        """Find the nearest rows of rows, or of ids."""
        query = await self._parsed(request, self._query)
        hits = await asyncio.wrap_future(self.service.search(query))
        if bodies.wants_arrow(request.headers.get("accept")):
            return Response(bodies.hits_as_arrow(hits), media_type=bodies.ARROW)
        return Response(bodies.hits_as_json(hits), media_type=bodies.JSON)

    async def encode(self, request: Request) -> Response:
        """Encode rows by the current coder, without adding them."""
        found = await self._parsed(request, self._rows)
        if self.service.index.learner is None:
            raise UnavailableError("there is no coder yet: rows wait for landmarks")
        codes = await run_in_threadpool(self.service.index.encode, found.rows)
        if bodies.wants_arrow(request.headers.get("accept")):
            return Response(bodies.codes_as_arrow(codes), media_type=bodies.ARROW)
        return Response(bodies.codes_as_json(codes), media_type=bodies.JSON)

    async def rows(self, request: Request) -> Response:
        """Raw rows by their ids (?id=7&id=8, or ?text=a), where they are kept."""
        self._check_token(request)
        texts = request.query_params.getlist("text")
        numbers = [bodies.whole({"id": one}, "id") for one in request.query_params.getlist("id")]
        if not texts and not numbers:
            raise InputError("say which: ?id=7, or ?text=name for ids that are texts")
        ids = bodies.ids_from_json([*numbers, *texts], self.limits.rows)
        try:
            rows = await run_in_threadpool(self.service.rows_of, ids)
        except InputError as error:
            raise RefusedError(404, str(error)) from None
        if bodies.wants_arrow(request.headers.get("accept")):
            return Response(bodies.rows_as_arrow(ids, rows), media_type=bodies.ARROW)
        return _json({"ids": ids.tolist(), "rows": rows.tolist()})

    # Panels

    async def status(self) -> Response:
        """How the service is: rows, rates, memory, and one sentence."""
        return await self._document(lambda: panels.status(self.service))

    async def drift(self) -> Response:
        """Measurements of the drift monitor, and the level of an alarm."""
        return await self._document(lambda: panels.drift(self.service))

    async def epochs(self) -> Response:
        """Epochs, how many rows each has, and how old codes are made again."""
        last = self._recall.last
        return await self._document(lambda: panels.epochs(self.service, last, self._reencode))

    async def recall(self) -> Response:
        """How often codes find the true neighbours now, measured on the sample."""
        return _json(self._recall.ask())

    async def spectrum(self) -> Response:
        """Energies of the sketch's directions, and the certificate."""
        return await self._document(self._spectrum)

    async def bits(self) -> Response:
        """The balance of each bit over the sample, and the change at the last refresh."""
        return await self._document(self._bits)

    async def map(self, request: Request) -> Response:
        """The sample in two dimensions; it is made of raw rows."""
        self._check_token(request)
        return await self._document(self._map)

    async def model(self, request: Request) -> Response:
        """The newest coder, as a file; it contains raw rows."""
        self._check_token(request)
        coder = self.service.coder
        if coder is None:
            raise UnavailableError("there is no coder yet: rows wait for landmarks")
        content = await run_in_threadpool(storage.to_bytes, coder)
        named = {"Content-Disposition": 'attachment; filename="coder.safetensors"'}
        return Response(content, headers=named, media_type=bodies.RAW)

    async def metrics(self) -> Response:
        """Counters for Prometheus."""
        text = await run_in_threadpool(panels.metrics, self.service)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def healthz(self) -> Response:
        """Whether the process works; if not, it must be started again."""
        return _state("alive", self.service.alive, self.service)

    async def readyz(self) -> Response:
        """Whether changes and searches are answered."""
        return _state("ready", self.service.ready, self.service)

    async def events(self, request: Request) -> Response:
        """Commits, epochs, alarms and trouble of the source, as server-sent events."""
        if self._listening >= self.limits.listeners:
            raise RefusedError(429, f"there are {self._listening} listeners", Retry_After="5")
        last = request.headers.get("last-event-id", "")
        since = int(last) if last.isdecimal() and len(last) < 16 else self.service.last_event
        return StreamingResponse(self._events(since), media_type="text/event-stream")

    async def _events(self, since: int) -> AsyncIterator[bytes]:
        commits, silent, shown, service = -1, 0.0, -math.inf, self.service
        self._listening += 1
        try:
            while not service.stopping.is_set() and self._listening <= self.limits.listeners:
                found = b""
                if service.commits != commits:
                    commits, seen = service.commits, service.index.seen
                    facts = {"commits": commits, "seen": seen, "queue": service.queued}
                    found = _event("commit", facts)
                if time.monotonic() - shown >= SHOWN:
                    shown = time.monotonic()
                    found += _event("status", await run_in_threadpool(panels.status, service))
                for event in service.events_since(since):
                    since = event.number
                    found += f"id: {since}\n".encode() + _event(event.kind, event.facts)
                silent = 0.0 if found else silent + TICK
                if silent >= HEARTBEAT:
                    found, silent = b": alive\n\n", 0.0
                if found:
                    yield found
                await asyncio.sleep(TICK)
        finally:
            self._listening -= 1

    # Parts

    def _check_token(self, request: Request) -> None:
        """Refuse who does not know the token; comparing takes the same time for any."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(shown.strip().encode("latin-1", "replace"), self._token)
        if scheme.lower() != "bearer" or not right:
            raise RefusedError(
                401,
                "this needs the token of the service: Authorization: Bearer TOKEN",
                WWW_Authenticate="Bearer",
            )

    async def _body(self, request: Request) -> bytes:
        """Read the body, as far as it is allowed to be, in the time that it may take."""
        length, most = (
            request.headers.get("content-length", str(self.limits.body)),
            self.limits.body,
        )
        if not length.isdecimal() or len(length) > 18:
            raise RefusedError(400, f"Content-Length is {length[:60]!r}, which is not a number")
        reserved = int(length)
        if reserved > most:
            raise self._too_large()
        if self._reading and self._reading + reserved > self.limits.memory:
            raise BusyError("bodies of other requests fill the memory for them: send this again")
        self._reading += reserved
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise self._too_large()
        except TimeoutError:
            raise RefusedError(
                408,
                f"the body did not come within {self.limits.seconds:g} s",
                Connection="close",
            ) from None
        finally:
            self._reading -= reserved
        return bytes(body)

    def _too_large(self) -> RefusedError:
        return RefusedError(
            413,
            f"the body has more than {self.limits.body:,} bytes: send it in several requests",
            Connection="close",
        )

    async def _parsed(self, request: Request, parse: Callable[..., Any]) -> Any:
        """Read the body and parse it, a large one in a thread."""
        kind = bodies.kind_of(request.headers.get("content-type"))
        body = await self._body(request)
        if len(body) <= INLINE and kind != bodies.ARROW:
            return parse(kind, body, request.query_params)
        return await run_in_threadpool(parse, kind, body, request.query_params)

    def _rows(self, kind: str, body: bytes, options: QueryParams) -> bodies.Rows:
        most, width = self.limits.rows, self.service.index.columns
        _check_options(options, RAW_ROWS if kind == bodies.RAW else ())
        if kind != bodies.JSON:
            return self._rows_of(kind, body, options)
        found = bodies.from_json(body, ("rows", "ids"))
        rows = bodies.rows_from_json(found.get("rows"), most, width)
        ids = None if found.get("ids") is None else bodies.ids_from_json(found["ids"], most)
        return bodies.Rows(rows, ids)

    def _rows_of(self, kind: str, body: bytes, options: QueryParams) -> bodies.Rows:
        most, width = self.limits.rows, self.service.index.columns
        if kind == bodies.RAW:
            return bodies.rows_from_raw(body, options, most, width)
        return bodies.rows_from_arrow(body, most, width)

    def _ids(self, kind: str, body: bytes, options: QueryParams) -> Any:
        _check_options(options, ())
        most = self.limits.rows
        if kind == bodies.RAW:
            return bodies.ids_from_raw(body, most)
        if kind == bodies.ARROW:
            return bodies.ids_from_arrow(body, most)
        found = bodies.from_json(body, ("ids",))
        if "ids" not in found:
            raise InputError('name what is to be removed: {"ids": [1, 2]}')
        return bodies.ids_from_json(found["ids"], most)

    def _query(self, kind: str, body: bytes, options: QueryParams) -> Query:
        most, width = self.limits.rows, self.service.index.columns
        known = {bodies.RAW: ("columns", *ASKED), bodies.ARROW: ASKED, bodies.JSON: ()}
        _check_options(options, known[kind])
        if kind != bodies.JSON:
            found = self._rows_of(kind, body, options)
            asked = {name: _word(name, options[name]) for name in ASKED if name in options}
            return _query(found.rows, asked)
        said = bodies.from_json(body, ("rows", "id", "ids", *ASKED))
        by = [name for name in ("rows", "id", "ids") if name in said]
        if len(by) != 1:
            raise InputError('say what to search for, by one of "rows", "id" and "ids"')
        if by[0] == "rows":
            rows = bodies.rows_from_json(said["rows"], most, width)
        else:
            ids = bodies.ids_from_json(said[by[0]], most)
            rows = bodies.as_float32(self.service.rows_of(ids), width)
        if said.get("allow") is not None:
            said["allow"] = bodies.ids_from_json(said["allow"], most, "allow")
        return _query(rows, {name: said[name] for name in ASKED if name in said})

    async def _document(self, make: Callable[[], Any]) -> Response:
        return _json(await run_in_threadpool(make))


def _query(rows: Any, said: dict[str, Any]) -> Query:
    """Check what is asked for."""
    k = as_count(said.get("k", 10), "k", most=bodies.MOST_K)
    by = as_choice(said.get("by", "default"), "by", BY)
    candidates, rerank = said.get("candidates"), said.get("rerank")
    if candidates is not None and candidates != "all":
        candidates = as_count(candidates, "candidates", most=1 << 24)
    if rerank is not None:
        rerank = as_count(rerank, "rerank", most=1 << 20)
    exact = said.get("exact", False)
    if type(exact) is not bool:
        raise InputError(f"exact is {str(exact)[:60]!r}; it must be true or false")
    return Query(rows, k, by, candidates, rerank, exact, said.get("allow"))


def _word(name: str, text: str) -> Any:
    """A value of the query string: a number, a word, or true or false where that is asked."""
    if name == "allow":
        raise InputError("allow cannot be in the query string: send the search as JSON")
    if name == "exact":
        return {"true": True, "false": False}.get(text, text)
    return int(text) if text.isdecimal() and len(text) < 18 else text


def _event(kind: str, facts: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: ".encode() + bodies.to_json(facts) + b"\n\n"


def _json(value: Any, status: int = 200) -> Response:
    return Response(bodies.to_json(value), status, media_type=bodies.JSON)


def _state(name: str, good: bool, service: Service) -> Response:
    """Whether the service is alive, or ready; and if not, why."""
    why = {} if good else {"reason": panels.health(service)[1]}
    return _json({name: good} | why, 200 if good else 503)


# OpenAPI

_NUMBERS = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
_NAMES = {
    "type": "array",
    "items": {"oneOf": [{"type": "integer", "format": "int64"}, {"type": "string"}]},
}
_ROWS = {"type": "object", "properties": {"rows": _NUMBERS}, "required": ["rows"]}
_IDS = {"type": "object", "properties": {"ids": _NAMES}, "required": ["ids"]}
_ROWS_AND_IDS = {
    "type": "object",
    "properties": {"rows": _NUMBERS, "ids": _NAMES},
    "required": ["rows", "ids"],
}
_RENEW = {"type": "object", "properties": {"reencode": {"type": "boolean"}}}
_QUERIES = {
    "type": "object",
    "properties": {
        "rows": _NUMBERS,
        "id": _NAMES["items"],
        "ids": _NAMES,
        "k": {"type": "integer", "minimum": 1, "maximum": bodies.MOST_K, "default": 10},
        "by": {"type": "string", "enum": list(BY), "default": "default"},
        "candidates": {"oneOf": [{"type": "integer"}, {"const": "all"}]},
        "rerank": {"type": "integer"},
        "exact": {"type": "boolean", "default": False},
        "allow": _NAMES,
    },
}


def _about(what: str, title: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The body of a request, for OpenAPI."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {bodies.JSON: {"schema": json.loads(json.dumps(schema)) | {"title": title}}}
    content |= {bodies.RAW: binary, bodies.ARROW: binary}
    return {"requestBody": {"description": what, "required": True, "content": content}}
