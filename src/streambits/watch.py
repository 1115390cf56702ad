"""Watch: when a learner publishes a new epoch, and from which rows its landmarks then come."""

import itertools
import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from streambits._arrays import (
    Array,
    array_namespace,
    as_count,
    device,
    double,
    nbytes,
    take,
    to_numpy,
)
from streambits._threads import ordered_map
from streambits.drift import CHUNK, KEPT, LOOKED_AT, RECENT, SHARE, Detector, Reading
from streambits.projection import Projection

POLICIES = ("auto", "never")
EVERY = CHUNK // LOOKED_AT  # of the rows is looked at
FEW = 32


class Look(NamedTuple):
    """What the learner sees in a few rows; the last three as in `Reading`."""

    affinities: Any
    outside: float
    shift: float
    balance: float


def look(values: Array, mean: Array, projection: Projection | None) -> Look:
    """Affinities (n, m) against a mean and the last projection.

    All rows are looked at for their nearest landmark, the first 32 for the rest, which is NaN
    without a projection.
    """
    xp = array_namespace(values)
    affinities = to_numpy(double(xp.max(values, axis=1)))
    if projection is None:
        return Look(affinities, *3 * (math.nan,))
    values = double(values[:FEW, :])
    centred = values - mean
    energy = max(float(xp.sum(centred**2)), 1e-300)
    inside = float(xp.sum((centred @ projection.basis) ** 2)) / energy
    centre = xp.mean(centred, axis=0)
    shift = math.sqrt(float(xp.sum(centre**2)) * values.shape[0] / energy)
    ones = to_numpy(projection(values) > 0).mean(axis=0)
    return Look(affinities, 1 - inside, shift, float(np.abs(2 * ones - 1).mean()))


