"""How much of a grid is left, on stderr: live in a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from paper.contestants import CONTESTANTS
from paper.measure import STREAMS, Cell
from streambits.cli.output import duration

EVERY = 10.0  # seconds between two lines
START = 3_000_000  # of `cost`: what every cell has to do


class Remaining:
    """Cells done and to do; the time left goes by the rows and landmarks of those that are left.

    done: how many had results before; workers: how many run at a time, in the given order.
    """

    def __init__(self, todo: Sequence[Cell], done: int, workers: int) -> None:
        self.left = dict.fromkeys(todo)
        self.total, self.workers = done + len(todo), workers
        self._costs = {cell: cost(cell) for cell in todo}
        self._all, self._started = sum(self._costs.values()), time.monotonic()

    def finish(self, cell: Cell) -> None:
        """One more is done."""
        self.left.pop(cell, None)

    @property
    def done(self) -> int:
        return self.total - len(self.left)

    @property
    def seconds(self) -> float | None:
        """How long it will still take; None before anything is done."""
        left = sum(self._costs[cell] for cell in self.left)
        spent = time.monotonic() - self._started
        return spent * left / (self._all - left) if left < self._all else None

    def __str__(self) -> str:
        now = list(self.left)[: self.workers]
        parts = [f"{self.done:,} of {self.total:,} cells", duration(self.seconds)]
        if now:
            parts.append("now " + "; ".join(map(describe, now)))
        return ", ".join(filter(None, parts))


@contextmanager
def remaining(
    console: Console, todo: Sequence[Cell], done: int, workers: int
) -> Iterator[Callable[[Cell], None]]:
    """Gives what to call when a cell is done."""
    state = Remaining(todo, done, workers)
    if console.is_interactive:
        columns = (BarColumn(bar_width=24), TextColumn("{task.description}"))
        with Progress(*columns, console=console, transient=True) as bar:
            yield _on_bar(bar, bar.add_task(str(state), total=state.total, completed=done), state)
    else:
        yield _on_lines(console, state)


def _on_bar(bar: Progress, task: TaskID, state: Remaining) -> Callable[[Cell], None]:
    def report(cell: Cell) -> None:
        state.finish(cell)
        bar.update(task, completed=state.done, description=str(state))

    return report


def _on_lines(console: Console, state: Remaining) -> Callable[[Cell], None]:
    last = time.monotonic()
    console.print(str(state), soft_wrap=True)

    def report(cell: Cell) -> None:
        nonlocal last
        state.finish(cell)
        if time.monotonic() - last >= EVERY or not state.left:
            last = time.monotonic()
            console.print(str(state), soft_wrap=True)

    return report


def cost(cell: Cell) -> float:
    """What a cell costs beside others, roughly."""
    _, landmarks, rows = STREAMS[cell.stream]
    return START + rows * float(landmarks)


def describe(cell: Cell) -> str:
    """A cell in few words."""
    usual = Cell(cell.stream, cell.method, cell.bits)._asdict()
    other = [str(v) for k, v in cell._asdict().items() if v != usual[k] and k != "seed"]
    parts = [cell.stream, CONTESTANTS[cell.method].title, f"{cell.bits} bits", *other]
    return ", ".join([*parts, f"seed {cell.seed}"])
