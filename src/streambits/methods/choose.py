"""Choose between kernel and linear features by measuring both on the first rows of a stream."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streambits._arrays import Array, as_count, as_rows, as_seed, blocks, to_numpy
from streambits._threads import ordered_map
from streambits.errors import InputError
from streambits.features import GaussianAffinity, Linear
from streambits.methods.method import BITS
from streambits.model.codes import as_bits
from streambits.model.projection import whiten
from streambits.model.rotations import itq_steps, random_rotation
from streambits.model.sampling import reservoir
from streambits.sketches import Directions, Gram
from streambits.sketches.base import Contribution, check_rank

MIN_ROWS = 200  # rows below which nothing is measured
MEASURED_ROWS, QUERIES = 2500, 600  # rows beside the landmarks, and the queries among them
CLOSEST = 3  # true neighbours of each query
MARGIN = 0.001  # by how much more linear features must find, for kernel ones follow a moving stream
REFINED = -0.06  # the same for refined codes: linear ones may find less, as they decode better
DEPTHS = (1, 2, 4, 8)  # numbers of answers in which they are looked for
BLOCK, STEP = 625, 200  # rows whose features, and queries whose answers are found at a time
SINGLE = 1e-5  # share of all energy above which a direction is safe in single precision
WIDE, PASSES, MORE = 512, 2, 16  # columns from which directions are found by iteration, and how
NOTHING = 1e-11  # share of the strongest energy below which a row's direction is but rounding
LONGEST = 128  # bits of the codes that are compared at most
FITTED, STEPS, MOST_STEPS = 1000, 320, 16  # rows to fit a rotation to, steps for one bit, at most
LEVELS = 2.0**16  # of the values of a query: sums of these whole numbers are exact
TURNS, MOST_TURNS = 64, 3  # rotations for one bit, and at most: one of short codes may be lucky

Values = NDArray[np.float32]


class Choice(NamedTuple):
    """The features that `choose_features` recommends.

    Parameters
    ----------
    method : {"ssbc", "linear"}
        Kernel or linear features.
    ssbc, linear : float or None
        The recall of both by real-valued queries: the share of the true 3 nearest rows among the
        first answers, as a mean over 1, 2, 4 and 8 answers. None where it was not measured.
    reason : str
        A sentence for people.
    """

    method: str
    ssbc: float | None
    linear: float | None
    reason: str


def choose_features(
    rows: Array,
    bits: int = BITS,
    *,
    n_landmarks: int = 500,
    refine: int = 0,
    seed: int | np.random.Generator = 0,
) -> Choice:
    """Choose between kernel features (`ssbc`) and linear ones (`linear`) for rows like these.

    Parameters
    ----------
    rows : array of shape (n, d)
        The first rows of a stream, best the 10 x `n_landmarks` that wait for landmarks.
    bits : int, default 64
        Length of the codes.
    n_landmarks : int, default 500
        Number of landmarks that ssbc will have.
    refine : int, default 0
        Bytes of the refinement that the codes will have, if any.
    seed : int or Generator, default 0
        The landmarks are those that `Settings.learner` draws with this seed.

    Returns
    -------
    Choice

    Notes
    -----
    Both kinds of codes are fitted to rows that are not landmarks, at most 2,500, in a shorter way
    than a learner's, and 600 of these rows search the others as `CoderSet.search` does by default:
    a query keeps its real values, and a bit that differs costs as much as its value. Recall at a
    single depth is uncertain; the mean over few answers, from 1 to 8, tells best which features
    have the better recall among the first ten of a whole stream.

    Linear features are recommended where they find more: kernel ones are the paper's, and follow a
    stream that moves. With a refinement they are recommended unless kernel ones find clearly more,
    by 0.06: bits then find candidates only, and those of linear features leave less to the
    refinement. Codes of more than 128 bits are judged by their first 128.

    Costs less than learning 20,000 rows with ssbc. Memory is bounded, whatever the number of rows.
    The choice is the same for any number of threads.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> choose_features(rng.standard_normal((2000, 64)), bits=32).method
    'linear'
    >>> choose_features(rng.standard_normal((2000, 6)), bits=32).reason
    'linear features give at most 6 bits, one per column'
    """
    rows = to_numpy(as_rows(rows))
    bits, seed = as_bits(bits), as_seed(seed)
    margin = REFINED if as_count(refine, "refine", least=0) else MARGIN
    count = min(as_count(n_landmarks, "n_landmarks"), len(rows) // 2)
    if bits > rows.shape[1]:
        reason = f"linear features give at most {rows.shape[1]} bits, one per column"
        return Choice("ssbc", None, None, reason)
    if bits > n_landmarks:
        reason = f"kernel features give at most {n_landmarks} bits, one per landmark"
        return Choice("linear", None, None, reason)
    if len(rows) < MIN_ROWS or bits > count:
        reason = f"{len(rows)} rows are too few to measure codes of {bits} bits"
        return Choice("ssbc", None, None, reason)
    landmarks, others = _split(rows, count, seed)
    return _measured(landmarks, others, bits, seed, margin)


def _split(rows: NDArray[Any], count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The landmarks, and other rows in random order."""
    numbers = np.arange(len(rows), dtype=np.float64)[:, None]
    places = reservoir([numbers], count, seed=seed)[:, 0].astype(np.intp)
    rest = np.setdiff1d(np.arange(len(rows)), places)
    return rows[places], rows[np.random.default_rng([seed, 2]).permutation(rest)[:MEASURED_ROWS]]


