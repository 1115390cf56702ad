"""Where a job is, on stderr: live in a terminal, a line now and then elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from streambits.cli.progress import duration, stderr
from streambits.jobs.progress import Standing, Watcher

EVERY = 5.0  # seconds between two lines


@contextmanager
def standing_on() -> Iterator[Watcher]:
    """Gives a watcher that shows what it is told."""
    console = stderr()
    if console.is_interactive:
        with Live(console=console, transient=True) as live:
            yield lambda _, standing: live.update(_picture(standing))
        return
    last = -EVERY

    def tell(event: str, standing: Standing) -> None:
        nonlocal last
        if event == "epoch" or (event != "end" and time.monotonic() - last >= EVERY):
            last = time.monotonic()
            console.print(describe(standing), soft_wrap=True)

    yield tell


def describe(standing: Standing) -> str:
    """Where a job is, in one line."""
    total = "" if standing.total is None else f" of {standing.total:,}"
    parts = [f"{standing.rows:,}{total} rows", f"{standing.rate:,.0f} rows/s"]
    parts.append(duration(standing.left))
    if standing.certificate is not None:
        parts.append(f"certificate {standing.certificate:.3g}")
    parts.append(f"epoch {standing.epoch}")
    if standing.lag is not None:
        parts.append(f"{standing.lag:,} waiting")
    if standing.rejects:
        parts.append(f"{standing.rejects:,} bad")
    return ", ".join(filter(None, parts))


def _picture(standing: Standing) -> Table:
    lines = Table.grid(expand=True)
    if standing.total:
        done = min(standing.rows + standing.rejects, standing.total)
        lines.add_row(ProgressBar(total=standing.total, completed=done))
    lines.add_row(describe(standing))
    return lines
