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
from streambits.methods import linear, ssbc
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
CLOSEST, FIRST = 1, 12  # recall among few rows: as sharp a cut as 10 in 100 is among many
MARGIN = 0.002  # how much better than the default a choice must look


@dataclass(frozen=True)
class Choice:
    """A method as settings: what `tune` varies."""

    kernel: bool = True
    landmarks_by: str = "uniform"
    n_landmarks: int = 500
    factor: float = 1.0
    whitening: float = 0.5
    rotation: str = "itq"

    def landmarks(self, sample: Array, seed: int) -> Array:
        """The landmarks, from a sample of rows in random order."""
        if self.kernel and self.landmarks_by == "centres":
            return centres(sample, self.n_landmarks, seed=seed)
        return sample[: self.n_landmarks, :]

    def build(self, landmarks: Array, bits: int, seed: int) -> Learner:
        """The learner, from its landmarks."""
        if not self.kernel:
            rotation, whitening = self.rotation, self.whitening
            return linear(landmarks, bits, rotation=rotation, whitening=whitening, seed=seed)
        return ssbc(
            landmarks,
            bits,
            bandwidth=self.factor * nearest(30),
            whitening=self.whitening,
            rotation=self.rotation,
            seed=seed,
        )

    def __str__(self) -> str:
        rounding = f"whitening {self.whitening:g}, rotation {self.rotation}"
        if not self.kernel:
            return f"linear, {rounding}"
        of = f"{self.n_landmarks} {self.landmarks_by}"
        return f"kernel, {of}, bandwidth x {self.factor:g}, {rounding}"


class Trial(NamedTuple):
    """choice: what was tried; score: what it reached on held-out rows; seconds: what it took.

    finalist: whether it was tried on all halves, and the score is the mean.
    """

    choice: Choice
    score: float
    seconds: float
    finalist: bool = False


@dataclass(frozen=True)
class Tuned:
    """choice: the best; trials: all that was tried; landmarks, bits, seed: its parts."""

    choice: Choice
    trials: list[Trial]
    landmarks: Array
    bits: int
    seed: int

    def learner(self) -> Learner:
        """The ready method: a new learner with the chosen settings and landmarks."""
        return self.choice.build(self.landmarks, self.bits, self.seed)

    def __str__(self) -> str:
        best = sorted(self.trials, key=lambda trial: -trial.score)
        lines = [f"{t.score:7.4f} {t.seconds:6.2f} s  {t.choice}" for t in best]
        return "\n".join([f"{'score':>7} {'time':>8}  settings", *lines, f"chosen: {self.choice}"])


