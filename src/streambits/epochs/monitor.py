"""DriftMonitor: when a learner publishes a new epoch, and from which rows its landmarks come."""

import math
from collections import deque
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    array_namespace,
    as_choice,
    as_count,
    as_rows,
    blocks,
    device,
    double,
    is_numpy_array,
    nbytes,
    take,
    to_device_of,
    to_numpy,
)
from streambits._device import products
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
from streambits.epochs.embedding import ProportionDetector, principal_components
from streambits.features import Features, GaussianAffinity
from streambits.model.projection import Projection
from streambits.model.renewal import is_row_in, renewable

POLICIES = ("auto", "never")
EVERY = CHUNK // SAMPLED  # of the rows is measured
MARKS = 256  # landmarks, at most, to which a row that is measured is compared
EARLY = (
    64  # measurements, of which every 8th also reads the codes of a few rows, and then every 32nd
)
FEW = 32
UNREAD = (math.nan, math.nan, math.nan)  # measurements that did not read codes
GROUP, GROUP_THERE = 256, 1024  # measurements that are made together, and on a device
SMALLEST = 1e-300  # energy by which others are divided
TASK = 16  # measurements that are worth a thread


class _Sampled(NamedTuple):
    """The results of a few measurements.

    gains, shifts: what each adds to the evidence, and to that of proportions; means: of the
    affinities; codes: of some of them, outside, shift and balance, as in `DriftMeasurement`.
    """

    gains: list[float]
    shifts: list[float]
    means: list[float]
    codes: dict[int, Any]


