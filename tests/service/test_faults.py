"""A fault of ours is answered by one sentence, wherever it happens, and ends no connection."""

import asyncio

import pytest

from streambits import StreamIndex
from streambits.service import panels
from streambits.service.app import Limits, create_app
from streambits.service.live import Service


def broken(*_args, **_options):
    raise ZeroDivisionError


def answered(app, method, path, *parts, **more):
    """The messages that an application sends; after the last part of the body nothing comes."""
    sent, waiting = [], list(parts)

    async def receive():
        if not waiting:
            await asyncio.sleep(20)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(more)}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(name.encode(), value.encode()) for name, value in more.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    scope |= {"query_string": b"", "scheme": "http", "root_path": "", "http_version": "1.1"}
    return app(scope, receive, send), sent


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/search"), ("GET", "/v1/status"), ("GET", "/v1/drift")]
)
def test_a_fault_is_told_and_not_raised_again(method, path, monkeypatch):
    with Service(StreamIndex(bits=8, n_landmarks=20)) as service:
        app = create_app(service, "a token for this test")
        monkeypatch.setattr(service, "search", broken)
        for name in ("status", "drift"):
            monkeypatch.setattr(panels, name, broken)
        running, sent = answered(app, method, path, b'{"rows": [[1, 2]]}')
        asyncio.run(running)
    assert sent[0]["status"] == 500
    assert sent[1]["body"] == b'{"error":"this is a fault of streambits"}'
    assert len(sent) == 2


def test_bodies_that_do_not_come_end_and_those_that_wait_fill_a_bounded_memory():
    async def both(app):
        slow, first = answered(app, "POST", "/v1/search", b"{", **{"content-length": "50"})
        other, second = answered(app, "POST", "/v1/search", b'{"rows": [[1, 2]]}')
        await asyncio.gather(slow, other)
        return first, second

    with Service(StreamIndex(bits=8, n_landmarks=20)) as service:
        limits = Limits(body=100, memory=120, seconds=0.2)
        first, second = asyncio.run(both(create_app(service, "a token", limits=limits)))
    assert (first[0]["status"], second[0]["status"]) == (408, 429)
    assert b"did not come within 0.2 s" in first[1]["body"]
    assert (b"retry-after", b"1") in second[0]["headers"]
