"""What the page shows, one document per panel: plain values, as JSON has them."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import to_numpy
from streambits.epochs.detector import ALARM, DriftMeasurement, latest
from streambits.errors import StreambitsError
from streambits.jobs.describe import spectrum
from streambits.live_recall import Recall
from streambits.service.live import Service, UnavailableError, resident_bytes

SAMPLE_ROWS = 1000  # rows on which bits are counted
DOTS = 1500  # of the sample on the map
FRESH = 3.0  # seconds for which a document that costs something is kept
QUERIES_AGAIN = 10.0  # seconds between two measurements of the recall

Facts = dict[str, Any]


class Cached:
    """A function without arguments whose result is kept for some seconds; one thread computes."""

    def __init__(self, compute: Callable[[], Any], seconds: float = FRESH) -> None:
        self._compute, self._seconds = compute, seconds
        self._lock, self._made, self._value = threading.Lock(), -math.inf, None

    def __call__(self) -> Any:
        with self._lock:
            if time.monotonic() - self._made > self._seconds:
                self._value = self._compute()
                self._made = time.monotonic()
            return self._value


class LiveRecall:
    """The recall that the index measures on its own sample, in a thread of its own.

    It is measured while somebody asks for it, and not more often than every few seconds. last: the
    last result, however old; None if there is none.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._lock = service, threading.Lock()
        self._running, self._made = False, -math.inf
        self.last: Facts | None = None

    def ask(self) -> Any:
        """Return the last result, without a mean if there is none; measure again if it is old."""
        old = time.monotonic() - self._made > QUERIES_AGAIN
        with self._lock:
            if old and not self._running:
                self._running = True
                threading.Thread(target=self._measure, daemon=True).start()
        if self.last is None:
            detail = "The recall is being measured: it comes in a few seconds."
            return {"mean": None, "detail": detail}  # an error would be in a browser's console
        return self.last

    def _measure(self) -> None:
        try:
            if self._service.index.learner is not None:
                self.last = _recall(self._service.index.recall())
                self._made = time.monotonic()
        except StreambitsError:  # too few rows yet: it is asked again
            self._made = time.monotonic()
        finally:
            self._running = False


def _recall(found: Recall) -> Facts:
    names = ("mean", "low", "high", "k", "queries", "rows", "measured")
    facts: Facts = {name: getattr(found, name) for name in names}
    facts["epochs"] = {
        str(number): {name: getattr(one, name) for name in ("mean", "low", "high", "queries")}
        for number, one in found.epochs.items()
    }
    facts["time"] = time.time()
    return facts


def status(service: Service) -> Facts:
    """How the service is, and one sentence about it."""
    index, now = service.index, time.time()
    healthy, sentence = health(service)
    learner = index.learner
    since = None if service.last_commit is None else now - service.last_commit
    return {
        "healthy": healthy,
        "sentence": sentence,
        "rows": len(index),
        "waiting": index.waiting,
        "gathered": index.settings.gathered,
        "seen": index.seen,
        "removed": index.removed,
        "rejects": service.rejects,
        "out_of_reach": index.out_of_reach,
        "epoch": None if learner is None else learner.epoch,
        "columns": index.columns,
        "rows_per_second": round(service.rate, 1),
        "lag": service.lag,
        "source": {
            "name": getattr(service.source, "name", None),
            "state": service.source_state,
            "error": service.source_error or None,
        },
        "last_commit": service.last_commit,
        "seconds_since_commit": since,
        "commits": service.commits,
        "searches": service.searches,
        "refused": service.refused,
        "queue": service.queued,
        "memory": resident_bytes(),
        "index_bytes": index.nbytes,
        "journal_bytes": index.journal_bytes,
        "keep_rows": index.keep_rows,
        "settings": index.settings.plain(),
        "uptime": now - service.started,
        "event": service.last_event,
    }


def health(service: Service) -> tuple[bool, str]:
    """Whether the service is well, and one sentence about it."""
    index = service.index
    if not service.ready:
        return (
            False,
            f"It works no more: {service.failure or 'the index is closed'}. Start it again.",
        )
    if index.blocked:
        return False, index.blocked
    if service.source_state in ("away", "failed"):
        return False, f"The source cannot be read: {service.source_error}"
    if service.queued > 16:
        return False, f"Ingestion is behind: {service.queued} changes wait to be committed."
    if index.learner is None:
        return True, (
            f"{index.waiting:,} of {index.settings.gathered:,} rows wait for landmarks; searches "
            f"compare true distances until then."
        )
    last = service.last_commit
    when = "" if last is None else f" The last change was committed {time.time() - last:.0f} s ago."
    return True, f"{len(index):,} rows are served in epoch {index.learner.epoch}.{when}"


def drift(service: Service) -> Facts:
    """The measurements of the monitor, as lists, with the level of an alarm."""
    found = service.index.drift
    last = latest(found)
    names = DriftMeasurement._fields
    lists = {name: [_number(getattr(one, name)) for one in found] for name in names}
    begun, before = {}, None
    for one in found:
        if before is not None and one.epoch != before:
            begun[one.epoch] = one.rows
        before = one.epoch
    told = [one.facts for one in service.events_since(0) if one.kind == "epoch"]
    begun |= {one["epoch"]: one["rows"] for one in told if one["epoch"]}
    marks = [{"epoch": epoch, "rows": begun[epoch]} for epoch in sorted(begun)]
    return {
        "alarm": ALARM,
        "measurements": lists,
        "latest": None if last is None else {n: _number(getattr(last, n)) for n in names},
        "epochs": marks,
    }


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def epochs(service: Service, recall: Any, command: str) -> Facts:
    """Each epoch, and how its codes are made again. command: the one that does it."""
    index = service.index
    measured = (recall or {}).get("epochs", {})
    each = [{**one._asdict(), "recall": measured.get(str(one.epoch))} for one in index.epochs]
    hint = None
    if not index.keep_rows and len(each) > 1:
        hint = (
            "Raw rows are not kept, so old codes cannot be made again here: send these rows once "
            "more, or begin an index with --keep-rows."
        )
    due = index.keep_rows and any(not one["current"] and one["rows"] for one in each)
    return {"epochs": each, "command": command if due else None, "hint": hint}