def _measured(
    landmarks: NDArray[Any], rows: NDArray[Any], bits: int, seed: int, margin: float
) -> Choice:
    try:
        flat = _linear(rows)
    except InputError as error:
        return Choice("ssbc", None, None, f"there are no linear features: {error}")
    try:
        affinities, sketch = _kernel(landmarks, rows)
    except InputError as error:
        return Choice("linear", None, None, f"there are no kernel features: {error}")
    kernel, (linear, near) = ordered_map(
        _call,
        (
            lambda: _values(affinities, bits, 0.5, seed, sketch),
            lambda: (_values(flat, bits, 0.0, seed), _nearest(flat)),
        ),
    )
    if not linear:
        return Choice("ssbc", None, None, f"the rows have fewer than {bits} linear directions")
    if not kernel:
        return Choice("linear", None, None, f"the affinities have fewer than {bits} directions")
    found = list(ordered_map(lambda values: _recall(values, near), [*kernel, *linear]))
    ssbc, linear = np.mean(found[: len(kernel)]), np.mean(found[len(kernel) :])
    return _judged(float(ssbc), float(linear), margin)


def _call(task: Callable[[], Any]) -> Any:
    return task()


def _judged(ssbc: float, linear: float, margin: float) -> Choice:
    reason = f"kernel features find {ssbc:.3f} of the nearest rows, linear ones {linear:.3f}"
    if linear <= ssbc and linear > ssbc + margin:
        reason += ", and decode better"
    return Choice("linear" if linear > ssbc + margin else "ssbc", ssbc, linear, reason)


def _linear(rows: NDArray[Any]) -> Values:
    """Centred rows, scaled by a power of two to where squares neither overflow nor vanish."""
    with np.errstate(over="ignore", invalid="ignore"):
        features = Linear.around(rows)(rows)
        _, exponent = np.frexp(np.abs(features).max())
        return np.asarray(np.ldexp(features, -exponent), np.float32)


def _kernel(landmarks: NDArray[Any], rows: NDArray[Any]) -> tuple[Values, Gram]:
    """The affinities of the rows, and their sketch."""
    affinity, sketch = GaussianAffinity(landmarks), Gram(len(landmarks), precision="single")

    def work(block: NDArray[Any]) -> tuple[Values, Contribution]:
        features = affinity(block).astype(np.float32, copy=False)
        return features, sketch.prepare(features)

    found = []
    for features, part in ordered_map(work, blocks(rows, BLOCK)):
        found.append(features)
        sketch.absorb(part)
    return np.concatenate(found), sketch


