"""Settings: how a job learns."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.errors import InputError
from streambits.features import reservoir
from streambits.learner import Learner
from streambits.methods import METHODS

LEARNED = tuple(n for n, m in METHODS.items() if m.streams and n != "semi_supervised")  # no labels
LANDMARKS = 500
SOONEST, LATEST = 512, 65536  # rows between two coders; one costs as much as some thousand rows
SHARE = 10  # first rows for each landmark that is drawn from them


class Settings(NamedTuple):
    """Those of the method that are None are left to it.

    landmarks: drawn from the first rows, ten for each. refresh: rows between two coders; None:
    whenever the rows have doubled, from 512 on, and then every 65536.
    """

    bits: int
    method: str = "ssbc"
    landmarks: int = LANDMARKS
    epochs: str | int | None = None
    half_life: float | None = None
    bandwidth: float | None = None
    epsilon: float | None = None
    seed: int = 0
    refresh: int | None = None

    @property
    def gathered(self) -> int:
        """Rows from which landmarks are drawn."""
        return SHARE * self.landmarks

    def until_refresh(self, seen: int) -> int:
        """Rows from the `seen` ones to the next coder.

        >>> [Settings(8).until_refresh(seen) for seen in (0, 512, 700, 65536)]
        [512, 512, 324, 65536]
        """
        if self.refresh is not None or seen >= LATEST:
            every = self.refresh or LATEST
            return every - seen % every
        return max(SOONEST, 1 << seen.bit_length()) - seen

    def filled(self) -> "Settings":
        """With the default of `epochs`, which is no method's own."""
        default = "auto" if self.method == "ssbc" else None
        return self if self.epochs is not None else self._replace(epochs=default)

    def learner(self, rows: list[NDArray[Any]]) -> Learner:
        """A learner with landmarks from these rows, all of them if they are few."""
        if self.method not in LEARNED:
            raise InputError(f"method is {self.method!r}; it must be one of {', '.join(LEARNED)}")
        count = min(self.landmarks, sum(map(len, rows)))
        landmarks = reservoir(rows, count, seed=self.seed)
        names = ("epochs", "half_life", "bandwidth", "epsilon")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        learner: Learner = METHODS[self.method](landmarks, self.bits, seed=self.seed, **given)
        return learner

    def plain(self) -> dict[str, Any]:
        """For job.json."""
        return self._asdict()


def first_rows(batches: list[NDArray[np.floating[Any]]], count: int) -> list[NDArray[Any]]:
    """The first `count` rows of batches, in batches."""
    found = []
    for rows in batches:
        if count > 0:
            found.append(rows[:count])
        count -= len(rows)
    return found
