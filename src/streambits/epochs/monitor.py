"""DriftMonitor: when a learner publishes a new epoch, and from which rows its landmarks come."""

import math
from collections import deque
from itertools import chain, pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from streambits._arrays import (
    Array,
    array_namespace,
    as_choice,
    as_count,
    as_rows,
    device,
    double,
    nbytes,
    take,
    to_numpy,
)
from streambits._threads import one_blas_thread, ordered_map
from streambits.epochs.detector import (
    CHUNK,
    KEPT,
    RECENT,
    SAMPLED,
    WIDER,
    DriftMeasurement,
    EDetector,
)
from streambits.features import Features, GaussianAffinity
from streambits.model.projection import Projection
from streambits.model.renewal import one_of, renewable

POLICIES = ("auto", "never")
EVERY = CHUNK // SAMPLED  # of the rows is measured
MARKS = 256  # landmarks, at most, to which a row that is measured is compared
EARLY = (
    64  # measurements, of which every 8th also reads the codes of a few rows, and then every 32nd
)
FEW = 32
GROUP = 16  # measurements that are worth a thread


class _Sampled(NamedTuple):
    """The results of a few rows; the last three as in `DriftMeasurement`."""

    affinities: Any
    outside: float = math.nan
    shift: float = math.nan
    balance: float = math.nan


