"""A fault of ours is answered by one sentence, wherever it happens, and ends no connection."""

import asyncio

import pytest

from streambits import StreamIndex
from streambits.service import panels
from streambits.service.app import create_app
from streambits.service.live import Service


def broken(*_args, **_options):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/search"), ("GET", "/v1/status"), ("GET", "/v1/drift")]
)
def test_a_fault_is_told_and_not_raised_again(method, path, monkeypatch):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b'{"rows": [[1, 2]]}', "more_body": False}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    scope |= {"query_string": b"", "scheme": "http", "root_path": "", "http_version": "1.1"}
    with Service(StreamIndex(bits=8, n_landmarks=20)) as service:
        app = create_app(service, "a token for this test")
        monkeypatch.setattr(service, "search", broken)
        for name in ("status", "drift"):
            monkeypatch.setattr(panels, name, broken)
        asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 500
    assert sent[1]["body"] == b'{"error":"this is a fault of streambits"}'
    assert len(sent) == 2
