"""Progress: where a job is, for whoever watches it."""

from collections.abc import Callable
from typing import NamedTuple

from streambits.epochs.detector import DriftMeasurement


class Progress(NamedTuple):
    """rows: good ones, with those of earlier runs; bytes: of the rows; rejects: bad ones;
    fresh: rows of this run, in so many seconds; total: rows, good and bad, where that is known;
    certificate: of the learner; drift: its last look; lag: messages that wait in a broker;
    stopped: by a signal.
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
    stopped: bool = False

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.fresh / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that it will still take, where that is known."""
        if self.total is None or not self.rate:
            return None
        return max(0, self.total - self.rows - self.rejects) / self.rate


Watcher = Callable[[str, Progress], None]  # start, step, epoch, commit or end; and where it is
