"""Binary latent features that labels of neighbours ask for: the supervised Indian buffet process.

This is our reading of Quadrianto, Sharmanska, Knowles & Ghahramani (UAI 2013), of which no public
code is known, and not a reproduction: the notes of `supervised_ibp` say what was chosen.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array, csr_array
from scipy.special import expit

from paper.methods.sketches import Fixed
from streambits._arrays import (
    Array,
    as_count,
    as_number,
    as_rows,
    as_seed,
    double,
    squared_distances,
    take,
    to_device_of,
    to_numpy,
)
from streambits._threads import one_blas_thread
from streambits.errors import InputError
from streambits.features import Bandwidth, GaussianAffinity
from streambits.methods.method import BITS, Seed
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.model.metric import compared

LANDMARKS = 5000  # rows of the sample, at most, that affinities are to
FEW = 1000  # of them, at most, while bits are sought
TRIPLETS = 20  # per labelled row
NEAREST = 10  # rows that count as neighbours where there are no labels
UNKNOWN = -1  # the label of a row that has none
ROUNDS, SWEEPS, COLD = 3, 10, 5  # of a proposal: regressions, updates after each, the last ones
STEPS = 10  # of a regression, and of a power iteration
LAST = 3  # of the last regression: more follow rows that are unlike their neighbours
STARTS, TURNS = 16, 30  # smooth functions and directions among them, and steps to the components
TRIES = 3  # proposals in a row that may fail, before there are no more bits
SURE = 1.0  # a triplet counts as if it had been right and wrong in so many bits before the first
JITTER = 1e-6  # of a diagonal that must be positive

Values = NDArray[np.float64]
Triplets = NDArray[np.int64]


def supervised_ibp(
    sample: Array,
    bits: int = BITS,
    *,
    labels: Any = None,
    triplets: Any = None,
    extends: Learner | None = None,
    n_landmarks: int = LANDMARKS,
    bandwidth: Bandwidth | float | None = None,
    amplitude: float = 10.0,
    alpha: float = 2.0,
    passes: int = 2,
    seed: Seed = 0,
) -> Learner:
    """Binary latent features under which labelled neighbours agree: our reading of Quadrianto.

    Parameters
    ----------
    sample : array of shape (m, d)
        Rows that are labelled, all or some.
    bits : int, default 64
        Number of bits at most: there are as many as raise the posterior, `learner.bits`.
    labels : sequence of length m, optional
        The class of each row, of any kind, -1 where unknown. Rows of one class are near each
        other, and far from those of others.
    triplets : array of int of shape (t, 3), optional
        In place of labels: numbers of rows (i, j, l), where j is nearer to i than l is. Without
        labels and triplets, rows near each other are the 10 nearest of the sample.
    extends : Learner, optional
        A learner of this method whose bits come first and stay as they are, and whose landmarks
        are used: further bits, up to `bits` together, are for what it does not tell apart in
        `sample`, which then has rows of new classes and some of the old ones.
    n_landmarks : int, default 5000
        Number of rows of `sample`, at most, that the features are affinities to. Rows without a
        label get their bits right as often as a regression on so many affinities does: fewer make
        a smaller and faster coder that errs more often.
    bandwidth : Bandwidth or float, optional
        Denominator of the affinity, `nearest(30)` by default.
    amplitude : float, default 10
        Standard deviation of the log-odds of a bit before the labels are known. More follows the
        labels more closely.
    alpha : float, default 2
        Of the Indian buffet process: more allows more bits.
    passes : int, default 2
        How often all new bits are updated given the others, at most.
    seed : int or Generator, default 0
        Seed of landmarks, triplets and proposals.

    Returns
    -------
    Learner
        Nothing is learned from the stream: its bits are those of `sample` and the labels.

    Raises
    ------
    InputError
        If labels or triplets do not fit the rows, or tell nothing apart; or if `extends` is not of
        this method, or has `bits` already.

    Notes
    -----
    The abstract of the paper says: binary features and their number are inferred together, with an
    Indian buffet process as their prior; objects of one concept get similar values, others
    different ones; codes are extended as concepts arrive. What it leaves open is chosen here:

    * p(z_k = 1 | x) is logistic(logit pi_k + g_k . w(x)); w(x) are affinities to landmarks, g_k is
      Gaussian, so that its function of x is a Gaussian process; pi_k = v_1 ... v_k with
      v ~ Beta(alpha, 1).
    * A triplet is right with probability (A + 1) / (A + B + 2): A counts the bits that i shares
      with j and not with l, B those that it shares with l and not with j. All bits weigh the same,
      since codes are compared by Hamming distance.
    * Given the other bits, the values of one bit are an Ising model with a coupling per pair of a
      triplet, exactly. They are updated by annealing, half of the rows at a time, in turns with
      the regression for g_k.
    * A bit is proposed from the triplets that are still wrong, as the most favoured independent
      component of the smooth functions that their couplings favour, since features are independent
      a priori. It is kept if the posterior rises; then all bits are updated given the others, or
      left out. Copies of a bit can raise the posterior too: they stand for a feature that decides
      more triplets than others.
    * Bits are sought with the affinities to 1000 of the landmarks. In the end all of them are
      regressed together on the affinities to all.
    * At new concepts, the bits of `extends` are not visited again.

    A row is coded by its most probable values. Costs m n_landmarks^2 once, and about 400 products
    of m x 1000 per proposal and 80 per bit and pass; memory is 8 m n_landmarks bytes and about five
    times 8 n_landmarks^2. 5,000 labelled rows of 784 columns take half a minute on one core.

    References
    ----------
    Quadrianto, Sharmanska, Knowles & Ghahramani, "The Supervised IBP: Neighbourhood Preserving
    Infinite Latent Feature Models", UAI 2013, arXiv 1309.6858.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, labels = rng.random((300, 4)), np.arange(300) % 3
    >>> rows[:, 0] += labels  # three classes along one column
    >>> learner = supervised_ibp(rows[:250], 16, labels=labels[:250])
    >>> codes = learner.coder().encode(rows[250:])
    >>> codes.bits <= 16
    True
    """
    bits, seed = as_bits(bits), as_seed(seed)
    n_landmarks = as_count(n_landmarks, "n_landmarks", least=2)
    passes = as_count(passes, "passes")
    rng = np.random.default_rng(seed)
    sample = as_rows(sample, name="sample")
    if extends is None:
        places = np.sort(rng.permutation(sample.shape[0])[:n_landmarks])
        features = GaussianAffinity(take(sample, places), bandwidth)
        first, metric = np.zeros((features.width, 0)), None
    else:
        features, first = _extended(extends, bits)
        metric = extends.metric
        sample = compared(as_rows(sample, like=features.like, width=features.inputs), metric)
    rows = to_numpy(double(sample))
    wanted = _triplets(rows, labels, triplets, rng)
    with one_blas_thread():
        used, wanted = np.unique(wanted, return_inverse=True)
        values = to_numpy(features(to_device_of(rows[used], double(features.like))))
        own = to_numpy(features(double(features.landmarks)))
        some = np.linspace(0, len(own) - 1, min(len(own), FEW)).astype(int)
        process = _Process(
            _Functions(values[:, some], own[np.ix_(some, some)], amplitude),
            wanted.reshape(-1, 3),
            rng,
            alpha=alpha,
        )
        found = process.bits((values @ first > 0).astype(np.float64), bits, passes)
        vectors = np.concatenate([first, _Functions(values, own, amplitude).of(found)], axis=1)
    learner = Learner(
        features,
        Fixed(to_device_of(vectors, features.like)),
        bits=vectors.shape[1],
        whitening=0,
        rotation="none",
        seed=seed,
    )
    learner.metric = metric or learner.metric
    return learner


class _Bit(NamedTuple):
    """Values (n,) of 0 and 1 at the rows, weights (width,) of their log-odds, and log pi_k.

    Or of some bits: values (n, k), weights (width, k), levels (k,).
    """

    values: Values
    weights: Values
    level: Any


class _Functions:
    """Functions of the rows that the log-odds of bits are, a Gaussian process by their weights.

    values : (n, width), affinities w(x) of the rows; own : (width, width), of the landmarks.
    """

    def __init__(self, values: Values, own: Values, amplitude: float) -> None:
        self.values = values
        self._precision = own / as_number(amplitude, "amplitude", above=0) ** 2
        self._precision.flat[:: len(own) + 1] += JITTER
        # a quarter bounds the second derivative of the logistic function, so this bound serves
        # every step of every regression, none of which can lower the posterior
        self._bound = cho_factor(values.T @ values / 4 + self._precision)
        self._constant = self.smooth(np.ones(len(values)))  # weights of what is 1 everywhere

    def smooth(self, values: Values) -> Values:
        """Weights that come near some values at the rows."""
        found: Values = cho_solve(self._bound, self.values.T @ (values / 4))
        return found

    def regressed(self, bit: _Bit, steps: int = STEPS) -> _Bit:
        """The bit with weights nearer to the most probable ones, by some Newton steps."""
        for _ in range(steps):
            slope = self.values.T @ (bit.values - expit(self.values @ bit.weights))
            slope = slope - self._precision @ self._own(bit)
            bit = bit._replace(weights=bit.weights + cho_solve(self._bound, slope))
        return bit

    def of(self, bits: list[_Bit]) -> Values:
        """Weights (width, k) of bits that were found with other functions."""
        values = np.stack([bit.values for bit in bits], axis=1)
        levels = np.array([bit.level for bit in bits])
        nothing = np.zeros((self.values.shape[1], len(bits)))
        return self.regressed(_Bit(values, nothing, levels), LAST).weights

    def probability(self, bit: _Bit) -> float:
        """The logarithm of that of its values given the weights, and of these."""
        odds, own = self.values @ bit.weights, self._own(bit)
        given = np.sum(np.logaddexp(0, np.where(bit.values > 0, -odds, odds)))
        return float(-given - own @ self._precision @ own / 2)

    def _own(self, bit: _Bit) -> Values:
        """g_k: the weights without those that the prior gives to every row."""
        return bit.weights - np.multiply.outer(self._constant, _logit(bit.level))


class _Process:
    """The posterior of bits at some rows.

    triplets : (t, 3), numbers of rows.
    """

    def __init__(
        self, functions: _Functions, triplets: Triplets, rng: np.random.Generator, *, alpha: float
    ) -> None:
        self._functions, self._triplets, self._rng = functions, triplets, rng
        self._rows, self._width = functions.values.shape
        self._alpha = as_number(alpha, "alpha", above=0)
        self._right = np.zeros(len(triplets))  # A and B of every triplet
        self._wrong = np.zeros(len(triplets))
        self._level = 0.0  # log pi of the last bit

    def bits(self, first: Values, most: int, passes: int) -> list[_Bit]:
        """Bits that come after the `first` ones, of which the values (n, k) are known.

        There are up to `most` of both.
        """
        for values in first.T:
            self._count(values, 1)
            self._level = self._bit(values).level
        found: list[_Bit] = []
        for _ in range(passes):
            grown = self._grow(found, most - first.shape[1])
            if not self._revisit(found) and not grown:
                break
        return sorted(found, key=lambda bit: -bit.level)

    def _grow(self, found: list[_Bit], most: int) -> bool:
        """Append bits as long as the posterior rises; returns whether there are more."""
        count, failed = len(found), 0
        while len(found) < most and failed < TRIES:
            bit = self._proposed()
            if self._gain(bit) > 0 or not found:
                self._count(bit.values, 1)
                found.append(bit)
                failed = 0
            else:
                failed += 1
        return len(found) > count

    def _revisit(self, found: list[_Bit]) -> bool:
        """Update every bit given the others, or leave it out; returns whether one has changed."""
        changed = False
        for _ in range(len(found)):
            old = found.pop(0)
            self._count(old.values, -1)
            new = self._proposed(old)
            best = max(old, new, key=self._gain)
            if self._gain(best) > 0 or not found:
                self._count(best.values, 1)
                found.append(best)
            changed |= best is not old
        return changed

    def _bit(self, values: Values, weights: Values | None = None) -> _Bit:
        share = (values.sum() + 1) / (len(values) + 2)
        weights = np.zeros(self._width) if weights is None else weights
        return _Bit(values, weights, min(float(np.log(share)), self._level))

    def _count(self, values: Values, times: int) -> None:
        """Add a bit to A and B of the triplets, or take it away."""
        right, wrong = self._agreement(values)
        self._right, self._wrong = self._right + times * right, self._wrong + times * wrong

    def _agreement(self, values: Values) -> tuple[Values, Values]:
        """Whether a bit is shared with the near row only, and with the far row only."""
        one, near, far = values[self._triplets].T
        right, wrong = (one == near) & (one != far), (one != near) & (one == far)
        return right.astype(np.float64), wrong.astype(np.float64)

    def _gain(self, bit: _Bit) -> float:
        """By how much the logarithm of the posterior is higher with a new bit."""
        right, wrong = self._agreement(bit.values)
        triplets = _preference(self._right + right, self._wrong + wrong)
        # as if it came next after the bits that stay; the new ones are put in order in the end
        stick = (self._alpha - 1) * (bit.level - self._level) + np.log(self._alpha)
        return float(
            np.sum(triplets - _preference(self._right, self._wrong))
            + self._functions.probability(bit)
            + stick
        )

    def _couplings(self) -> csr_array:
        """Of spins s = +-1 at rows: what a bit adds to the triplets is s' J s / 2 and a constant.

        For s_i s_j and so on are +-1, and A grows if (1 + s_i s_j)(1 - s_i s_l) / 4 is 1.
        """
        now = _preference(self._right, self._wrong)
        right = _preference(self._right + 1, self._wrong) - now
        wrong = _preference(self._right, self._wrong + 1) - now
        one, near, far = self._triplets.T
        differ, both = (right - wrong) / 4, (right + wrong) / 4
        places = (np.concatenate([one, one, near]), np.concatenate([near, far, far]))
        count = self._rows
        half = coo_array((np.concatenate([differ, -differ, -both]), places), (count, count))
        both_ways: csr_array = csr_array(half + half.T)
        return both_ways

    def _proposed(self, old: _Bit | None = None) -> _Bit:
        """A new bit: its values and its weights in turns, ever colder."""
        couplings = self._couplings()
        spins = self._start(couplings) if old is None else 2 * old.values - 1
        bit = self._bit((spins > 0).astype(np.float64))
        for round_ in range(ROUNDS):
            bit = self._functions.regressed(bit)
            odds = self._functions.values @ bit.weights
            for sweep in range(SWEEPS):
                heat = 1 - (round_ * SWEEPS + sweep) / (ROUNDS * SWEEPS - COLD)
                spins = self._updated(spins, odds / 2 + couplings @ spins, heat)
            bit = self._bit((spins > 0).astype(np.float64), bit.weights)
        if bit.values.mean() > 0.5:  # the prior prefers features that few rows have
            bit = self._bit(1 - bit.values, -bit.weights)
        return self._functions.regressed(bit)

    def _start(self, couplings: csr_array) -> Values:
        """The signs that couplings favour most among independent components of smooth functions.

        Features are mixed in the functions that couplings favour, as those of one eigenvalue are:
        a sign of one of them is a bit for none. But features are independent a priori, and what
        has two values is what a rotation finds: it is farthest from a normal distribution.
        """
        count = self._rows
        found = self._rng.standard_normal((count, min(STARTS, count)))
        for _ in range(STEPS):
            found = self._functions.values @ self._functions.smooth(couplings @ found)
            found = np.linalg.qr(found - found.mean(axis=0))[0]
        strengths, turned = np.linalg.eigh(found.T @ (couplings @ found))
        chance = min(-strengths[0], strengths[-2:].mean())  # as strong as those that it opposes
        span = found @ turned[:, strengths >= chance] * np.sqrt(count)
        axes = self._rng.standard_normal((span.shape[1], STARTS))
        for _ in range(TURNS):  # each raises the mean of log cosh along its axis
            axes = axes / np.maximum(np.linalg.norm(axes, axis=0), JITTER)
            axes = span.T @ np.tanh(span @ axes)
        signs = np.where(span @ axes > 0, 1.0, -1.0)
        return signs[:, np.argmax(np.sum(signs * (couplings @ signs), axis=0))]

    def _updated(self, spins: Values, field: Values, heat: float) -> Values:
        """Half of the spins drawn anew in a field: all at once would make couples change places."""
        which, drawn = self._rng.random((2, len(spins)))
        up = drawn < expit(2 * field / heat) if heat > 0 else field > 0
        return np.where(which < 0.5, np.where(up, 1.0, -1.0), spins)


def _preference(right: Values, wrong: Values) -> Values:
    """Log-probabilities of triplets."""
    return np.log((right + SURE) / (right + wrong + 2 * SURE))


def _logit(level: float | Values) -> float | Values:
    """Of probabilities of which the logarithms are known, and are below 0."""
    odds: float | Values = level - np.log(-np.expm1(level))
    return odds


def _extended(learner: Learner, bits: int) -> tuple[GaussianAffinity, Values]:
    """Features and weights of the bits that come first."""
    features = getattr(learner, "features", None)
    sketch = getattr(learner, "sketch", None)
    if not (isinstance(features, GaussianAffinity) and isinstance(sketch, Fixed)):
        raise InputError(f"extends is {learner!r}; pass a learner that supervised_ibp has built")
    if bits <= learner.bits:
        raise InputError(
            f"bits is {bits}, and the learner to extend has {learner.bits}: ask for more"
        )
    return features, to_numpy(sketch.vectors)[:, : learner.bits]


def _triplets(rows: Values, labels: Any, triplets: Any, rng: np.random.Generator) -> Triplets:
    """Triplets as passed, by labels, or by distances."""
    if labels is not None and triplets is not None:
        raise InputError("there are labels and triplets: pass one of them")
    if triplets is not None:
        return _checked_triplets(triplets, len(rows))
    if labels is None:
        return _by_distance(rows, rng)
    return _by_label(labels, len(rows), rng)


def _checked_triplets(triplets: Any, count: int) -> Triplets:
    array = np.asarray(triplets)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array) or array.dtype.kind not in "iu":
        raise InputError(
            f"triplets must be whole numbers of shape (t, 3), numbers of rows of sample; got shape "
            f"{array.shape} and type {array.dtype}"
        )
    if array.min() < 0 or array.max() >= count:
        wrong = array.min() if array.min() < 0 else array.max()
        raise InputError(f"triplets name row {wrong}, and sample has rows 0 to {count - 1}")
    return array.astype(np.int64)


def _by_label(labels: Any, count: int, rng: np.random.Generator) -> Triplets:
    """A near and a far row at random, some times for every row that has another of its class."""
    array = np.asarray(labels)
    if array.shape != (count,):
        raise InputError(
            f"labels have shape {array.shape}, and there are {count} rows: pass one per row"
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError("a label is NaN: use -1 where it is unknown")
    unknown = str(UNKNOWN) if array.dtype.kind in "UST" else UNKNOWN
    known = np.flatnonzero(array != unknown)
    names, member = np.unique(array[known], return_inverse=True)
    if len(names) < 2:
        raise InputError(f"labels name {len(names)} class(es); at least 2 can be told apart")
    sizes = np.bincount(member)
    if sizes.max() < 2:
        raise InputError("every labelled row is a class of its own: none of them has a neighbour")
    order = np.argsort(member, kind="stable")
    start = np.concatenate([[0], np.cumsum(sizes)])[member]  # of one's class, in that order
    one = np.repeat(np.flatnonzero(sizes[member] > 1), TRIPLETS)
    size, begin = sizes[member[one]], start[one]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    near = rng.integers(size - 1)
    near = begin + near + (begin + near >= place[one])  # not the row itself
    far = rng.integers(len(known) - size)
    far = far + size * (far >= begin)  # not of its class
    return known[np.stack([one, order[near], order[far]], axis=1)]


def _by_distance(rows: Values, rng: np.random.Generator) -> Triplets:
    """A row of the nearest and one that is not among them, some times for every row."""
    count = len(rows)
    near = min(NEAREST, (count - 1) // 2)
    if near < 1:
        raise InputError(f"sample has {count} rows, and no neighbours: pass more rows")
    relative = rows - rows[0]  # exact, so that an offset changes no tie
    squares = squared_distances(relative, relative)
    np.fill_diagonal(squares, -1)
    order = np.argsort(squares, axis=1, kind="stable")
    one = np.repeat(np.arange(count), TRIPLETS)
    close, distant = rng.integers(1, near + 1, len(one)), rng.integers(near + 1, count, len(one))
    return np.stack([one, order[one, close], order[one, distant]], axis=1)
