"""Where a long command stands, on stderr: live in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from streambits.io.urls import without_urls


def stderr() -> Console:
    """A console that writes no escape codes unless stderr is a terminal."""
    return Console(stderr=True, highlight=False)


@contextmanager
def working(console: Console, title: str) -> Iterator[None]:
    """Says what is going on until it is over."""
    title = without_urls(title, sys.argv[1:])
    if not console.is_interactive:
        console.print(title)
        yield
        return
    with console.status(title):
        yield


def duration(seconds: float | None) -> str:
    """Time left in words; nothing if it is not known."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 6000 else f"{seconds / 3600:.1f} h left"
