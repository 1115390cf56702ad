"""Where a long command stands, on stderr: live in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from streambits.evaluation.online import Step
from streambits.io.urls import without_urls


def stderr() -> Console:
    """A console that writes no escape codes unless stderr is a terminal."""
    return Console(stderr=True, highlight=False)


@contextmanager
def streaming(console: Console, title: str) -> Iterator[Callable[[Step], None]]:
    """Gives what to call at each refresh of a stream."""
    if not console.is_interactive:
        console.print(title)
        yield lambda step: console.print("  " + ", ".join(_lines(step)), soft_wrap=True)
        return
    with Live(console=console) as live:
        yield lambda step: live.update(_picture(title, step))


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


def _picture(title: str, step: Step) -> Table:
    lines = Table.grid(expand=True)
    for line in (title, ProgressBar(total=step.total, completed=step.rows), *_lines(step)):
        lines.add_row(line)
    return lines


def _lines(step: Step) -> tuple[str, str]:
    return (
        f"{step.rows:,} of {step.total:,} rows, {step.rows / step.seconds:,.0f} rows/s",
        f"certificate {step.certificate:.3g}, {step.changed:.2%} of bits changed",
    )
