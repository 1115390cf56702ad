"""Metrics for operators: Prometheus, on loopback only."""

from typing import Self

from streambits.errors import InputError, MissingExtraError
from streambits.jobs.standing import Standing

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
except ImportError:
    raise MissingExtraError("prometheus-client", "metrics") from None

HOST = "127.0.0.1"
DRIFT = ("affinity", "outside", "shift", "balance", "evidence")


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
        self._last = Standing(0, 0, 0, 0, 0.0)
        try:
            self._server, self._thread = start_http_server(port, addr=HOST, registry=held)
        except OSError as error:
            raise InputError(
                f"metrics cannot be served on port {port}: {error.strerror or error}"
            ) from error
        self.port = int(self._server.server_port)

    def __call__(self, event: str, standing: Standing) -> None:
        """Take note of where a job is."""
        last, self._last = self._last, standing
        self._rows.inc(standing.rows - last.rows)
        self._bytes.inc(standing.bytes - last.bytes)
        self._rejects.inc(standing.rejects - last.rejects)
        self._commits.inc(event == "commit")
        self._epoch.set(standing.epoch)
        self._rate.set(standing.rate)
        if standing.certificate is not None:
            self._certificate.set(standing.certificate)
        if standing.lag is not None:
            self._lag.set(standing.lag)
        for name in DRIFT if standing.drift else ():
            self._drift.labels(name).set(getattr(standing.drift, name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
