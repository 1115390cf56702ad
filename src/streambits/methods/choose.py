"""Choose between kernel and linear features by measuring both on the first rows of a stream."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streambits._arrays import Array, as_count, as_rows, as_seed, to_numpy
from streambits._threads import ordered_map
from streambits.errors import InputError
from streambits.features import Features, GaussianAffinity, Linear
from streambits.methods.method import BITS
from streambits.model.codes import Codes, as_bits
from streambits.model.projection import whiten
from streambits.model.rotations import itq_steps, random_rotation
from streambits.model.sampling import reservoir
from streambits.sketches import Directions, Gram

LEAST = 200  # rows below which nothing is measured
ROWS, QUERIES = 4500, 1000  # rows beside the landmarks at most, and those of them that are queries
CLOSEST = 3  # true neighbours of each query
DEPTHS = (1, 2, 4, 8, 16, 32, 64)  # numbers of answers in which they are looked for
SINGLE = 1e-5  # share of all energy above which a direction is safe in single precision
STEPS, FITTED = 10, 1000  # steps and rows of iterative quantisation
TURNS = 4  # rotations that are tried at most; one has more luck than another

Values = NDArray[np.float32]


class Choice(NamedTuple):
    """The features that `choose_features` recommends.

    Parameters
    ----------
    method : {"ssbc", "linear"}
        Kernel or linear features.
    ssbc, linear : float or None
        The recall of both: the share of the true 3 nearest rows among the first answers, as a mean
        over 1, 2, 4, ... 64 answers. None where it was not measured.
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
    seed : int or Generator, default 0
        The landmarks are those that `Settings.learner` draws with this seed.

    Returns
    -------
    Choice

    Notes
    -----
    Both kinds of codes are fitted on most of the rows, in a shorter way than by a learner, and
    search them with held-out rows. A true neighbour among some thousand rows is as far away as one
    of the ten nearest among many more; which kind finds more of them, over all depths of search,
    is what tells of recall in the whole stream. Linear features are recommended where they find
    more.

    Costs less than learning 20,000 rows with ssbc, in bounded memory: at most 4,500 rows beside
    the landmarks are used. The choice is the same for any number of threads.

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
    count = min(as_count(n_landmarks, "n_landmarks"), len(rows) // 2)
    if bits > rows.shape[1]:
        reason = f"linear features give at most {rows.shape[1]} bits, one per column"
        return Choice("ssbc", None, None, reason)
    if bits > n_landmarks:
        reason = f"kernel features give at most {n_landmarks} bits, one per landmark"
        return Choice("linear", None, None, reason)
    if len(rows) < LEAST or bits > count // 2:
        return Choice("ssbc", None, None, f"{len(rows)} rows are too few to measure")
    landmarks, others = _split(rows, count, seed)
    return _measured(landmarks, others, bits, seed)


def _split(rows: NDArray[Any], count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The landmarks, and other rows in random order."""
    numbers = np.arange(len(rows), dtype=np.float64)[:, None]
    places = reservoir([numbers], count, seed=seed)[:, 0].astype(np.intp)
    rest = np.setdiff1d(np.arange(len(rows)), places)
    return rows[places], rows[np.random.default_rng([seed, 2]).permutation(rest)[:ROWS]]


def _measured(landmarks: NDArray[Any], others: NDArray[Any], bits: int, seed: int) -> Choice:
    queries = min(QUERIES, len(others) // 4)

    def kernel() -> Values | None:
        return _values(lambda _: GaussianAffinity(landmarks), others, queries, bits, whitening=0.5)

    def linear() -> Values | None:
        return _values(Linear.around, others, queries, bits, whitening=0.0)

    def nearest() -> NDArray[np.intp]:
        return _nearest(others, queries)

    ssbc, flat, near = ordered_map(_call, (kernel, linear, nearest))
    if flat is None:
        return Choice("ssbc", None, None, f"the rows have fewer than {bits} linear directions")
    if ssbc is None:
        return Choice("linear", None, None, f"the landmarks have fewer than {bits} directions")
    turns = range(min(TURNS, max(1, 128 // bits)))
    work = [(values, turn) for turn in turns for values in (ssbc, flat)]
    found = np.array(list(ordered_map(lambda one: _found(one[0], near, seed + one[1]), work)))
    recalls = found.reshape(len(turns), 2, -1).mean(axis=0)
    return _judged(recalls[0], recalls[1])


def _call(task: Callable[[], Any]) -> Any:
    return task()


def _judged(ssbc: NDArray[np.float64], linear: NDArray[np.float64]) -> Choice:
    """Compare the recalls of the same queries."""
    one, other = float(ssbc.mean()), float(linear.mean())
    reason = f"kernel features find {one:.3f} of the nearest rows, linear ones {other:.3f}"
    return Choice("linear" if other > one else "ssbc", one, other, reason)


def _values(
    build: Callable[[NDArray[Any]], Features],
    rows: NDArray[Any],
    queries: int,
    bits: int,
    *,
    whitening: float,
) -> Values | None:
    """Values (n, bits) of the rows along their leading directions; None where these are fewer."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            features = _single(build(rows[queries:])(rows))
        directions, mean = _directions(features[queries:], bits)
    except InputError:
        return None
    matrix = whiten(directions, whitening).astype(np.float32)
    return np.asarray((features - mean.astype(np.float32)) @ matrix)


def _single(features: NDArray[Any]) -> Values:
    """In single precision, by a power of two away from where squares overflow or vanish."""
    _, exponent = np.frexp(np.abs(features).max())
    return np.asarray(np.ldexp(features, -exponent), np.float32)


def _directions(features: Values, bits: int) -> tuple[Directions, NDArray[np.float64]]:
    """The leading directions and the mean, in single precision where that suffices."""
    width = features.shape[1]
    sketch = Gram(width, single=True)
    sketch.update(features)
    matrix = sketch.matrix.astype(np.float32)
    leading = [width - bits, width - 1]
    energies, vectors = scipy.linalg.eigh(matrix, subset_by_index=leading, check_finite=False)
    if energies[0] > SINGLE * np.trace(matrix):
        return Directions(vectors[:, ::-1], energies[::-1] / sketch.weight), sketch.mean
    sketch = Gram(width)
    sketch.update(features)
    return sketch.directions(bits), sketch.mean


def _nearest(rows: NDArray[Any], queries: int) -> NDArray[np.intp]:
    """The places (queries, 3) of the nearest rows behind the queries, nearest first."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = _single(Linear.around(rows)(rows))
    base = rows[queries:]
    far = np.vecdot(base, base) / 2 - rows[:queries] @ base.T
    found = np.empty((queries, CLOSEST), np.intp)
    for place in range(CLOSEST):
        found[:, place] = far.argmin(axis=1)
        np.put_along_axis(far, found[:, place, None], np.inf, axis=1)
    return found


def _found(values: Values, near: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """Recall of each query with the codes of these values, a mean over depths of search."""
    queries = len(near)
    start = random_rotation(values.shape[1], values, seed)
    *_, rotation = itq_steps(values[queries : queries + FITTED], start, STEPS)
    codes = Codes.from_bits(values @ rotation > 0)
    distances = codes[:queries].hamming(codes[queries:])
    if codes.bits < 256:
        distances = distances.astype(np.uint8)  # compared in a quarter of the time
    depths = np.array([depth for depth in DEPTHS if depth < len(codes) // 8])[:, None]
    recall = np.zeros(queries)
    for place in near.T:
        own = np.take_along_axis(distances, place[:, None], axis=1)
        closer = (distances < own).sum(axis=1, dtype=np.uint16)
        level = (distances == own).sum(axis=1, dtype=np.uint16)
        # those at the same distance come in any order
        recall += np.clip((depths - closer.astype(float)) / level, 0, 1).mean(axis=0)
    return recall / CLOSEST
