"""An event loop for clients that have no other way."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self


class Loop:
    """An event loop in a thread of its own, so that it works beside any other.

    >>> with Loop() as loop:
    ...     loop.do(asyncio.sleep(0, "done"))
    'done'
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