def tune(
    sample: Array,
    bits: int,
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
    are known; the finalists meet again on five other halves. The default stays unless another is
    better by 0.002 on average. Nothing new is tried when `seconds` are over, but the default and
    the linear rival always are, and the finalists' other rounds come on top.

    sample: (n, d), a uniform sample of the stream, 2000 rows or more (about 5000 are enough);
    target: 'map' (ranking of all rows within `threshold`, by default sigma_30 of `n_landmarks`
    rows) or 'recall' (the few nearest among the first returned).
    n_landmarks: how many, at most: they are what encoding costs. speed, memory: rows a second that
    the default must encode here at least, bytes that its coder may take; the landmarks are halved
    until both hold.

    >>> rows = np.random.default_rng(0).random((2000, 6), dtype=np.float32)
    >>> tuned = tune(rows, 8, seconds=1, n_landmarks=50)
    >>> tuned.learner().learn(rows).coder().bits
    8
    """
    as_choice(target, "target", TARGETS)
    bits, seed = as_bits(bits), as_seed(seed)
    ends = time.perf_counter() + as_number(seconds, "seconds", above=0)
    rows = to_numpy(as_rows(sample, name="sample"))
    if len(rows) < LEAST:
        raise InputError(f"sample has {len(rows)} rows; tuning needs at least {LEAST}")
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    most = Choice(n_landmarks=min(as_count(n_landmarks, "n_landmarks", least=2), len(rows) // 2))
    default = _affordable(most, rows, bits, speed=speed, memory=memory)
    radius = nearest(30).distance(rows[: default.n_landmarks]) if threshold is None else threshold
    judges = [
        _Judge(halves, bits, target=target, radius=radius, seed=seed + number)
        for number, halves in enumerate(_halves(rows, seed))
    ]
    trials = _search(default, judges, ends)
    best = _winner(default, trials)
    return Tuned(best, trials, best.landmarks(rows, seed), bits, seed)


def _affordable(
    choice: Choice, rows: Array, bits: int, *, speed: float | None, memory: int | None
) -> Choice:
    """The choice with its landmarks halved until the limits hold."""
    while speed is not None or memory is not None:
        if choice.n_landmarks < max(bits, 2):
            raise InputError(
                f"speed is {speed} and memory is {memory}: even {2 * choice.n_landmarks} landmarks "
                f"are too many for that, and {bits} bits need as many: ask for less, or use lsh"
            )
        coder = choice.build(rows[: choice.n_landmarks], bits, 0).coder()
        start = time.perf_counter()
        coder.encode(rows)
        rate = len(rows) / (time.perf_counter() - start)
        if rate >= (speed or 0) and coder.nbytes <= (memory or coder.nbytes):
            break
        choice = replace(choice, n_landmarks=choice.n_landmarks // 2)
    return choice


class _Judge:
    """Learns one half of a sample and scores choices on the other.

    It imports what measures when it is used: `import streambits` loads no evaluation.
    """

    def __init__(
        self, halves: tuple[Array, Array], bits: int, *, target: str, radius: float, seed: int
    ) -> None:
        self._learned, self._held = halves
        self._bits, self._target, self._seed = bits, target, seed
        self._landmarks: dict[tuple[bool, str], Array] = {}
        from streambits.evaluation.truth import draw_queries, find  # noqa: PLC0415 - as above

        queries = draw_queries(QUERIES, len(self._held), seed=seed)
        self._truth = find(self._held, queries, radius, closest=CLOSEST)

    def score(self, choice: Choice) -> Trial:
        from streambits.evaluation.quality import quality  # noqa: PLC0415 - as above

        start = time.perf_counter()
        key = (choice.kernel, choice.landmarks_by)
        if key not in self._landmarks:
            self._landmarks[key] = choice.landmarks(self._learned, self._seed)
        try:
            learner = choice.build(self._landmarks[key], self._bits, self._seed)
            codes = learner.learn(self._learned).coder().encode(self._held)
            found = quality(self._truth, lambda some: codes[some].hamming(codes), first=FIRST)
            value = found.map if self._target == "map" else found.recall
        except (InputError, RankError):  # it has no codes of this length
            value = -1.0
        return Trial(choice, value, time.perf_counter() - start)


def _halves(rows: Array, seed: int) -> Iterator[tuple[Array, Array]]:
    """Two halves of the rows and the same exchanged, for as many random orders as there are."""
    middle = len(rows) // 2
    for order in range(ORDERS):
        mixed = rows[np.random.default_rng([seed, order]).permutation(len(rows))]
        yield mixed[:middle], mixed[middle:]
        yield mixed[middle:], mixed[:middle]


def choices(default: Choice) -> Iterator[Choice]:
    """All that is tried, the likeliest first: features and bandwidth, then roundings."""
    yield default
    linear = replace(default, kernel=False, whitening=0.0)
    yield linear
    bases = [
        replace(default, landmarks_by=kind, factor=factor)
        for kind, factor in itertools.product(("uniform", "centres"), FACTORS)
    ]
    yield from bases
    for base in (*bases, linear):
        yield from (replace(base, whitening=w, rotation=r) for w, r in ROUNDINGS)


def _search(default: Choice, judges: list[_Judge], ends: float) -> list[Trial]:
    """Try all before one judge while there is time; the finalists meet the others too."""
    first, *others = judges
    trials: dict[Choice, Trial] = {}
    for number, choice in enumerate(choices(default)):
        if number >= MUST and time.perf_counter() > ends:
            break
        if choice not in trials:
            trials[choice] = first.score(choice)
    for choice in {default, *_leaders(list(trials.values()))}:
        again = [trials[choice], *(judge.score(choice) for judge in others)]
        mean = float(np.mean([trial.score for trial in again]))
        trials[choice] = Trial(choice, mean, sum(t.seconds for t in again), finalist=True)
    return list(trials.values())


def _leaders(trials: list[Trial]) -> list[Choice]:
    best = sorted(trials, key=lambda trial: -trial.score)
    return [trial.choice for trial in best[:FINALISTS]]


def _winner(default: Choice, trials: list[Trial]) -> Choice:
    """The best finalist, if it is clearly better than the default."""
    scores = {trial.choice: trial.score for trial in trials if trial.finalist}
    best = max(scores, key=lambda choice: scores[choice])
    return best if scores[best] > scores[default] + MARGIN else default
