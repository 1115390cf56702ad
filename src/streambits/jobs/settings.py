"""Settings: how a job learns."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_choice
from streambits.errors import InputError
from streambits.features import centres, nearest
from streambits.methods import METHODS, Method, linear
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.model.sampling import reservoir

LEARNED: dict[str, Method] = {
    **{n: m for n, m in METHODS.items() if m.streams and n != "semi_supervised"},  # no labels
    "linear": Method(linear, limit="columns"),  # pcah, itq and unifdiag are cases of it
}
LANDMARKS = 500
WAYS = ("uniform", "centres")  # to landmarks
REFERENCE = 1000  # further ones, by which a stream is judged where landmarks are centres
SHARE = 10  # first rows for each landmark that is drawn from them


class Settings(NamedTuple):
    """Those of the method that are None are left to it.

    n_landmarks: from the first rows, ten for each. refresh: rows between two coders; None:
    "auto" of `encode_online`. bandwidth_factor: times
    `nearest(30)`, in place of a bandwidth. landmarks_by: 'centres' are those of the first rows;
    None, as 'uniform': some of them, drawn at random.
    What came after the first version is None by default: older folders do not have it.
    """

    bits: int
    method: str = "ssbc"
    n_landmarks: int = LANDMARKS
    epochs: str | int | None = None
    half_life: float | None = None
    bandwidth: float | None = None
    epsilon: float | None = None
    seed: int = 0
    refresh: int | None = None
    whitening: float | None = None
    rotation: str | None = None
    bandwidth_factor: float | None = None
    landmarks_by: str | None = None

    @property
    def gathered(self) -> int:
        """Rows from which landmarks are drawn, and then those by which `epochs` judges."""
        return SHARE * self.n_landmarks + (REFERENCE if self.landmarks_by == "centres" else 0)

    def filled(self) -> "Settings":
        """With the default of `epochs`, which is no method's own."""
        if self.method == "ssbc":
            return self if self.epochs is not None else self._replace(epochs="auto")
        return self._replace(epochs=None) if self.epochs == "never" else self

    def checked(self) -> "Settings":
        """Filled, if the method takes them: asked of two rows, before there is a folder."""
        filled, bits = self.filled(), as_bits(self.bits)
        refusal = self._method().refusal(bits, landmarks=self.n_landmarks, columns=bits)
        if refusal:
            raise InputError(
                f"bits is {bits}, and {self.method} has {refusal}; ask for fewer, or for more "
                f"landmarks"
            )
        filled._replace(bits=1).learner([np.eye(2)[: self.n_landmarks]])
        return filled

    def learner(self, rows: list[NDArray[Any]]) -> Learner:
        """A learner with landmarks from these rows, all of them if they are few."""
        method, given = self._method(), self._given()
        if self.landmarks_by == "centres" and self.epochs is not None:
            later = np.concatenate(rows)[SHARE * self.n_landmarks :]
            given["reference"] = later if len(later) >= REFERENCE else np.concatenate(rows)
        learner: Learner = method(self._landmarks(rows), self.bits, seed=self.seed, **given)
        return learner

    def _method(self) -> Method:
        return LEARNED[as_choice(self.method, "method", tuple(LEARNED))]

    def _given(self) -> dict[str, Any]:
        """What the method is told."""
        names = ("epochs", "half_life", "bandwidth", "epsilon", "whitening", "rotation")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.bandwidth_factor is None:
            return given
        if self.bandwidth is not None:
            raise InputError(
                f"bandwidth is {self.bandwidth:g} and bandwidth_factor {self.bandwidth_factor:g}: "
                f"give one of them"
            )
        return given | {"bandwidth": self.bandwidth_factor * nearest(30)}

    def _landmarks(self, rows: list[NDArray[Any]]) -> Array:
        count = min(self.n_landmarks, sum(map(len, rows)))
        way = as_choice(self.landmarks_by or "uniform", "landmarks_by", WAYS)
        if way == "uniform":
            return reservoir(rows, count, seed=self.seed)
        if self._method().limit != "landmarks":
            raise InputError(
                f"landmarks_by is 'centres', and {self.method} has no landmarks: "
                f"leave it out, or use ssbc"
            )
        first = np.concatenate(rows, dtype=np.float64)[: SHARE * self.n_landmarks]
        return centres(first, count, seed=self.seed)

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
