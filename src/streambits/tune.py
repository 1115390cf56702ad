"""Choose a method and its settings by measuring on a sample."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from streambits._arrays import Array, as_choice, as_count, as_number, as_rows, as_seed, to_numpy
from streambits.errors import InputError, RankError
from streambits.features import centres, nearest
from streambits.methods.method import BITS
from streambits.methods.settings import LANDMARKS_BY, Settings
from streambits.model.codes import as_bits
from streambits.model.learner import Learner

TARGETS = ("map", "recall")
FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0)
ROUNDINGS = (  # signs do not change with the whitening where nothing is rotated
    (0.5, "none"),
    *((whitening, "itq") for whitening in (0.75, 0.25, 1.0, 0.0, 0.5)),
    (0.5, "random"),
)
QUERIES, LEAST, FINALISTS, MUST, ORDERS = 2000, 200, 6, 2, 3
ROUND = 0.6  # share of the time in which all are tried once
CLOSEST, FIRST = 1, 12  # recall among few rows: as sharp a cut as 10 in 100 is among many
MARGIN = 0.002  # how much better than the default others must be


class Trial(NamedTuple):
    """Settings that were tried.

    score: what they reached on held-out rows; seconds: what that took; finalist: whether they were
    tried on several halves of the sample, and the score is the mean.
    """

    settings: Settings
    score: float
    seconds: float
    finalist: bool = False


@dataclass(frozen=True)
class Tuned:
    """What `tune` found. settings: the best; trials: all that was tried; landmarks: for them."""

    settings: Settings
    trials: list[Trial]
    landmarks: Array

    def learner(self) -> Learner:
        """A new learner with these settings and landmarks."""
        return self.settings.build(self.landmarks)

    def __str__(self) -> str:
        best = sorted(self.trials, key=lambda trial: -trial.score)
        lines = [f"{t.score:7.4f} {t.seconds:6.2f} s  {t.settings}" for t in best]
        return "\n".join([f"{'score':>7} {'time':>8}  settings", *lines, f"best: {self.settings}"])


def tune(
    sample: Array,
    bits: int = BITS,
    *,
    target: str = "map",
    seconds: float = 60.0,
    n_landmarks: int = 500,
    speed: float | None = None,
    memory: int | None = None,
    threshold: float | None = None,
    seed: int | np.random.Generator = 0,
) -> Tuned:
    """Choose features, landmarks, bandwidth, whitening and rotation for the rows of a stream.

    Half of the sample is learned, the other half encoded and searched, where the true neighbours
    are known; the best meet again on up to five other halves. The default stays unless another is
    better by 0.002 on average.

    Parameters
    ----------
    sample : array of shape (n, d)
        A uniform sample of the stream, 2000 rows or more; about 5000 are enough.
    bits : int
        Length of the codes.
    target : "map" or "recall"
        The score, from 0 to 1. "map": mean average precision of the ranking of all rows, where
        those within `threshold` are right. "recall": the share of queries whose nearest row is
        among the first 12 of the 2,500 that are ranked.
    seconds : float
        A bound: nothing is begun that would not end by then, as far as earlier trials tell. Only
        the default is tried in any case.
    n_landmarks : int
        Landmarks at most: they are what encoding costs.
    speed : float, optional
        Rows per second that the default must encode here at least; landmarks are halved until it
        does.
    memory : int, optional
        Bytes that its coder may take; landmarks are halved until it fits.
    threshold : float, optional
        Distance of neighbours; by default the mean distance of `n_landmarks` rows to their 30th
        neighbour.
    seed : int

    Returns
    -------
    Tuned
        `settings`, `trials` and `learner()`, which gives a new learner.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((2000, 6), dtype=np.float32)
    >>> tuned = tune(rows, 8, seconds=1, n_landmarks=50)
    >>> tuned.learner().learn(rows).coder().bits
    8
    """
    as_choice(target, "target", TARGETS)
    bits, seed = as_bits(bits), as_seed(seed)
    clock = _Clock(as_number(seconds, "seconds", above=0))
    rows = to_numpy(as_rows(sample, name="sample"))
    if len(rows) < LEAST:
        raise InputError(f"sample has {len(rows)} rows; tuning needs at least {LEAST}")
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    count = min(as_count(n_landmarks, "n_landmarks", least=2), len(rows) // 2)
    default = _affordable(usual(bits, count, seed), rows, speed=speed, memory=memory)
    radius = nearest(30).distance(rows[: default.n_landmarks]) if threshold is None else threshold
    judges = (
        _Judge(halves, target=target, radius=radius, seed=seed + number)
        for number, halves in enumerate(_halves(rows, seed))
    )
    trials = _search(default, judges, clock)
    best = _winner(default, trials)
    return Tuned(best, trials, landmarks_for(best, rows))


def usual(bits: int, n_landmarks: int, seed: int = 0) -> Settings:
    """The default, spelt out: what others are measured against."""
    return Settings(
        bits,
        n_landmarks=n_landmarks,
        bandwidth_factor=1.0,
        whitening=0.5,
        rotation="itq",
        seed=seed,
    )


def landmarks_for(settings: Settings, rows: Array) -> Array:
    """The landmarks of settings, from rows in random order."""
    if settings.landmarks_by == "centres":
        return centres(rows, settings.n_landmarks, seed=settings.seed)
    return rows[: settings.n_landmarks, :]


def _affordable(
    settings: Settings, rows: Array, *, speed: float | None, memory: int | None
) -> Settings:
    """The settings with their landmarks halved until the limits hold."""
    while speed is not None or memory is not None:
        if settings.n_landmarks < max(settings.bits, 2):
            raise InputError(
                f"speed is {speed} and memory is {memory}: even {2 * settings.n_landmarks} "
                f"landmarks are too many for that, and {settings.bits} bits need as many: ask for "
                f"less, or use lsh"
            )
        coder = settings.build(rows[: settings.n_landmarks]).coder()
        start = time.perf_counter()
        coder.encode(rows)
        rate = len(rows) / (time.perf_counter() - start)
        if rate >= (speed or 0) and coder.nbytes <= (memory or coder.nbytes):
            break
        settings = replace(settings, n_landmarks=settings.n_landmarks // 2)
    return settings


class _Clock:
    """Tells whether there is time for something, by what the like of it took before."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.perf_counter() + seconds
        self._seconds = seconds

    def allows(self, expected: float, share: float = 1.0) -> bool:
        """Whether so many seconds fit before the end, or before this share of all the time."""
        return time.perf_counter() + expected <= self._ends - (1 - share) * self._seconds


