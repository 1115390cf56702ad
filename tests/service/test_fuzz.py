"""Mutated requests to every endpoint: no answer is a fault of ours, and the service lives."""

import json
import os
import re
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
        rows = vectors[:4]
        ids = np.arange(4)
        self.valid = [
            json.dumps({"rows": rows.tolist(), "ids": ids.tolist()}).encode(),
            json.dumps({"rows": rows.tolist(), "k": 3, "by": "hamming"}).encode(),
            json.dumps({"ids": [1, 2], "allow": [1, 5], "k": 2}).encode(),
            ids.tobytes() + rows.tobytes(),
            rows.tobytes(),
            arrow(id=ids, v=lists(rows)),
            arrow(v=lists(rows)),
            b"",
        ]

    def pick(self, values):
        return values[self.rng.integers(len(values))]

    def body(self):
        if self.rng.random() < 0.3:
            found = {self.pick(NAMES): self.value() for _ in range(self.rng.integers(1, 5))}
            return json.dumps(found).encode()
        body = bytearray(self.pick(self.valid))
        for _ in range(self.rng.integers(0, 6)):
            if not body:
                break
            place = int(self.rng.integers(len(body)))
            act = self.rng.integers(4)
            if act == 0:
                body[place] = self.rng.integers(256)
            elif act == 1:
                del body[place : place + int(self.rng.integers(1, 20))]
            elif act == 2:
                body[place:place] = self.rng.bytes(int(self.rng.integers(1, 9)))
            else:
                body[place : place + 4] = self.pick([b"\xff\xff\xff\xff", b"\0\0\0\0", b"NaN,"])
        return bytes(body)

    def value(self):
        return (
            [self.pick(VALUES) for _ in range(3)] if self.rng.random() < 0.4 else self.pick(VALUES)
        )

    def request(self):
        query = "&".join(self.pick(QUERIES) for _ in range(self.pick([0, 0, 0, 1, 1, 2])))
        body = self.body()
        target = f"{self.pick(TARGETS)}?{query}" if query else self.pick(TARGETS)
        if self.rng.random() < 0.6:  # where most can go wrong
            target = f"/v1/{self.pick(['rows', 'search', 'encode', 'epochs'])}?{query}"
        length = len(body) if self.rng.random() < 0.97 else self.pick(["-1", "x", 10**20, "0x5"])
        likely = self.pick(["POST", "POST", "POST", "DELETE", "GET"])
        lines = [
            f"{likely if self.rng.random() < 0.8 else self.pick(METHODS)} {target} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Content-Type: {self.pick([*KINDS, 'text/html', 'application/json; x=', ''])}",
            f"Content-Length: {length}",
            f"Accept: {self.pick([*KINDS, '*/*', ''])}",
            "Connection: close",
        ]
        if self.rng.random() < 0.85:
            lines.append(f"Authorization: Bearer {TOKEN}")
        return "\r\n".join([*lines, "", ""]).encode() + body


def test_no_request_is_answered_by_a_fault(service, vectors):
    fuzzer = Fuzzer(vectors)
    counts = {}
    for _ in range(COUNT):
        asked = fuzzer.request()
        with socket.create_connection(("127.0.0.1", service.port), 30) as link:
            link.sendall(asked)
            found = link.recv(65536)
        status = re.match(rb"HTTP/1.1 (\d+)", found)
        assert status, (asked, found)
        code = int(status[1])
        counts[code] = counts.get(code, 0) + 1
        assert code < 500 or code == 503, (asked, found)
    assert counts.get(200, 0) > COUNT // 30
    assert counts.get(422, 0) > COUNT // 20
    assert service.json("GET", "/readyz") == (200, {"ready": True})
    assert "Traceback" not in service.said, service.said
