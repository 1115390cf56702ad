"""The declaration of a method, and what methods share."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    name : str
        What it is called.
    build : callable
        The function of the method: (landmarks or sample, bits, settings) to a learner.
    limit : {"columns", "landmarks", ""}
        What bounds the number of bits; empty where any number is possible.
    signs : bool, default True
        Whether its codes have sign bits.
    preset : mapping, default {}
        Arguments of the function that this method fixes: they are not settings of it.
    """

    name: str
    build: Callable[..., Learner]
    limit: str = ""
    signs: bool = True
    preset: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, inspect.Parameter]:
        """The settings that the method accepts, by name."""
        parameters = list(inspect.signature(self.build).parameters.items())[2:]
        return {name: one for name, one in parameters if name not in self.preset}

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
        for name in settings:
            if name not in self.settings:
                raise InputError(
                    f"{self.name} has no setting {name!r}: it takes {', '.join(self.settings)}"
                )
        if as_choice(metric, "metric", METRICS) == COSINE:
            landmarks = unit_rows(as_rows(landmarks))
            if "reference" in settings:
                settings["reference"] = unit_rows(as_rows(settings["reference"]))
        learner = self.build(landmarks, bits if self.signs else 0, **self.preset, **settings)
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

    def refusal(self, bits: int, *, landmarks: int, columns: int) -> str:
        """Say why the method does not have codes of this length.

        Parameters
        ----------
        bits : int
        landmarks, columns : int
            Numbers of landmarks and of columns of the data.

        Returns
        -------
        str
            The reason; empty if the codes are possible.
        """
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
