"""Renewal: new landmarks for a stream that has moved, and a sketch of the past through them.

Of the past only a sample is left: the spread of the data stays, what the sample does not show is
lost, and the certificate bounds the error against the sample and the rows that follow.
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, array_namespace, blocks, take, to_numpy
from streambits._threads import one_blas_thread
from streambits.errors import InputError
from streambits.features import Features, GaussianAffinity
from streambits.model.projection import Projection
from streambits.sketches import Sketch

BLOCK = 2048  # rows at a time
SHARE = 0.75  # of new landmarks that come from the rows since the change


class Monitor(Protocol):
    """What decides that a new epoch of a learner is due: see `streambits.epochs.monitor`.

    Attributes
    ----------
    policy : "auto" or int
    measurements : sequence
        The latest measurements.
    recent : int
        Rows that it keeps, to draw landmarks from.
    widening : float
        Factor of the bandwidth that new landmarks need.
    nbytes : int

    Methods
    -------
    until(rows, projection, epoch)
        After how many of the rows a new epoch is due, or None.
    since()
        The rows since the change.
    marks
        The affinity by which rows are judged: the learner's features, or one of its own.
    begin(features, like, marks)
        Start an epoch.
    attach(features, marks)
        Compare rows to the landmarks of these features, or to marks.
    fresh(), copy(), state()
        As of the other parts of a learner.
    """

    @property
    def policy(self) -> str | int: ...
    @property
    def measurements(self) -> Sequence[Any]: ...
    @property
    def recent(self) -> int: ...
    @property
    def widening(self) -> float: ...
    @property
    def nbytes(self) -> int: ...
    def until(self, rows: Array, projection: Projection | None, epoch: int) -> int | None: ...
    def since(self) -> Array: ...

    marks: Any

    def begin(self, features: Any, like: Array, marks: Any = None) -> None: ...
    def attach(self, features: Any, marks: Any = None) -> None: ...
    def fresh(self) -> Self: ...
    def copy(self) -> Self: ...
    def state(self) -> dict[str, Any]: ...


def renewable(features: Features) -> GaussianAffinity:
    """Return features whose landmarks can be drawn again; others raise InputError."""
    if not isinstance(features, GaussianAffinity):
        raise InputError(
            f"{type(features).__name__} features have no landmarks to draw again: "
            f"use ssbc, or epochs='never'"
        )
    return features


def check_enough(rows: Array, count: int) -> Array:
    """Return the rows if `count` landmarks can be drawn from them; otherwise raise InputError."""
    if rows.shape[0] < count:
        raise InputError(
            f"the sample has {rows.shape[0]} rows, too few to draw {count} landmarks from: "
            f"learn more rows first"
        )
    return rows


def drawn(since: Array, sample: Array, count: int, rng: np.random.Generator) -> tuple[Array, int]:
    """Draw new landmarks.

    Parameters
    ----------
    since : array of shape (r, d)
        Rows since a change; three quarters of the landmarks come from them, as far as possible.
    sample : array of shape (s, d)
        The rest come from here.
    count : int
    rng : Generator

    Returns
    -------
    landmarks : array of shape (count, d)
    new : int
        How many of them, the first ones, come from `since`.
    """
    chosen = rng.permutation(since.shape[0])[: int(SHARE * count)]
    some, others = take(since, chosen), take(sample, rng.permutation(sample.shape[0]))
    rest = _unlike(others, some, count - len(chosen))
    return array_namespace(sample).concat([some, rest], axis=0), len(chosen)


def _unlike(rows: Array, others: Array, count: int) -> Array:
    """The first `count` rows that are not among the others; then any, where there are too few."""
    return take(rows, np.argsort(is_row_in(rows, others), kind="stable")[:count])


def is_row_in(rows: Array, others: Array) -> NDArray[np.bool_]:
    """Whether each of n rows is one of the others, as an array (n,) of truth values."""
    known = {row.tobytes() for row in to_numpy(others)}
    return np.array([row.tobytes() in known for row in to_numpy(rows)], np.bool_)


def rebuilt(sketch: Sketch, features: Features, sample: Array, since: Array) -> Sketch:
    """Build a sketch of new features, from the sample and the rows since a change.

    Parameters
    ----------
    sketch : Sketch
        The old one, whose settings, rows seen and weight count.
    features : Features
    sample, since : arrays of shape (s, d) and (r, d)

    Returns
    -------
    Sketch
        It represents all rows that the old sketch has seen, with the same weight; but where there
        was a change, the past counts no more than the sample has rows.
    """
    new = sketch.fresh()
    with one_blas_thread():
        for rows in (*blocks(sample, BLOCK), *blocks(since, BLOCK)):
            new.update(features(rows))
    new.stand_for(sketch.seen, new.weight if since.shape[0] else max(sketch.weight, new.weight))
    return new


def extrapolated(since: Array) -> Array:
    """Add where rows would be if the stream went on as it has since a change.

    Parameters
    ----------
    since : array of shape (r, d)
        Rows since the change, the oldest first.

    Returns
    -------
    array of shape (3 r, d)
        These, and the same moved once and twice as far as the mean of their second half is from
        that of the first.
    """
    xp, middle = array_namespace(since), since.shape[0] // 2
    if not middle:
        return since
    move = xp.mean(since[middle:, :], axis=0) - xp.mean(since[:middle, :], axis=0)
    return xp.concat([since, since + move, since + 2 * move], axis=0)
