"""The client: arrays in, arrays out, and what it does when the service is busy or away."""

import http.server
import threading

import numpy as np
import pytest

from service.conftest import SMALL
from streambits.errors import InputError, UnreachableError
from streambits.service.client import Client, ServiceError


def test_many_rows_go_in_several_requests(serving, vectors, monkeypatch):
    monkeypatch.setattr("streambits.service.client.PER_REQUEST", 8 * 4 * 1000)
    one = serving(*SMALL)
    with one.client() as client:
        assert client.add(vectors.astype(np.float64), np.arange(3000)) == 3000
        assert client.status()["seen"] == 3000
        found = client.search(vectors[:3], 4)
        assert found.ids.shape == found.distances.shape == (3, 4)
        assert found.ids.dtype == np.int64
        bits = client.search(vectors[:3], 4, by="hamming")
        assert bits.distances.dtype == np.int32
        assert client.search(vectors[:1], 2, allow=[4, 9]).ids.shape == (1, 2)
        assert client.encode(vectors[:3]).bits == 32
        assert client.renew() == 1
        with pytest.raises(ServiceError, match="--keep-rows") as refused:
            client.search(ids=[4])
        assert refused.value.status == 409
    with one.client("wrong") as client, pytest.raises(ServiceError, match="token") as refused:
        client.add(vectors[:1], [1])
    assert refused.value.status == 401
    with one.client() as client, pytest.raises(InputError, match="2 ids for 1 rows"):
        client.add(vectors[:1], [1, 2])


class Closing(http.server.BaseHTTPRequestHandler):
    """Answers once by each connection, and closes it without a word, as a proxy might."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        refused = self.path.startswith("/busy")
        body = b'{"error": "busy"}' if refused else b'{"rows": 1}'
        self.send_response(429 if refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_a_closed_connection_is_opened_again_and_a_busy_service_is_an_error():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Closing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with Client(address, "x") as client:
            assert [client.add(np.zeros((1, 2)), [1]) for _ in range(3)] == [1, 1, 1]
        with Client(f"{address}/busy", "x") as client:
            with pytest.raises(ServiceError, match="busy") as refused:
                client.add(np.zeros((1, 2)), [1])
            assert refused.value.status == 429
        server.shutdown()


@pytest.mark.parametrize("options", [{"filter": {"a": 1}}, {"kk": 3}])
def test_unknown_options_of_a_search_are_refused(options):
    with pytest.raises(TypeError, match="unexpected keyword"):
        Client("http://127.0.0.1:9", timeout=2).search(np.zeros((1, 2)), **options)


def test_nobody_there_is_an_error_that_says_so():
    with pytest.raises(UnreachableError, match="does not answer"):
        Client("http://127.0.0.1:9", timeout=2).status()
    with pytest.raises(InputError, match="pass rows"):
        Client("http://127.0.0.1:9").search(np.zeros((1, 2)), ids=[1])
    with pytest.raises(InputError, match="is not an address"):
        Client("127.0.0.1:9")