def _values(
    features: Values, bits: int, whitening: float, seed: int, sketch: Gram | None = None
) -> list[Values]:
    """The real values behind codes, by several rotations; none where directions are too few."""
    try:
        directions, mean = _directions(features, bits, sketch)
    except InputError:
        return []
    matrix = whiten(directions, whitening)[:, :LONGEST]
    values = features @ matrix.astype(np.float32) - (mean @ matrix).astype(np.float32)
    turns = min(max(1, TURNS // bits), MOST_TURNS)
    return [_rotated(values, seed + turn) for turn in range(turns)]


def _rotated(values: Values, seed: int) -> Values:
    bits = values.shape[1]
    start = random_rotation(bits, values, seed)
    *_, rotation = itq_steps(values[:FITTED], start, min(max(2, STEPS // bits), MOST_STEPS))
    return np.asarray(values @ rotation, np.float32)


def _directions(
    features: Values, bits: int, sketch: Gram | None
) -> tuple[Directions, NDArray[Any]]:
    """The leading directions and the mean; of a sketch, or of features that are rows."""
    if sketch is not None:
        return _exact(features, bits, sketch), sketch.mean
    width, mean = features.shape[1], features.mean(axis=0, dtype=np.float64)
    if width > WIDE:
        directions = _iterated(features - mean.astype(np.float32), bits)
    else:
        sketch = Gram(width, precision="single")
        sketch.update(features)
        directions = _exact(features, bits, sketch)
    check_rank(directions.energies, bits, NOTHING)
    return directions, mean


def _exact(features: Values, bits: int, sketch: Gram) -> Directions:
    """The leading directions of a sketch, in single precision where that suffices."""
    matrix = sketch.matrix.astype(np.float32)
    leading = [sketch.width - bits, sketch.width - 1]
    energies, vectors = scipy.linalg.eigh(matrix, subset_by_index=leading, check_finite=False)
    if energies[0] > SINGLE * np.trace(matrix):
        return Directions(vectors[:, ::-1], energies[::-1] / sketch.weight)
    exact = Gram(sketch.width)
    exact.update(features)
    return exact.directions(bits)


def _iterated(centred: Values, bits: int) -> Directions:
    """The leading directions of many columns, by subspace iteration."""
    shape = (centred.shape[1], min(*centred.shape, bits + MORE))
    basis = np.random.default_rng(0).standard_normal(shape, np.float32)
    for _ in range(PASSES):
        basis, _ = np.linalg.qr(centred.T @ (centred @ basis))
    along = centred @ basis
    energies, turn = np.linalg.eigh(along.T.astype(np.float64) @ along / len(along))
    return Directions(basis @ turn[:, ::-1][:, :bits], energies[::-1][:bits])


def _nearest(rows: Values) -> NDArray[np.intp]:
    """The places (queries, 3) of the other rows nearest to the first ones, nearest first."""
    queries = rows[:QUERIES]
    far = np.vecdot(rows, rows) / 2 - queries @ rows.T
    np.fill_diagonal(far, np.inf)
    found = np.empty((len(queries), CLOSEST), np.intp)
    for place in range(CLOSEST):
        found[:, place] = far.argmin(axis=1)
        np.put_along_axis(far, found[:, place, None], np.inf, axis=1)
    return found


def _recall(values: Values, near: NDArray[np.intp]) -> float:
    """Recall of the signs of these values by real-valued queries, over queries and depths."""
    asked, signs = _levels(values[: len(near)]), np.where(values > 0, -1, 1).astype(np.float32)
    found = 0.0
    for first in range(0, len(near), STEP):
        some = np.arange(first, min(first + STEP, len(near)))
        distances = asked[some] @ signs.T
        distances[some - first, some] = np.inf  # a row is not its own neighbour
        found += sum(_found(distances, places) for places in near[some].T)
    return found / near.size


def _levels(values: Values) -> Values:
    """The values of each query as whole numbers, of which sums do not depend on their order."""
    most = np.abs(values).max(axis=1, keepdims=True)
    levels: Values = np.rint(values * (LEVELS / np.maximum(most, np.finfo(np.float32).tiny)))
    return levels


def _found(distances: Values, places: NDArray[np.intp]) -> float:
    """How many of the rows at these places are among the first answers, a mean over depths."""
    own = np.take_along_axis(distances, places[:, None], axis=1)
    closer = (distances < own).sum(axis=1, dtype=np.uint16)
    level = (distances == own).sum(axis=1, dtype=np.uint16)  # which come in any order
    share = (np.array(DEPTHS)[:, None] - closer.astype(np.float64)) / level
    return float(np.clip(share, 0, 1).mean(axis=0).sum())
