"""Retry: how long to wait for a server that went away, and the error when it stays away."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from streambits._arrays import as_number
from streambits.errors import UnreachableError
from streambits.io.urls import redact

logger = logging.getLogger("streambits")
FIRST, LONGEST = 0.1, 5.0  # seconds between two tries
DEFAULT = 60.0
T = TypeVar("T")


class Retry:
    """Waits between tries, longer each time, and gives up after `seconds` without an answer.

    Parameters
    ----------
    seconds
        How long to wait in all; 0 to give up at once.
    what
        The server, as messages should name it, without its password.
    secrets
        Texts that are taken out of the reasons that a client gives.
    """

    def __init__(self, seconds: float, what: str, secrets: Iterable[str] = ()) -> None:
        self.seconds = as_number(seconds, "retry_seconds", least=0)
        self.what, self.secrets = what, tuple(secrets)
        self._since: float | None = None
        self._pause = FIRST

    def run(
        self,
        work: Callable[[], T],
        errors: type[Exception] | tuple[type[Exception], ...],
        reason: Callable[[Any], object],
    ) -> T:
        """Do the work, again and again after these errors, until it succeeds.

        reason: says why an error came, or raises what is to be raised at once.
        """
        while True:
            try:
                answer = work()
            except errors as error:
                self.wait(reason(error))
            else:
                self.answered()
                return answer

    def wait(self, reason: object) -> None:
        """Sleep before the next try, or raise if there has been no answer for too long."""
        now = time.monotonic()
        if not self.seconds:
            raise self.unreachable(reason)
        if self._since is None:
            self._since = now
            text = redact(reason, self.secrets)
            logger.warning(
                "%s cannot be reached (%s): trying again for %g s", self.what, text, self.seconds
            )
        left = self._since + self.seconds - now
        if left <= 0:
            raise self.unreachable(reason)
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, LONGEST)

    def answered(self) -> None:
        """Start again from nothing: the server has answered."""
        if self._since is not None:
            logger.warning("%s is there again", self.what)
        self._since, self._pause = None, FIRST

    def unreachable(self, reason: object) -> UnreachableError:
        """The error to raise when the server is not waited for any longer."""
        waited = "" if self._since is None else f" for {time.monotonic() - self._since:.0f} s"
        said = redact(reason, self.secrets)
        return UnreachableError(
            f"{self.what} cannot be reached{waited} ({said}): what was committed is safe, and the "
            f"same command continues once the server is there"
        )
