"""Progress of a job: what it reports, to whom, and the signals by which it is asked to stop."""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NamedTuple, Self, TextIO

from streambits.epochs.detector import DriftMeasurement
from streambits.errors import InputError, MissingExtraError

HOST = "127.0.0.1"
DRIFT = ("affinity", "outside", "shift", "balance", "evidence", "proportion_evidence")
ASKING = (signal.SIGINT, signal.SIGTERM)
COUNTERS = {  # fields of `Progress` that Prometheus counts
    "rows": "Rows read, with earlier runs",
    "bytes": "Bytes of the rows read",
    "rejects": "Rows put aside",
    "removed": "Removals in the stream",
}
GAUGES = {  # what they are, and the fields of `Progress`
    "waiting_rows": ("Rows that wait for landmarks", "waiting"),
    "epoch": ("Epoch of the codes", "epoch"),
    "rows_per_second": ("Rows per second", "rate"),
    "certificate": ("Bound of the sketch", "certificate"),
    "lag": ("Messages in the broker after ours", "lag"),
}


class Progress(NamedTuple):
    """How far a job is.

    Attributes
    ----------
    rows, bytes, rejects : int
        Good rows, their bytes, and bad rows, those of earlier runs included.
    fresh : int
        Rows of this run.
    seconds : float
        How long this run has taken.
    epoch : int
        Of the codes.
    certificate : float, optional
        Of the learner.
    drift : DriftMeasurement, optional
        The last measurement of the monitor.
    lag : int, optional
        Messages that wait in a broker.
    total : int, optional
        Rows of the source, good and bad, where that is known.
    out_of_reach : int
        Rows of this run that no landmark reached: their codes say nothing.
    removed : int
        Removals in the stream, those of earlier runs included.
    waiting : int
        Rows that wait for landmarks: they have no codes yet.
    stopped : bool
        Whether a signal ended the job.
    """

    rows: int
    bytes: int
    rejects: int
    fresh: int
    seconds: float
    epoch: int = 0
    certificate: float | None = None
    drift: DriftMeasurement | None = None
    lag: int | None = None
    total: int | None = None
    out_of_reach: int = 0
    removed: int = 0
    waiting: int = 0
    stopped: bool = False

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.fresh / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that it will still take, where that is known."""
        if self.total is None or not self.rate:
            return None
        return max(0, self.total - self.rows - self.rejects) / self.rate


Watcher = Callable[[str, Progress], None]  # start, step, epoch, commit or end; and how far it is


def tell(watchers: Iterable[Watcher], event: str, progress: Progress) -> None:
    """Call all watchers; a terminal or a log that is gone must not end the job."""
    for watcher in watchers:
        with suppress(OSError):
            watcher(event, progress)


class Stop:
    """Notes a signal that asks the job to stop: it finishes what it has in hand, and commits.

    asked: whether a signal came while inside. A second one ends the process as usual.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {which: signal.signal(which, self._ask) for which in ASKING}
        return self

    def __exit__(self, *_: object) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)
        self._before = {}

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.asked = True
        self.__exit__()


class JsonLog(logging.Handler):
    """A watcher, and a handler for the log of 'streambits': one JSON object per line.

    Steps are not logged, everything else is. A line that cannot be written, because the disk is
    full or nobody reads any more, is lost; the job goes on.
    """

    def __init__(self, job: str, stream: TextIO | None = None) -> None:
        super().__init__()
        self._job, self._stream = job, stream or sys.stderr
        self._rejects = 0

    def __call__(self, event: str, progress: Progress) -> None:
        """One line, and one more where rows were put aside since the last."""
        if event == "step":
            return
        if progress.rejects > self._rejects:
            self.line("rejects", count=progress.rejects, new=progress.rejects - self._rejects)
        self._rejects = progress.rejects
        plain = progress._asdict() | {"seconds": round(progress.seconds, 3)}
        plain["drift"] = progress.drift._asdict() if progress.drift else None
        self.line(event, **plain, rows_per_second=round(progress.rate, 1))

    def emit(self, record: logging.LogRecord) -> None:
        """A message of the library, such as one about a server that went away."""
        self.line("log", level=record.levelname.lower(), message=record.getMessage())

    def line(self, event: str, **more: Any) -> None:
        """One object: when, which job, what happened, and more."""
        head = {"time": datetime.now(UTC).isoformat(), "job": self._job, "event": event}
        line = json.dumps(finite(head | more), allow_nan=False) + "\n"
        try:
            self._stream.write(line)
            self._stream.flush()
        except BrokenPipeError:
            self._drop()
        except (OSError, ValueError):  # no room, or closed
            pass

    def _drop(self) -> None:
        """Nobody reads any more: let Python write what it still holds to nowhere, and end well."""
        with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


def finite(value: Any) -> Any:
    """With null in place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


class Metrics:
    """A watcher that serves its last report to Prometheus at http://127.0.0.1:port/metrics.

    Parameters
    ----------
    port : int
        0 for any that is free; `port` is then the one that was found. Used as a context.
    """

    def __init__(self, port: int) -> None:
        try:
            import prometheus_client as prometheus  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("prometheus-client", "metrics") from None
        held = prometheus.CollectorRegistry()
        self._counters = {
            name: prometheus.Counter(f"streambits_{name}", text, registry=held)
            for name, text in COUNTERS.items()
        }
        self._commits = prometheus.Counter(
            "streambits_commits", "Commits of this run", registry=held
        )
        self._gauges = {
            name: prometheus.Gauge(f"streambits_{name}", text, registry=held)
            for name, (text, _) in GAUGES.items()
        }
        words = "Last measurement of the drift, by statistic"
        self._drift = prometheus.Gauge("streambits_drift", words, ["statistic"], registry=held)
        self._last = Progress(0, 0, 0, 0, 0.0)
        try:
            self._server, self._thread = prometheus.start_http_server(port, HOST, held)
        except OSError as error:
            raise InputError(
                f"metrics cannot be served on port {port}: {error.strerror or error}"
            ) from error
        self.port = int(self._server.server_port)

    def __call__(self, event: str, progress: Progress) -> None:
        """Serve this from now on."""
        last, self._last = self._last, progress
        for name, counter in self._counters.items():  # a job that is stopped early gives back
            counter.inc(max(0, getattr(progress, name) - getattr(last, name)))
        self._commits.inc(event == "commit")
        for name, gauge in self._gauges.items():
            value = getattr(progress, GAUGES[name][1])
            if value is not None:
                gauge.set(value)
        for name in DRIFT if progress.drift else ():
            self._drift.labels(name).set(getattr(progress.drift, name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
