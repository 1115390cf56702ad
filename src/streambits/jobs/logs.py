"""Logs for machines: a JSON object a line."""

import json
import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from streambits.jobs.progress import Progress


class JsonLog(logging.Handler):
    """A watcher, and a handler for the log of 'streambits'. Steps are not told, the rest is.

    A line that cannot be written, because the disk is full or nobody reads any more, is lost; the
    job goes on.
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
            self._line("rejects", count=progress.rejects, new=progress.rejects - self._rejects)
        self._rejects = progress.rejects
        plain = progress._asdict() | {"seconds": round(progress.seconds, 3)}
        plain["drift"] = progress.drift._asdict() if progress.drift else None
        self._line(event, **plain, rows_per_second=round(progress.rate, 1))

    def emit(self, record: logging.LogRecord) -> None:
        """A message of the library, such as one about a server that went away."""
        self._line("log", level=record.levelname.lower(), message=record.getMessage())

    def _line(self, event: str, **more: Any) -> None:
        head = {"time": datetime.now(UTC).isoformat(), "job": self._job, "event": event}
        line = json.dumps(clean(head | more), allow_nan=False) + "\n"
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


def clean(value: Any) -> Any:
    """With null in place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: clean(inner) for name, inner in value.items()}
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
