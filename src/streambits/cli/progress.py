"""Where a long command stands, on stderr: live in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from streambits.io.urls import without_urls
from streambits.jobs.progress import Progress, Watcher

EVERY = 5.0  # seconds between two lines of a job


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


@contextmanager
def job_progress() -> Iterator[Watcher]:
    """Gives a watcher that shows what it is told."""
    console = stderr()
    if console.is_interactive:
        with Live(console=console, transient=True) as live:
            yield lambda _, progress: live.update(_picture(progress))
        return
    last = -EVERY

    def tell(event: str, progress: Progress) -> None:
        nonlocal last
        if event == "epoch" or (event != "end" and time.monotonic() - last >= EVERY):
            last = time.monotonic()
            console.print(progress_line(progress), soft_wrap=True)

    yield tell


def progress_line(progress: Progress) -> str:
    """Where a job is, in one line."""
    total = "" if progress.total is None else f" of {progress.total:,}"
    parts = [f"{progress.rows:,}{total} rows", f"{progress.rate:,.0f} rows/s"]
    parts.append(duration(progress.left))
    if progress.certificate is not None:
        parts.append(f"certificate {progress.certificate:.3g}")
    parts.append(f"epoch {progress.epoch}")
    if progress.lag is not None:
        parts.append(f"{progress.lag:,} waiting")
    if progress.rejects:
        parts.append(f"{progress.rejects:,} bad")
    return ", ".join(filter(None, parts))


def _picture(progress: Progress) -> Table:
    lines = Table.grid(expand=True)
    if progress.total:
        done = min(progress.rows + progress.rejects, progress.total)
        lines.add_row(ProgressBar(total=progress.total, completed=done))
    lines.add_row(progress_line(progress))
    return lines
