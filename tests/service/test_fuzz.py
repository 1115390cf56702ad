"""Mutated requests to every endpoint: no answer is a fault of ours, and the service lives."""

import json
import os
import socket

import numpy as np

from service.conftest import TOKEN
from service.test_app import PATHS, arrow, lists

COUNT = 10_000 if os.environ.get("STREAMBITS_SLOW") else 300
TARGETS = [*PATHS, "/v1/nothing", "/openapi.json", "/", "/index.html", "/../x", "/%00"]
METHODS = ["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "BREW"]
KINDS = ["application/json", "application/octet-stream", "application/vnd.apache.arrow.stream"]
VALUES = [None, True, -1, 0, 1, 2**63, 1e308, -0.0, "", "x", "\ud800", [], [[]], {}, "all", "NaN"]
NAMES = ["rows", "ids", "id", "k", "by", "candidates", "rerank", "exact", "allow", "reencode"]
QUERIES = ["columns=8", "columns=0", "columns=-1", "columns=x", "ids=int64", "ids=f4", "k=1e3"]
QUERIES += ["first_id=1", "first_id=9223372036854775807", "k=0", "by=true", "exact=true", "id=%ff"]
QUERIES += ["candidates=all", "rerank=99999999999999999999", "text=%00", "%zz", "&&==", "columns=8"]


class Fuzzer:
    def __init__(self, vectors):
        self.rng = np.random.default_rng(5)
        rows, ids = vectors[:4], np.arange(4)
        said = {"rows": rows.tolist(), "ids": ids.tolist()}
        texts = [said, {"ids": [1, 2], "allow": [1, 5], "k": 2}]
        texts.append({"rows": rows.tolist(), "k": 3, "by": "hamming"})
        self.valid = [json.dumps(one).encode() for one in texts]
        self.valid += [ids.tobytes() + rows.tobytes(), rows.tobytes(), b""]
        self.valid += [arrow(id=ids, v=lists(rows)), arrow(v=lists(rows))]

    def pick(self, values):
        return values[self.rng.integers(len(values))]

    def body(self):
        if self.rng.random() < 0.3:
            values = [*VALUES, [self.pick(VALUES) for _ in range(3)]]
            return json.dumps({self.pick(NAMES): self.pick(values) for _ in range(3)}).encode()
        body = bytearray(self.pick(self.valid))
        for _ in range(self.rng.integers(0, 5)):
            place, length = self.rng.integers(len(body) + 1), self.rng.integers(0, 20)
            new = self.pick([b"", self.rng.bytes(length), b"\xff\xff\xff\xff", b"NaN,"])
            body[place : place + self.pick([0, 1, len(new), length])] = new
        return bytes(body)

    def request(self):
        query = "&".join(self.pick(QUERIES) for _ in range(self.pick([0, 0, 0, 1, 1, 2])))
        body, likely = self.body(), self.rng.random() < 0.6  # where most can go wrong
        target = f"/v1/{self.pick(['rows', 'search', 'encode', 'epochs'])}"
        length = len(body) if self.rng.random() < 0.97 else self.pick(["-1", "x", 10**20, "0x5"])
        target = target if likely else self.pick(TARGETS)
        method = self.pick(["POST", "GET", "POST", "DELETE"] * 5 + METHODS)
        lines = [
            f"{method} {target}?{query} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Content-Type: {self.pick([*KINDS, 'text/html', 'application/json; x=', ''])}",
            f"Content-Length: {length}",
            f"Accept: {self.pick([*KINDS, '*/*', ''])}",
            "Connection: close",
        ]
        lines += [f"Authorization: Bearer {TOKEN}"] * (self.rng.random() < 0.85)
        return "\r\n".join([*lines, "", ""]).encode() + body


def test_no_request_is_answered_by_a_fault(service, vectors):
    fuzzer = Fuzzer(vectors)
    counts = {}
    for _ in range(COUNT):
        asked = fuzzer.request()
        with socket.create_connection(("127.0.0.1", service.port), 30) as link:
            link.sendall(asked)
            found = link.recv(65536)
        code = int(found[9:12])
        counts[code] = counts.get(code, 0) + 1
        assert code < 500 or code == 503, (asked, found)
    assert counts.get(200, 0) > COUNT // 30
    assert counts.get(422, 0) > COUNT // 20
    assert service.json("GET", "/readyz") == (200, {"ready": True})
    assert "Traceback" not in service.said, service.said