class _Judge:
    """Learns one half of a sample and scores settings on the other.

    It imports what measures when it is used: `import streambits` loads no evaluation.
    """

    def __init__(
        self, halves: tuple[Array, Array], *, target: str, radius: float, seed: int
    ) -> None:
        from streambits.evaluation.truth import draw_queries, find  # noqa: PLC0415 - as above

        start = time.perf_counter()
        self._learned, self._held = halves
        self._target, self._seed = target, seed
        self._landmarks: dict[str, Array] = {}
        queries = draw_queries(QUERIES, len(self._held), seed=seed)
        self._truth = find(self._held, queries, radius, closest=CLOSEST)
        self.seconds = time.perf_counter() - start  # that it took to get ready

    def score(self, settings: Settings) -> Trial:
        from streambits.evaluation.quality import quality  # noqa: PLC0415 - as above

        start = time.perf_counter()
        seeded = replace(settings, seed=self._seed)
        if settings.landmarks_by not in self._landmarks:
            self._landmarks[settings.landmarks_by] = landmarks_for(seeded, self._learned)
        try:
            one = {"epochs": "never"} if settings.method == "ssbc" else {}
            learner = seeded.build(self._landmarks[settings.landmarks_by], **one)
            codes = learner.learn(self._learned).coder().encode(self._held)
            found = quality(self._truth, lambda some: codes[some].hamming(codes), first=FIRST)
            value = found.map if self._target == "map" else found.recall
        except (InputError, RankError):  # it has no codes of this length
            value = -1.0
        return Trial(settings, value, time.perf_counter() - start)


def _halves(rows: Array, seed: int) -> Iterator[tuple[Array, Array]]:
    """Two halves of the rows and the same exchanged, for as many random orders as there are."""
    middle = len(rows) // 2
    for order in range(ORDERS):
        mixed = rows[np.random.default_rng([seed, order]).permutation(len(rows))]
        yield mixed[:middle], mixed[middle:]
        yield mixed[middle:], mixed[:middle]


def choices(default: Settings) -> Iterator[Settings]:
    """All that is tried, the likeliest first: features and bandwidth, then roundings."""
    yield default
    linear = replace(default, method="linear", whitening=0.0, bandwidth_factor=None)
    yield linear
    bases = [
        replace(default, landmarks_by=kind, bandwidth_factor=factor)
        for kind, factor in itertools.product(LANDMARKS_BY, FACTORS)
    ]
    yield from bases
    for base in (*bases, linear):
        yield from (replace(base, whitening=w, rotation=r) for w, r in ROUNDINGS)


def _search(default: Settings, judges: Iterator[_Judge], clock: _Clock) -> list[Trial]:
    """Try all before one judge, then the best before others, while there is time."""
    first = next(judges)
    trials: dict[Settings, Trial] = {}
    for settings in choices(default):
        slowest = max((trial.seconds for trial in trials.values()), default=0.0)
        if trials and not clock.allows(slowest, ROUND):
            break
        if settings not in trials:
            trials[settings] = first.score(settings)
    finalists = list(dict.fromkeys((default, *_leaders(list(trials.values())))))
    scores = {settings: [trials[settings].score] for settings in finalists}
    for number in range(1, 2 * ORDERS):

        def cost() -> float:
            return first.seconds + sum(trials[settings].seconds for settings in finalists)

        while number == 1 and len(finalists) > MUST and not clock.allows(cost()):
            finalists.pop()
        if not clock.allows(cost()):
            break
        judge = next(judges)
        for settings in finalists:
            scores[settings].append(judge.score(settings).score)
    for settings in finalists:
        mean = float(np.mean(scores[settings]))
        trials[settings] = trials[settings]._replace(score=mean, finalist=True)
    return list(trials.values())


def _leaders(trials: list[Trial]) -> list[Settings]:
    best = sorted(trials, key=lambda trial: -trial.score)
    return [trial.settings for trial in best[:FINALISTS]]


def _winner(default: Settings, trials: list[Trial]) -> Settings:
    """The best finalist, if it is clearly better than the default."""
    scores = {trial.settings: trial.score for trial in trials if trial.finalist}
    best = max(scores, key=lambda settings: scores[settings])
    return best if scores[best] > scores[default] + MARGIN else default
