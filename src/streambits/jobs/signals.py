"""Signals that ask a job to stop: it finishes what it has in hand, and commits."""

import signal
import threading
from types import FrameType
from typing import Any, Self

ASKING = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """asked: whether a signal came while inside. A second one ends the process as usual."""

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