class Watch:
    """Looks at every 8th row, and says after which a new epoch is due.

    policy: 'auto', by the test of `drift`, and once more when 4 m rows have come since a change,
    for the first landmarks were drawn from few; or a number of rows.
    Looks fall after every 512 rows of the stream, so any split of it gives the same epochs.
    Memory: 4 m + 64 rows, and 1024 readings.
    """

    def __init__(self, policy: str | int, landmarks: Array) -> None:
        self.policy = policy if policy == "auto" else as_count(policy, "epochs", least=CHUNK)
        self.rows = 0
        self.readings: deque[Reading] = deque(maxlen=KEPT)
        self._waiting = landmarks[:0, :]
        xp = array_namespace(landmarks)
        shape = (RECENT * landmarks.shape[0], landmarks.shape[1])
        self._recent = xp.zeros(shape, dtype=landmarks.dtype, device=device(landmarks))
        self._change: int | None = None  # rows since the change that is settling
        self.detector = Detector(1.0, 1.0)
        self.mean = landmarks[:0, 0]  # of the affinities when the epoch began

    @property
    def moving(self) -> bool:
        """Whether a change is going on."""
        return self._change is not None

    @property
    def ahead(self) -> int:
        """Rows until the next look."""
        return CHUNK - self.rows % CHUNK

    @property
    def nbytes(self) -> int:
        row = nbytes(self._recent[:1, :])
        return nbytes(self._recent) + LOOKED_AT * row + KEPT * len(Reading._fields) * 8

    def begin(self, values: Array) -> None:
        """An epoch begins. values: the affinities (n, m) of its first landmarks to all."""
        self.mean = array_namespace(values).mean(values, axis=0)
        others = np.array(to_numpy(values))
        np.fill_diagonal(others, 0)
        nearest = others.max(axis=1)
        self.detector = Detector(float(nearest.mean()), float(nearest.std()))

    def until(self, rows: Array, see: Callable[[int, Array], Look], epoch: int) -> int | None:
        """After how many of these rows a new epoch is due; None: not in these.

        see: from the number of a look, and the rows to look at. Takes note of the rows up to there.
        """
        pieces = self._pieces(rows)
        whole = pieces[:-1] if (self.rows + rows.shape[0]) % CHUNK else pieces
        first = self.rows // CHUNK
        asked = [(first + i, self._looked(i, piece)) for i, piece in enumerate(whole)]
        looks = ordered_map(lambda item: see(*item), asked)
        start = 0
        for piece, seen in zip(whole, looks, strict=True):
            self._note(piece)
            start += int(piece.shape[0])
            if self._due(seen, epoch):
                return start
        for piece in pieces[len(whole) :]:
            self._waiting = self._looked(len(whole), piece)
            self._note(piece)
        return None

    def _pieces(self, rows: Array) -> list[Array]:
        """The rows, cut where looks fall."""
        cuts = [0, *range(self.ahead, int(rows.shape[0]), CHUNK), int(rows.shape[0])]
        return [rows[i:j, :] for i, j in itertools.pairwise(cuts)]

    def _looked(self, number: int, piece: Array) -> Array:
        """The rows of a piece that are looked at; before the first, those that waited."""
        if number:
            return piece[::EVERY, :]
        waited = [self._waiting, piece[-self.rows % EVERY :: EVERY, :]]
        return array_namespace(piece).concat(waited, axis=0)

    def since(self) -> Array:
        """The rows since the change, as far as they are kept, the oldest first.

        With the last of them the change is over.
        """
        room = self._recent.shape[0]
        count = min(self._change or 0, room, self.rows)
        if count == room:
            self._change = None
        return take(self._recent, (self.rows - count + np.arange(count)) % room)

    def _note(self, rows: Array) -> None:
        room = self._recent.shape[0]
        while rows.shape[0]:
            place = self.rows % room
            fits = min(rows.shape[0], room - place)
            self._recent[place : place + fits, :] = rows[:fits, :]
            self.rows += fits
            rows = rows[fits:, :]

    def _due(self, look: Look, epoch: int) -> bool:
        self._waiting = self._waiting[:0, :]
        alarm = self.detector.look(look.affinities)
        if self._change is not None:
            self._change += CHUNK
        self.readings.append(
            Reading(
                self.rows, float(look.affinities.mean()), *look[1:], self.detector.evidence, epoch
            )
        )
        if self.policy != "auto":
            return self.rows % int(self.policy) < CHUNK <= self.rows
        if alarm:
            self._change = self.detector.since * CHUNK
            return True
        return self._change is not None and self._change >= self._recent.shape[0]

    def state(self) -> dict[str, Any]:
        copy = array_namespace(self._recent).asarray
        return {
            "policy": self.policy,
            "rows": self.rows,
            "readings": np.array(self.readings, np.float64).reshape(-1, len(Reading._fields)),
            "waiting": self._waiting,
            "recent": copy(self._recent, copy=True),
            "change": self._change,
            "detector": self.detector.state(),
            "mean": self.mean,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        recent = state["recent"]
        self = cls(state["policy"], recent[: recent.shape[0] // RECENT, :])
        self.rows, self._waiting, self._recent = state["rows"], state["waiting"], recent
        for row in state["readings"].tolist():
            self.readings.append(Reading._make([int(row[0]), *row[1:6], int(row[6])]))
        self._change = state["change"]
        self.detector = Detector.from_state(state["detector"])
        self.mean = state["mean"]
        return self


def drawn(since: Array, sample: Array, count: int, rng: np.random.Generator) -> tuple[Array, int]:
    """New landmarks, and how many of them, the first, come from the rows since a change.

    Three quarters of them do, as far as there are such rows; the rest come from the sample.
    """
    chosen = rng.permutation(since.shape[0])[: int(SHARE * count)]
    some, others = take(since, chosen), take(sample, rng.permutation(sample.shape[0]))
    rest = _unlike(others, some, count - len(chosen))
    return array_namespace(sample).concat([some, rest], axis=0), len(chosen)


def _unlike(rows: Array, others: Array, count: int) -> Array:
    """The first `count` rows that are not among the others; then any, where there are too few."""
    known = {row.tobytes() for row in to_numpy(others)}
    like = np.array([row.tobytes() in known for row in to_numpy(rows)], np.bool_)
    return take(rows, np.argsort(like, kind="stable")[:count])
