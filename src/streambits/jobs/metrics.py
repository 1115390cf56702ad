"""Metrics for operators: Prometheus, on loopback only."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from streambits.errors import InputError, MissingExtraError
from streambits.jobs.progress import Progress

try:
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        Counter,
        Gauge,
        generate_latest,
    )
except ImportError:
    raise MissingExtraError("prometheus-client", "metrics") from None

HOST = "127.0.0.1"
DRIFT = ("affinity", "outside", "shift", "balance", "evidence")
CONNECTIONS = 16  # at a time; more are closed at once
TIMEOUT = 3.0  # seconds for a client to say what it wants, or to take it


class _Answer(BaseHTTPRequestHandler):
    """The metrics, whatever the path."""

    timeout = TIMEOUT
    server: "_Server"

    def do_GET(self) -> None:
        found = generate_latest(self.server.registry)
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    """Serves a registry to a few clients at a time, none of which can hold it up.

    Clients that hang would otherwise take all threads and descriptors that the job has.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, registry: CollectorRegistry) -> None:
        self.registry, self._room = registry, threading.Semaphore(CONNECTIONS)
        super().__init__((HOST, port), _Answer)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is not worth a word."""


class Metrics:
    """A watcher that serves what it is told at http://127.0.0.1:port/metrics.

    port: 0 for any that is free; `port` then says which. Used as a context.
    """

    def __init__(self, port: int) -> None:
        held = self._registry = CollectorRegistry()
        self._rows = Counter("streambits_rows", "Rows taken, with earlier runs", registry=held)
        self._bytes = Counter("streambits_bytes", "Bytes of the rows taken", registry=held)
        self._rejects = Counter("streambits_rejects", "Rows put aside", registry=held)
        self._commits = Counter("streambits_commits", "Commits of this run", registry=held)
        self._epoch = Gauge("streambits_epoch", "Epoch of the codes", registry=held)
        self._rate = Gauge("streambits_rows_per_second", "Rows a second, this run", registry=held)
        self._certificate = Gauge("streambits_certificate", "Bound of the sketch", registry=held)
        self._lag = Gauge("streambits_lag", "Messages in the broker after ours", registry=held)
        words = "Last look at the stream, by statistic"
        self._drift = Gauge("streambits_drift", words, ["statistic"], registry=held)
        self._last = Progress(0, 0, 0, 0, 0.0)
        try:
            self._server = _Server(port, held)
        except OSError as error:
            raise InputError(
                f"metrics cannot be served on port {port}: {error.strerror or error}"
            ) from error
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __call__(self, event: str, progress: Progress) -> None:
        """Take note of where a job is."""
        last, self._last = self._last, progress
        self._rows.inc(max(0, progress.rows - last.rows))  # a job that is stopped early gives back
        self._bytes.inc(max(0, progress.bytes - last.bytes))
        self._rejects.inc(max(0, progress.rejects - last.rejects))
        self._commits.inc(event == "commit")
        self._epoch.set(progress.epoch)
        self._rate.set(progress.rate)
        if progress.certificate is not None:
            self._certificate.set(progress.certificate)
        if progress.lag is not None:
            self._lag.set(progress.lag)
        for name in DRIFT if progress.drift else ():
            self._drift.labels(name).set(getattr(progress.drift, name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