class DriftMonitor:
    """A test of every 8th row that reports when a new epoch should start.

    Parameters
    ----------
    policy : "auto" or int
        "auto": by the tests of `streambits.epochs.detector` and `streambits.epochs.embedding`, and
        once more when 4 m rows have come since a change, for the first landmarks after it were
        drawn from few. A number: every so many rows, at least 512.
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
    same epochs. Memory: 4 m + 64 rows, half of the landmarks again, 1024 measurements, and what
    `ProportionDetector` holds.
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
        self._beyond = True  # whether it brings rows beyond the landmarks
        self.begin(features, landmarks if reference is None else reference, marks)

    @property
    def recent(self) -> int:
        """Number of rows that it keeps, to draw landmarks from."""
        return int(self._recent.shape[0])

    @property
    def widening(self) -> float:
        """Factor of the bandwidth of new landmarks: while a stream moves, rows lie beyond them."""
        return WIDER if self._change is not None and self._beyond else 1.0

    @property
    def nbytes(self) -> int:
        """Bytes held, constant while the number of landmarks is."""
        row = nbytes(self._recent[:1, :])
        rows = nbytes(self._recent) + SAMPLED * row + self._half.nbytes
        rows += 0 if self.marks is self.features else self.marks.nbytes
        return rows + KEPT * len(DriftMeasurement._fields) * 8 + self.proportions.nbytes

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
            affinities = to_numpy(double(self._half(like)))
            others = affinities[~is_row_in(like, self._half.landmarks)]
            others = others if len(others) else affinities
            components = principal_components(others)
        self.detector = EDetector.of(others.max(axis=1))
        self.proportions = ProportionDetector(to_device_of(components, self._half.landmarks))

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
        fresh.detector, fresh.proportions = self.detector.fresh(), self.proportions.fresh()
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
        before = self.rows
        first, count = before // CHUNK, (before + int(rows.shape[0])) // CHUNK - before // CHUNK
        sampled = rows[min(-before % EVERY, int(rows.shape[0])) :: EVERY, :]
        if not count and not sampled.shape[0]:  # as for most rows that come one by one
            self._record(rows)
            return None
        if self._waiting.shape[0]:
            sampled = array_namespace(rows).concat([self._waiting, sampled], axis=0)
        self._waiting = self._waiting[:0, :]
        size = GROUP if is_numpy_array(rows) else GROUP_THERE
        for start in range(0, count, size):
            group = min(size, count - start)
            some = sampled[start * SAMPLED : (start + group) * SAMPLED, :]
            seen = self._measure(some, first + start, projection)
            skipped = max(0, count - KEPT - start)  # measurements that later ones would push out
            due = self._due(seen, first + start, epoch, skipped)
            if due is not None:
                self._record(rows[: due - before, :])
                return due - before
        waiting = sampled[count * SAMPLED :, :]
        if waiting.shape[0]:  # of rows that the caller may change
            self._waiting = array_namespace(waiting).asarray(waiting, copy=True)
        self._record(rows)
        return None

    def _measure(self, rows: Array, first: int, projection: Projection | None) -> _Sampled:
        """Measure rows of several chunks, of which the first has the number `first`."""
        count = int(rows.shape[0]) // SAMPLED
        reads = [i for i in range(count) if projection is not None and _reads_codes(first + i)]
        codes: list[Any] = []
        few = [rows[i * SAMPLED : i * SAMPLED + FEW, :][None, :, :] for i in reads]
        if is_numpy_array(rows):
            found = list(ordered_map(self._compared, blocks(rows, TASK * SAMPLED)))
            closest: Array = np.concatenate([some for some, _ in found])
            values: Array = np.concatenate([some for _, some in found])
            with one_blas_thread():  # others of BLAS would spin on for a while, and take a core
                codes = [self._read_codes(some, projection)[0].tolist() for some in few]
        else:
            closest, values = self._compared_there(rows)
            if reads:
                codes = self._read_codes(array_namespace(rows).concat(few), projection).tolist()
        xp = array_namespace(closest)
        both = xp.stack([self.detector.gains(closest), xp.mean(closest, axis=1)])
        gains, means = to_numpy(both).tolist()
        shifts = self.proportions.gains(to_numpy(values)).tolist()
        return _Sampled(gains, shifts, means, dict(zip(reads, codes, strict=True)))

    def _compared(self, rows: Array) -> tuple[Array, Array]:
        """Compare rows of k measurements to the marks, each by itself: the same for any split.

        Returns affinities to the nearest mark, (k, 64), and embedded rows, (k, columns, 64).
        """
        found = self._half.measured(rows, each=SAMPLED)
        if found is None:
            affinities = np.concatenate([self._half(some) for some in blocks(rows, SAMPLED)])
        else:
            affinities = found.features
        affinities = affinities.reshape(-1, SAMPLED, self._half.width)
        return double(affinities.max(axis=2)), self.proportions.embed(affinities)

    def _compared_there(self, rows: Array) -> tuple[Array, Array]:
        """The same for rows on a device, by products of one shape: the same for any split."""
        xp, count = array_namespace(rows), int(rows.shape[0])
        lacking = GROUP_THERE * SAMPLED - count
        if lacking:
            none = xp.zeros((lacking, rows.shape[1]), dtype=rows.dtype, device=device(rows))
            rows = xp.concat([rows, none], axis=0)
        with products(rows):
            affinities = self._half(rows)
            affinities = xp.reshape(affinities, (GROUP_THERE, SAMPLED, -1))
            values = self.proportions.embed(affinities)
        whole = count // SAMPLED
        return double(xp.max(affinities, axis=2))[:whole, :], values[:whole, ...]

    def _read_codes(self, rows: Array, projection: Any) -> NDArray[np.float64]:
        """What a few rows (k, n, d) of each measurement say of the coder, (k, 3)."""
        count, each, columns = rows.shape
        xp = array_namespace(rows)
        with products(rows):
            values = double(self.features(xp.reshape(rows, (count * each, columns))))
        ones = xp.astype(projection(values) > 0, xp.float64)
        balance = xp.mean(xp.reshape(ones, (count, each, -1)), axis=1)
        centred = xp.reshape(values - self._mean, (count, each, -1))
        energy = xp.sum(centred**2, axis=(1, 2))
        energy = xp.where(energy > SMALLEST, energy, xp.full_like(energy, SMALLEST))
        inside = xp.sum((centred @ projection.basis) ** 2, axis=(1, 2)) / energy
        centre = xp.mean(centred, axis=1)
        shift = xp.sqrt(xp.sum(centre**2, axis=1) * each / energy)
        found = (1 - inside, shift, xp.mean(xp.abs(2 * balance - 1), axis=1))
        return np.asarray(to_numpy(xp.stack(found, axis=1)))

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

    def _due(self, found: _Sampled, first: int, epoch: int, skipped: int) -> int | None:
        """Take measurements into account; returns after how many rows a new epoch is due, if so.

        The measurements before the number `skipped` need not be kept.
        """
        for number, (gain, shift) in enumerate(zip(found.gains, found.shifts, strict=True)):
            evidence = (self.detector.add(gain), self.proportions.add(shift))
            rows = (first + number + 1) * CHUNK
            if self._change is not None:
                self._change += CHUNK
            due = self._is_due(rows)
            if number >= skipped or due:
                seen = (rows, found.means[number], *found.codes.get(number, UNREAD))
                self.measurements.append(DriftMeasurement._make((*seen, *evidence, epoch)))
            if due:
                return rows
        return None

    def _is_due(self, rows: int) -> bool:
        if self.policy != "auto":
            return rows % int(self.policy) < CHUNK <= rows
        if self.detector.alarm or self.proportions.alarm:
            self._beyond = self.detector.alarm
            since = self.detector.since if self._beyond else self.proportions.changed
            self._change = since * CHUNK
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
            "beyond": self._beyond,
            "detector": self.detector.state(),
            "proportions": self.proportions.state(),
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
            self.measurements.append(
                DriftMeasurement._make([int(row[0]), *row[1:-1], int(row[-1])])
            )
        self._change, self._beyond = state["change"], state["beyond"]
        self.detector = EDetector.from_state(state["detector"])
        self.proportions = ProportionDetector.from_state(state["proportions"])
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
