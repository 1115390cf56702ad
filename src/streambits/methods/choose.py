"""Choose between kernel and linear features by measuring both on the first rows of a stream."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streambits._arrays import Array, as_count, as_rows, as_seed, blocks, to_numpy
from streambits._threads import ordered_map
from streambits.errors import InputError
from streambits.features import GaussianAffinity, Linear
from streambits.methods.method import BITS
from streambits.model.codes import Codes, as_bits
from streambits.model.projection import whiten
from streambits.model.rotations import itq_steps, random_rotation
from streambits.model.sampling import reservoir
from streambits.sketches import Directions, Gram
from streambits.sketches.base import Contribution, check_rank

LEAST = 200  # rows below which nothing is measured
ROWS, QUERIES = 2500, 1000  # rows beside the landmarks at most, and those of them that are queries
CLOSEST = 3  # true neighbours of each query
MARGIN = 0.001  # by how much more linear features must find, for kernel ones follow a moving stream
DEPTHS = (1, 2, 4, 8, 16, 32, 64)  # numbers of answers in which they are looked for
BLOCK, STEP = 625, 200  # rows whose features, and queries whose answers are found at a time
SINGLE = 1e-5  # share of all energy above which a direction is safe in single precision
WIDE, PASSES, MORE = 512, 3, 16  # columns from which directions are found by iteration, and how
NOTHING = 1e-11  # share of the strongest energy below which iteration finds nothing but rounding
LONGEST = 128  # bits of the codes that are compared at most
FITTED, STEPS = 1000, 384  # rows to which rotations are fitted, and steps for one bit
TURNS = 64  # rotations for one bit: one may be lucky, and those of short codes are cheap

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


def _measured(landmarks: NDArray[Any], rows: NDArray[Any], bits: int, seed: int) -> Choice:
    try:
        flat = _linear(rows)
    except InputError as error:
        return Choice("ssbc", None, None, f"there are no linear features: {error}")
    try:
        affinities, sketch = _kernel(landmarks, rows)
    except InputError as error:
        return Choice("linear", None, None, f"there are no kernel features: {error}")
    tasks = (
        partial(_values, affinities, bits, 0.5, sketch),
        partial(_values, flat, bits, 0.0),
        partial(_nearest, flat),
    )
    kernel, linear, near = ordered_map(_call, tasks)
    if linear is None:
        return Choice("ssbc", None, None, f"the rows have fewer than {bits} linear directions")
    if kernel is None:
        return Choice("linear", None, None, f"the affinities have fewer than {bits} directions")
    turns = max(1, TURNS // bits)
    tasks = [partial(_recall, v, near, seed + i) for i in range(turns) for v in (kernel, linear)]
    found = list(ordered_map(_call, tasks))
    return _judged(float(np.mean(found[::2])), float(np.mean(found[1::2])))


def _call(task: Callable[[], Any]) -> Any:
    return task()


def _judged(ssbc: float, linear: float) -> Choice:
    reason = f"kernel features find {ssbc:.3f} of the nearest rows, linear ones {linear:.3f}"
    return Choice("linear" if linear > ssbc + MARGIN else "ssbc", ssbc, linear, reason)


def _linear(rows: NDArray[Any]) -> Values:
    """Centred rows, scaled by a power of two to where squares neither overflow nor vanish."""
    with np.errstate(over="ignore", invalid="ignore"):
        features = Linear.around(rows)(rows)
        _, exponent = np.frexp(np.abs(features).max())
        return np.asarray(np.ldexp(features, -exponent), np.float32)


def _kernel(landmarks: NDArray[Any], rows: NDArray[Any]) -> tuple[Values, Gram]:
    """The affinities of the rows, and their sketch."""
    affinity, sketch = GaussianAffinity(landmarks), Gram(len(landmarks), single=True)

    def work(block: NDArray[Any]) -> tuple[Values, Contribution]:
        features = affinity(block).astype(np.float32, copy=False)
        return features, sketch.prepare(features)

    found = []
    for features, part in ordered_map(work, blocks(rows, BLOCK)):
        found.append(features)
        sketch.absorb(part)
    return np.concatenate(found), sketch


def _values(
    features: Values, bits: int, whitening: float, sketch: Gram | None = None
) -> Values | None:
    """Values (n, bits) of the rows along their leading directions; None where these are fewer."""
    try:
        directions, mean = _directions(features, bits, sketch)
    except InputError:
        return None
    matrix = whiten(directions, whitening)[:, :LONGEST]
    return np.asarray(features @ matrix.astype(np.float32) - (mean @ matrix).astype(np.float32))


def _directions(
    features: Values, bits: int, sketch: Gram | None = None
) -> tuple[Directions, NDArray[np.float64]]:
    """The leading directions and the mean, in single precision where that suffices."""
    width = features.shape[1]
    if sketch is None and width > WIDE:
        return _iterated(features, bits)
    if sketch is None:
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


def _iterated(features: Values, bits: int) -> tuple[Directions, Values]:
    """The leading directions of many columns, by subspace iteration, and the mean."""
    width, mean = features.shape[1], features.mean(axis=0)
    centred = features - mean
    shape = (width, min(width, bits + MORE))
    basis = np.random.default_rng(0).standard_normal(shape, np.float32)
    for _ in range(PASSES):
        basis, _ = np.linalg.qr(centred.T @ (centred @ basis))
    along = centred @ basis
    energies, turn = np.linalg.eigh(along.T.astype(np.float64) @ along / len(along))
    energies, turn = energies[::-1][:bits], turn[:, ::-1][:, :bits]
    check_rank(energies, bits, NOTHING)
    return Directions(basis @ turn, energies), mean


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


def _recall(values: Values, near: NDArray[np.intp], seed: int) -> float:
    """Recall with the codes of these values, a mean over queries and depths of search."""
    bits = values.shape[1]
    start = random_rotation(bits, values, seed)
    *_, rotation = itq_steps(values[-FITTED:], start, max(3, STEPS // bits))
    codes = Codes.from_bits(values @ rotation > 0)
    found = 0.0
    for first in range(0, len(near), STEP):
        some = np.arange(first, min(first + STEP, len(near)))
        distances = codes[some].hamming(codes).astype(np.uint8)  # LONGEST fits
        distances[some - first, some] = 255  # a row is not its own neighbour
        found += sum(_found(distances, places) for places in near[some].T)
    return found / near.size


def _found(distances: NDArray[np.uint8], places: NDArray[np.intp]) -> float:
    """How many of the rows at these places are among the first answers, a mean over depths."""
    own = np.take_along_axis(distances, places[:, None], axis=1)
    closer = (distances < own).sum(axis=1, dtype=np.uint16)
    level = (distances == own).sum(axis=1, dtype=np.uint16)  # which come in any order
    share = (np.array(DEPTHS)[:, None] - closer.astype(np.float64)) / level
    return float(np.clip(share, 0, 1).mean(axis=0).sum())
