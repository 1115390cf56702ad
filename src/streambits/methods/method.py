"""What a method declares, and what methods share."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streambits._arrays import (
    Array,
    as_number,
)
from streambits.errors import InputError
from streambits.model.codes import MOST_BITS
from streambits.model.learner import Learner

Seed = int | np.random.Generator
BITS = 64  # of a code, if not said otherwise


@dataclass(frozen=True)
class Method:
    """A row of the table: how to build it, and what it cannot do.

    streams: rows of the stream change it, and shards that saw different rows merge.
    limit: 'columns' or 'landmarks' where it has at most as many bits, '' where it has any number.
    distance: how its codes are meant to be compared: 'hamming', 'product' or 'spherical'.
    most_rows: where every row must be a landmark, how many that can be in reasonable time.
    """

    build: Callable[..., Learner]
    streams: bool = True
    limit: str = ""
    distance: str = "hamming"
    most_rows: int | None = None

    def __call__(self, landmarks: Array, bits: int = BITS, **settings: Any) -> Learner:
        """A learner of this method; settings as the function of that name takes them."""
        known = list(inspect.signature(self.build).parameters)[2:]
        for name in settings:
            if name not in known:
                forgets = "; it learns nothing from the stream" if not self.streams else ""
                raise InputError(
                    f"{self.build.__name__} has no setting {name!r}{forgets}: "
                    f"it takes {', '.join(known)}"
                )
        return self.build(landmarks, bits, **settings)

    def refusal(self, bits: int, *, landmarks: int, columns: int, rows: int = 0) -> str:
        """Why it has no codes of this length for so many rows, or an empty text if it has."""
        if self.most_rows is not None and rows > self.most_rows:
            return f"at most {self.most_rows} rows: every one is a landmark, and there are {rows}"
        most = {"columns": columns, "landmarks": landmarks}.get(self.limit, MOST_BITS)
        return f"at most {most} bits: one per {self.limit[:-1]}" if bits > most else ""


def sketch_size(bits: int, epsilon: float) -> int:
    """l = ceil(bits + bits / epsilon), the paper's."""
    rows = bits / as_number(epsilon, "epsilon", above=0)
    if not math.isfinite(rows):
        raise InputError(f"epsilon is {epsilon}; it must be larger: l = bits + bits / epsilon")
    return math.ceil(bits + rows)
