"""A stand-in for the service: the page's documents from a small index that grows as time passes.

    python tests/service/mock.py [PORT]

serves it until it is interrupted; the token is "secret".
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "src/streambits/service/page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
ALARM = 13.8
BITS, COLUMNS = 64, 8
BASE, RATE = 480_000, 1500  # rows at the beginning, and rows per second
SENT = 0.5  # seconds between two status events


class RefusedError(Exception):
    """An answer that is not a success."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status


class MockIndex:
    """What the documents are made of."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.rng, self.begun, self.lock = rng, time.time(), threading.RLock()
        centres = rng.normal(0, 3, (6, COLUMNS))
        rows = centres[rng.integers(6, size=2000)] + rng.normal(0, 1, (2000, COLUMNS))
        self.held = {f"doc-{number}": row for number, row in enumerate(rows)}
        self.planes = rng.normal(0, 1, (COLUMNS, BITS))
        self.starts = [0, 210_000, 352_000]  # rows at which each epoch began
        self.changed = threading.Condition()

    @property
    def epoch(self):
        return len(self.starts) - 1

    @property
    def seen(self):
        return BASE + int(RATE * (time.time() - self.begun))

    def status(self):
        lag = int(40 + 30 * np.sin(time.time()))
        return {
            "rows": self.seen - 1234,
            "waiting": 0,
            "gathered": 5000,
            "seen": self.seen,
            "removed": 1234,
            "rejects": 3,
            "epoch": self.epoch,
            "rows_per_second": RATE + 60 * float(np.sin(time.time())),
            "lag": lag,
            "last_commit": time.time() - 0.4,
            "memory": 312 << 20,
            "queue": 2,
            "journal_bytes": 41 << 20,
            "keep_rows": True,
            "settings": {
                "method": "ssbc",
                "bits": BITS,
                "refine": 8,
                "n_landmarks": 500,
                "bandwidth": None,
            },
            "uptime": time.time() - self.begun + 11_000,
            "healthy": True,
            "sentence": f"All is well: rows arrive and are searchable, {lag} messages behind.",
        }

    def recall(self):
        means = [0.71, 0.824] + [0.873] * (self.epoch - 1)
        epochs = {
            str(number): {"mean": mean, "low": mean - 0.02, "high": mean + 0.018}
            for number, mean in enumerate(means)
        }
        total = {"mean": 0.846, "low": 0.831, "high": 0.86}
        return {**total, "k": 10, "queries": 400, "rows": 5000, "epochs": epochs}

    def drift(self):
        every = 512 * 4
        rows = np.arange(every, self.seen, every)[-1024:]
        epoch = np.searchsorted(self.starts, rows, side="right") - 1
        noise = np.random.default_rng(7).normal(0, 0.5, self.seen // every + 1)[: len(rows)]
        ends = np.array([*self.starts[1:], np.inf])
        rising = np.maximum(0, 15 - (ends[epoch] - rows) / 1500)  # shortly before an epoch
        evidence = np.abs(noise) + rising + 0.8
        proportions = 1 + np.abs(np.roll(noise, 9)) + 3 * np.sin(rows / 60_000) ** 2
        measurements = {
            "rows": rows.tolist(),
            "affinity": (0.62 - rising / 60 + noise / 50).tolist(),
            "evidence": evidence.tolist(),
            "proportions": proportions.tolist(),
            "epoch": epoch.tolist(),
        }
        starts = [{"epoch": n, "rows": at} for n, at in enumerate(self.starts) if n]
        return {"alarm": ALARM, "measurements": measurements, "epochs": starts}

    def spectrum(self):
        energies = 12.0 * np.arange(1, 97) ** -1.4
        return {"energies": energies.tolist(), "bits": BITS, "certificate": 0.00123}

    def bits(self):
        balance = 0.5 + np.random.default_rng(self.epoch).normal(0, 0.045, BITS)
        balance[17] = 0.71
        return {"balance": balance.tolist(), "changed": 0.0312}

    def epochs(self):
        recall = self.recall()["epochs"]
        ends = [*self.starts[1:], self.seen]
        epochs = [
            {
                "epoch": n,
                "rows": ends[n] - start,
                "current": n == self.epoch,
                "recall": recall.get(str(n)),
            }
            for n, start in enumerate(self.starts)
        ]
        return {"epochs": epochs, "command": "streambits reencode /srv/index --out /srv/index-2"}

    def map(self):
        points = np.stack([*self.held.values()])[:2000] @ self.planes[:, :2]
        epoch = np.searchsorted([0, 500, 900], np.arange(len(points)), side="right") - 1
        return {"x": points[:, 0].tolist(), "y": points[:, 1].tolist(), "epoch": epoch.tolist()}

    def search(self, asked):
        k, by = asked.get("k", 10), asked.get("by", "hamming")
        names = list(self.held)
        rows = np.stack([*self.held.values()])
        if "id" in asked:
            if asked["id"] not in self.held:
                raise RefusedError(404, f"there is no row with the id {asked['id']!r}")
            query = self.held[asked["id"]]
        else:
            query = np.asarray(asked["rows"][0], float)
            if len(query) != COLUMNS:
                raise RefusedError(
                    422, f"rows have {len(query)} columns, and the index has {COLUMNS}"
                )
        if by == "hamming":
            codes = rows @ self.planes > 0
            found = (codes != (query @ self.planes > 0)).sum(axis=1)
        else:
            decoded = np.round(rows / 0.6) * 0.6 if by == "refined" else rows
            found = np.sqrt(((decoded - query) ** 2).sum(axis=1))
        best = np.argsort(found, kind="stable")[:k]
        return {"ids": [[names[i] for i in best]], "distances": [found[best].tolist()]}

    def add(self, asked):
        with self.lock:
            rows = np.asarray(asked["rows"], float)
            self.held = self.held | dict(zip(asked["ids"], rows, strict=True))
        return {"added": len(rows)}

    def renew(self, _):
        with self.changed:
            self.starts.append(self.seen)
            self.changed.notify_all()
        return {"epoch": self.epoch}


OPEN = ("status", "recall", "drift", "spectrum", "bits", "epochs")


class Handler(BaseHTTPRequestHandler):
    """Answers; `server.index` and `server.token` are what it answers from."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        name = self.path.removeprefix("/v1/")
        if self.path == "/v1/events":
            self._events()
        elif name in OPEN and name != self.path:
            self._answer(getattr(self.server.index, name))
        elif self.path == "/v1/map":
            self._answer(self._allowed(self.server.index.map))
        else:
            self._file(PAGE / ("index.html" if self.path == "/" else self.path[1:]))

    def do_POST(self):
        index = self.server.index
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = json.loads(body or b"{}")
        verbs = {
            "/v1/search": index.search,
            "/v1/rows": self._allowed(index.add),
            "/v1/epochs": self._allowed(index.renew),
        }
        self._answer(lambda: verbs[self.path](asked))

    def _allowed(self, act):
        def refuse(*_):
            raise RefusedError(401, "this needs the token of the service")

        right = self.headers.get("Authorization") == f"Bearer {self.server.token}"
        return act if right else refuse

    def _answer(self, act):
        try:
            status, found = 200, act()
        except RefusedError as error:
            status, found = error.status, {"detail": str(error)}
        self._send(status, "application/json", json.dumps(found).encode())

    def _file(self, path):
        if path.parent != PAGE or not path.is_file():
            self._send(404, "application/json", b'{"detail": "there is nothing here"}')
        else:
            self._send(200, TYPES[path.suffix], path.read_bytes())

    def _send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def _events(self):
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        index, told = self.server.index, self.server.index.epoch
        try:
            while not self.server.stopping:
                if index.epoch != told:
                    told = index.epoch
                    self._event("epoch", {"epoch": told, "rows": index.starts[-1]})
                    self._event("drift", {})
                self._event("status", index.status())
                with index.changed:
                    index.changed.wait(SENT)
        except OSError:
            pass  # the browser has closed the page

    def _event(self, name, found):
        self.wfile.write(f"event: {name}\ndata: {json.dumps(found)}\n\n".encode())
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    """The stand-in, in a thread of its own between `with` and the end of it."""

    daemon_threads = True

    def __init__(self, port=0, token="secret"):
        super().__init__(("127.0.0.1", port), Handler)
        self.index, self.token, self.stopping = MockIndex(), token, False
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), OSError):  # a browser closes what it does not need
            super().handle_error(request, client_address)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}).start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        with self.index.changed:
            self.index.changed.notify_all()
        self.shutdown()
        self.server_close()


if __name__ == "__main__":
    with Server(int(sys.argv[1]) if len(sys.argv) > 1 else 8766) as server:
        sys.stdout.write(f"{server.url}  (token: {server.token})\n")
        sys.stdout.flush()
        threading.Event().wait()