def spectrum_document(service: Service) -> Facts:
    """The energies of the sketch's directions, and what the sketch may have lost."""
    learner = service.index.learner
    if learner is None:
        raise _waits(service)
    sketch = learner.sketch
    energies = spectrum(learner)
    energy, certificate = sketch.weight * sum(energies), learner.certificate
    share = None if certificate is None or not energy else certificate / energy
    return {
        "energies": energies,
        "bits": learner.bits,
        "certificate": _number(share),
        "rows": learner.seen,
    }


def bits(service: Service) -> Facts:
    """How often each bit is set over the sample, and what the last refresh has changed."""
    learner, coder, previous = service.index.learner, service.coder, service.previous
    if learner is None or coder is None:
        raise _waits(service)
    rows = learner.sample[:SAMPLE_ROWS]
    if not coder.bits:
        return {"balance": [], "changed": None, "rows": len(rows), "epoch": 0}
    unpacked = coder.encode(rows, warn=False).unpack()
    shares = unpacked.mean(axis=0)
    changed = None
    if previous is not None and previous.epoch == coder.epoch:
        changed = float((previous.encode(rows, warn=False).unpack() != unpacked).mean())
    return {
        "balance": shares.round(4).tolist(),
        "changed": changed,
        "rows": len(rows),
        "epoch": coder.epoch,
    }


def map_of_sample(service: Service) -> Facts:
    """The sample and the latest rows in the plane of the sample's two principal directions.

    It is made of raw rows.
    """
    learner = service.index.learner
    if learner is None:
        raise _waits(service)
    rows = np.asarray(to_numpy(learner.sample), np.float64)[:DOTS]
    centre = rows.mean(axis=0)
    plane = _plane(rows - centre)
    recent = [one for one in list(service.recent) if one[1].shape == centre.shape]
    late = np.array([row for _, row in recent], np.float64).reshape(-1, len(centre))
    energy = float(((rows - centre) ** 2).sum())
    dots = (rows - centre) @ plane
    points = np.concatenate([dots, (late - centre) @ plane]).round(6)
    return {
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
        "epoch": [None] * len(dots) + [epoch for epoch, _ in recent],
        "explained": float((dots**2).sum() / energy) if energy else None,
    }


def _plane(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two principal directions (d, 2), each with its largest entry above zero."""
    _, _, found = np.linalg.svd(rows, full_matrices=False)
    plane = np.zeros((rows.shape[1], 2))
    plane[:, : min(2, len(found))] = found[:2].T
    largest = np.abs(plane).argmax(axis=0)
    signs = np.sign(plane[largest, [0, 1]])
    result: NDArray[np.float64] = plane * np.where(signs == 0, 1, signs)
    return result


def _waits(service: Service) -> UnavailableError:
    index = service.index
    return UnavailableError(
        f"nothing is learned yet: {index.waiting:,} of {index.settings.gathered:,} rows wait for "
        f"landmarks"
    )


def metrics(service: Service) -> str:
    """The counters and gauges as Prometheus reads them."""
    index, learner = service.index, service.index.learner
    last = latest(index.drift)
    values: dict[str, tuple[Any, str]] = {
        "seen_rows_total": (index.seen, "Rows added or replaced"),
        "removed_rows_total": (index.removed, "Rows removed"),
        "rejects_total": (service.rejects, "Rows of the source that were left out"),
        "commits_total": (service.commits, "Records committed by this process"),
        "searches_total": (service.searches, "Requests for a search that were answered"),
        "refused_total": (service.refused, "Changes refused because too many waited"),
        "rows": (len(index), "Rows in the index"),
        "waiting_rows": (index.waiting, "Rows that wait for landmarks"),
        "epoch": (learner and learner.epoch, "Epoch of new codes"),
        "rows_per_second": (service.rate, "Rows per second"),
        "queue": (service.queued, "Changes that wait to be committed"),
        "lag": (service.lag, "Messages in the broker after ours"),
        "journal_bytes": (index.journal_bytes, "Bytes of the journal since the last snapshot"),
        "resident_bytes": (resident_bytes(), "Memory of the process"),
        "drift_evidence": (last and last.evidence, "Evidence of a change; alarm at 13.8"),
        "drift_proportion_evidence": (
            last and last.proportion_evidence,
            "Evidence of changed proportions; alarm at 13.8",
        ),
        "healthy": (int(health(service)[0]), "Whether all is well"),
    }
    lines = []
    for short, (value, text) in values.items():
        name = f"streambits_service_{short}"
        kind = "counter" if short.endswith("_total") else "gauge"
        if value is not None:
            lines += [f"# HELP {name} {text}.", f"# TYPE {name} {kind}", f"{name} {value}"]
    return "\n".join(lines) + "\n"
