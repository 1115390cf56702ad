"""The declaration of a method, and what methods share."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streambits._arrays import Array, as_choice, as_number, as_rows
from streambits.errors import InputError
from streambits.kernels.decode import METRICS
from streambits.model.codes import MOST_BITS
from streambits.model.learner import Learner
from streambits.model.metric import COSINE, EUCLIDEAN, INNER, unit_rows

Seed = int | np.random.Generator
BITS = 64  # of a code by default


@dataclass(frozen=True)
class Method:
    """A row of the table of methods: how to build a learner, and the limits of the method.

    Parameters
    ----------
    build : callable
        The function of the method: (landmarks or sample, bits, settings) to a learner.
    streams : bool, default True
        Whether rows of the stream change it; shards that have seen different rows then merge.
    limit : {"columns", "landmarks", ""}
        What bounds the number of bits; empty where any number is possible.
    distance : {"hamming", "product", "spherical"}
        How its codes are meant to be compared.
    signs : bool, default True
        Whether its codes have sign bits.
    most_rows : int, optional
        Where every row must be a landmark, the number of rows that is possible in reasonable time.
    """

    build: Callable[..., Learner]
    streams: bool = True
    limit: str = ""
    distance: str = "hamming"
    signs: bool = True
    most_rows: int | None = None

    def __call__(
        self, landmarks: Array, bits: int = BITS, *, metric: str = EUCLIDEAN, **settings: Any
    ) -> Learner:
        """Build a learner of this method.

        Parameters
        ----------
        landmarks : array of shape (m, d)
        bits : int, default 64
            Not used by a method whose codes have no sign bits.
        metric : {"euclidean", "cosine", "inner"}
            By what rows are near. "cosine": all rows, the landmarks and queries included, are
            divided by their lengths. "inner": rows are learned as they are, and searches rank by
            the inner products of what codes decode to.
        **settings
            As the function of the method accepts them.

        Returns
        -------
        Learner

        Raises
        ------
        InputError
            If the method does not have such a setting, or "inner" is asked of codes that do not
            decode.
        """
        known = list(inspect.signature(self.build).parameters)[2:]
        for name in settings:
            if name not in known:
                forgets = "; it learns nothing from the stream" if not self.streams else ""
                raise InputError(
                    f"{self.build.__name__} has no setting {name!r}{forgets}: "
                    f"it takes {', '.join(known)}"
                )
        if as_choice(metric, "metric", METRICS) == COSINE:
            landmarks = unit_rows(as_rows(landmarks))
            if "reference" in settings:
                settings["reference"] = unit_rows(as_rows(settings["reference"]))
        learner = self.build(landmarks, bits if self.signs else 0, **settings)
        if metric == INNER and not learner.refine:
            raise InputError(
                "metric is 'inner', and sign bits alone do not tell how long rows are: set "
                "refine=8, or another number of bytes, or metric='cosine'"
            )
        if learner.metric not in (EUCLIDEAN, metric):
            raise InputError(
                f"metric is {metric!r}, and the learner to extend has {learner.metric!r}: pass that"
            )
        learner.metric = metric
        return learner

    def refusal(self, bits: int, *, landmarks: int, columns: int, rows: int = 0) -> str:
        """Say why the method does not have codes of this length.

        Parameters
        ----------
        bits : int
        landmarks, columns, rows : int
            Numbers of landmarks, of columns and of rows of the data.

        Returns
        -------
        str
            The reason; empty if the codes are possible.
        """
        if self.most_rows is not None and rows > self.most_rows:
            return f"at most {self.most_rows} rows: every one is a landmark, and there are {rows}"
        most = {"columns": columns, "landmarks": landmarks}.get(self.limit, MOST_BITS)
        return f"at most {most} bits: one per {self.limit[:-1]}" if bits > most else ""


def sketch_size(bits: int, epsilon: float) -> int:
    """Return the paper's number of rows of a sketch, l = ceil(bits + bits / epsilon).

    Raises
    ------
    InputError
        If `epsilon` is not positive, or so small that l is infinite.
    """
    rows = bits / as_number(epsilon, "epsilon", above=0)
    if not math.isfinite(rows):
        raise InputError(f"epsilon is {epsilon}; it must be larger: l = bits + bits / epsilon")
    return math.ceil(bits + rows)