class DriftMonitor:
    """A test of every 8th row that reports when a new epoch should start.

    Parameters
    ----------
    policy : "auto" or int
        "auto": by the test of `streambits.epochs.detector`, and once more when 4 m rows have come
        since a change, for the first landmarks after it were drawn from few. A number: every so
        many rows, at least 512.
    features : Features
        Those of the learner.
    reference : array of shape (n, d), optional
        Rows as they are expected; the landmarks by default.
    marks : GaussianAffinity, optional
        Affinity to m rows of the stream, by which it is judged; by default that of the features,
        which must have landmarks then.

    Notes
    -----
    A row is compared to half of the landmarks, at most 256; what to expect is estimated from the
    other half. Measurements fall after every 512 rows of the stream, so any split of it gives the
    same epochs. Memory: 4 m + 64 rows, half of the landmarks again, and 1024 measurements.
    """

    def __init__(
        self,
        policy: str | int,
        features: Features,
        reference: Array | None = None,
        marks: GaussianAffinity | None = None,
    ) -> None:
        self.policy = policy if policy == "auto" else as_count(policy, "epochs", least=CHUNK)
        self.rows = 0
        self.measurements: deque[DriftMeasurement] = deque(maxlen=KEPT)
        landmarks = (marks or renewable(features)).landmarks
        self._waiting = landmarks[:0, :]
        xp = array_namespace(landmarks)
        shape = (RECENT * landmarks.shape[0], landmarks.shape[1])
        self._recent = xp.zeros(shape, dtype=landmarks.dtype, device=device(landmarks))
        self._change: int | None = None  # rows since the change that is settling
        self.begin(features, landmarks if reference is None else reference, marks)

    @property
    def recent(self) -> int:
        """Number of rows that it keeps, to draw landmarks from."""
        return int(self._recent.shape[0])

    @property
    def widening(self) -> float:
        """Factor of the bandwidth of new landmarks: during a change, rows lie beyond them."""
        return 1.0 if self._change is None else WIDER

    @property
    def nbytes(self) -> int:
        """Bytes held, constant while the number of landmarks is."""
        row = nbytes(self._recent[:1, :])
        rows = nbytes(self._recent) + SAMPLED * row + self._half.nbytes
        rows += 0 if self.marks is self.features else self.marks.nbytes
        return rows + KEPT * len(DriftMeasurement._fields) * 8

    def begin(self, features: Features, like: Array, marks: GaussianAffinity | None = None) -> None:
        """Start an epoch.

        Parameters
        ----------
        features : Features
        like : array of shape (n, d)
            Rows as they are expected, usually some of the landmarks.
        marks : GaussianAffinity, optional
            As for the constructor.
        """
        self.attach(features, marks)
        with one_blas_thread():
            values = double(features(like))
            self._mean = array_namespace(values).mean(values, axis=0)
            closest = to_numpy(double(self._half.closest(like)))
        others = closest[~one_of(like, self._half.landmarks)]
        self.detector = EDetector.of(others if len(others) else closest)

    def attach(self, features: Features, marks: GaussianAffinity | None = None) -> None:
        """Compare rows to the landmarks of these features, or to marks."""
        self.features, self.marks = features, marks or renewable(features)
        width = self.marks.width
        order = np.random.default_rng(width).permutation(width)
        self._half = self.marks.among(order[: min(MARKS, width // 2)])

    @property
    def _own_marks(self) -> GaussianAffinity | None:
        """The marks, where they are not the learner's features."""
        return None if self.marks is self.features else self.marks

    def fresh(self) -> Self:
        """Return a monitor that has seen nothing, and expects the same."""
        fresh = type(self)(self.policy, self.features, marks=self._own_marks)
        fresh.detector = self.detector.fresh()
        fresh._mean = self._mean
        return fresh

    def copy(self) -> Self:
        """Return an independent copy."""
        other = self.from_state(self.state())
        other.attach(self.features, self._own_marks)
        return other

    def until(self, rows: Array, projection: Projection | None, epoch: int) -> int | None:
        """Measure rows, up to where a new epoch is due, and record them.

        Parameters
        ----------
        rows : array of shape (n, d)
        projection : Projection or None
            That of the last coder.
        epoch : int
            The current epoch, for the measurements.

        Returns
        -------
        int or None
            After how many of these rows a new epoch is due; None if it is not.
        """
        if self.rows % CHUNK + rows.shape[0] < CHUNK:  # nothing is measured yet
            self._wait(rows, 0)
            self._record(rows)
            return None
        pieces = self._pieces(rows)
        whole = pieces[:-1] if (self.rows + rows.shape[0]) % CHUNK else pieces
        first = self.rows // CHUNK
        asked = [
            (self._sampled(i, piece), projection if _reads_codes(first + i) else None)
            for i, piece in enumerate(whole)
        ]
        groups = [asked[i : i + GROUP] for i in range(0, len(asked), GROUP)]
        measured, start = chain.from_iterable(ordered_map(self._measured, groups)), 0
        for piece, seen in zip(whole, measured, strict=True):
            start += int(piece.shape[0])
            if self._due(seen, self.rows + start, epoch):
                self._record(rows[:start, :])
                return start
        for piece in pieces[len(whole) :]:
            self._wait(piece, len(whole))
        self._record(rows)
        return None

    def _wait(self, piece: Array, number: int) -> None:
        """Keep the rows that will be measured, of a piece that the caller may change."""
        if number or -self.rows % EVERY < piece.shape[0]:
            waiting = self._sampled(number, piece)
            self._waiting = array_namespace(waiting).asarray(waiting, copy=True)

    def _measured(self, asked: list[tuple[Array, Projection | None]]) -> list[_Sampled]:
        return [self._measure(*some) for some in asked]

    def _measure(self, rows: Array, projection: Projection | None) -> _Sampled:
        affinities = to_numpy(double(self._half.closest(rows)))
        if projection is None:
            return _Sampled(affinities)
        values = double(self.features(rows[:FEW, :]))
        xp = array_namespace(values)
        centred = values - self._mean
        energy = max(float(xp.sum(centred**2)), 1e-300)
        inside = float(xp.sum((centred @ projection.basis) ** 2)) / energy
        centre = xp.mean(centred, axis=0)
        shift = math.sqrt(float(xp.sum(centre**2)) * values.shape[0] / energy)
        ones = to_numpy(projection(values) > 0).mean(axis=0)
        return _Sampled(affinities, 1 - inside, shift, float(np.abs(2 * ones - 1).mean()))

    def _pieces(self, rows: Array) -> list[Array]:
        """The rows, cut where measurements fall."""
        ahead = CHUNK - self.rows % CHUNK
        cuts = [0, *range(ahead, int(rows.shape[0]), CHUNK), int(rows.shape[0])]
        return [rows[i:j, :] for i, j in pairwise(cuts)]

    def _sampled(self, number: int, piece: Array) -> Array:
        """The rows of a piece that are measured; before the first, those that waited."""
        if number:
            return piece[::EVERY, :]
        waited = [self._waiting, piece[-self.rows % EVERY :: EVERY, :]]
        return array_namespace(piece).concat(waited, axis=0)

    def since(self) -> Array:
        """Return the rows since the change, as far as they are kept, the oldest first.

        When they fill all the room, the change is over.
        """
        room = self._recent.shape[0]
        count = min(self._change or 0, room, self.rows)
        if count == room:
            self._change = None
        return take(self._recent, (self.rows - count + np.arange(count)) % room)

    def _record(self, rows: Array) -> None:
        """Keep the last rows, as many as there is room for."""
        room = self._recent.shape[0]
        past = max(0, rows.shape[0] - room)
        self.rows, rows = self.rows + past, rows[past:, :]
        while rows.shape[0]:
            place = self.rows % room
            fits = min(rows.shape[0], room - place)
            self._recent[place : place + fits, :] = rows[:fits, :]
            self.rows, rows = self.rows + fits, rows[fits:, :]

    def _due(self, found: _Sampled, rows: int, epoch: int) -> bool:
        self._waiting = self._waiting[:0, :]
        alarm = self.detector.update(found.affinities)
        if self._change is not None:
            self._change += CHUNK
        affinity = float(found.affinities.sum()) / len(found.affinities)
        evidence = self.detector.evidence
        self.measurements.append(DriftMeasurement(rows, affinity, *found[1:], evidence, epoch))
        if self.policy != "auto":
            return rows % int(self.policy) < CHUNK <= rows
        if alarm:
            self._change = self.detector.since * CHUNK
            return True
        return self._change is not None and self._change >= self._recent.shape[0]

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state` and files."""
        copy = array_namespace(self._recent).asarray
        return {
            "policy": self.policy,
            "rows": self.rows,
            "measurements": np.array(self.measurements, np.float64).reshape(
                -1, len(DriftMeasurement._fields)
            ),
            "waiting": self._waiting,
            "recent": copy(self._recent, copy=True),
            "change": self._change,
            "detector": self.detector.state(),
            "mean": self._mean,
            "marks": self._own_marks,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a monitor from what `state` returned, to be attached to its learner's features.

        `marks` are then those that it had, or None where they are the features.
        """
        self = cls.__new__(cls)
        self.policy, self.rows = state["policy"], state["rows"]
        self._waiting, self._recent = state["waiting"], state["recent"]
        self.measurements = deque(maxlen=KEPT)
        for row in state["measurements"].tolist():
            self.measurements.append(DriftMeasurement._make([int(row[0]), *row[1:6], int(row[6])]))
        self._change = state["change"]
        self.detector = EDetector.from_state(state["detector"])
        self._mean, self.marks = state["mean"], state["marks"]
        return self


def monitor_for(
    epochs: str | int,
    features: Features,
    reference: Array | None = None,
    marks: GaussianAffinity | None = None,
) -> DriftMonitor | None:
    """Return the monitor that the setting `epochs` of a method asks for.

    Parameters
    ----------
    epochs : "auto", "never" or int
    features : Features
    reference : array of shape (n, d), optional
        Rows like those to come; the landmarks by default.
    marks : GaussianAffinity, optional
        By which the stream is judged, where the features do not have landmarks.

    Returns
    -------
    DriftMonitor or None
        None for "never".

    Raises
    ------
    InputError
        If `epochs` is something else, or the features do not have landmarks.
    """
    if epochs == "never":
        return None
    if isinstance(epochs, str):
        as_choice(epochs, "epochs", POLICIES)
    rows = reference
    if rows is not None:
        rows = as_rows(rows, like=features.like, width=features.inputs, name="reference")
    return DriftMonitor(epochs, features, rows, marks)


def _reads_codes(number: int) -> bool:
    """Whether a measurement also reads codes, which takes longer: rarely, and more rarely later."""
    return number % (8 if number < EARLY else 32) == 0
