"""Choose a method and its settings by measuring on a sample."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from streambits._arrays import Array, as_choice, as_count, as_number, as_rows, as_seed, to_numpy
from streambits.errors import InputError, RankError
from streambits.evaluation.held_out import Score, score_answers, score_ranking
from streambits.features import centres, nearest
from streambits.methods.method import BITS
from streambits.methods.settings import LANDMARKS_BY, Settings
from streambits.model.codes import as_bits
from streambits.model.learner import Learner
from streambits.model.quantiser import MOST_BYTES

TARGETS = ("map", "recall")
FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0)
ROUNDINGS = (  # signs do not change with the whitening where nothing is rotated
    (0.5, "none"),
    *((whitening, "itq") for whitening in (0.75, 0.25, 1.0, 0.0, 0.5)),
    (0.5, "random"),
)
MIN_SAMPLE_ROWS, FINALISTS, MUST, ORDERS = 200, 6, 2, 3
ROUND = 0.6  # share of the time in which all are tried once
MARGIN = 0.002  # how much better than the default others must be
ANSWERS, CANDIDATES = 10, 300  # of a search of refined codes
LADDER = (1 / 6, 1 / 3, 2 / 3, 1.0)  # shares of these candidates that are measured
ANSWERING = {"ssbc": 0.75, "linear": 0.25}  # whitening that often answers better than the default
BEHIND = 0.05  # features that are so much worse are not tried further


class Trial(NamedTuple):
    """Settings that were tried.

    score: what they reached on held-out rows, or -1 if there are no such codes; seconds: what that
    took; finalist: whether they were tried on several halves of the sample, and the scores are
    means; recalls: of refined codes the scores with fewer candidates, and last the score itself.
    """

    settings: Settings
    score: float
    seconds: float
    finalist: bool = False
    recalls: tuple[float, ...] = ()


Measure = Callable[[Array, int], Score]  # of held-out rows, by a seed
Offers = Callable[[Mapping[Settings, Trial]], Iterator[Settings]]


@dataclass(frozen=True)
class Tuned:
    """What `tune` found.

    Attributes
    ----------
    settings : Settings
        The best.
    trials : list of Trial
        All that was tried.
    landmarks : array of shape (m, d)
        For the best settings.
    candidates : int, "all" or None
        How many candidates a search for ten answers should rank by what they decode to; None for
        codes of sign bits alone.
    reference : array of shape (n, d), optional
        The sample, on which the first refinement of a learner is fitted.
    """

    settings: Settings
    trials: list[Trial]
    landmarks: Array
    candidates: int | str | None = None
    reference: Array = None

    def learner(self) -> Learner:
        """A new learner with these settings and landmarks."""
        more = {"reference": self.reference} if self.settings.refine else {}
        return self.settings.build(self.landmarks, **more)

    def __str__(self) -> str:
        best = sorted(self.trials, key=lambda trial: -trial.score)
        lines = [
            f"{t.score:7.4f} {t.seconds:6.2f} s {code_size(t.settings):>10}  {t.settings}"
            for t in best
        ]
        more = "" if self.candidates is None else f"; candidates {self.candidates}"
        first = f"{'score':>7} {'time':>8} {'code':>10}  settings"
        return "\n".join([first, *lines, f"best: {self.settings}{more}"])


def code_size(settings: Settings) -> str:
    """The size of a code: its sign bits, and the bytes of its refinement.

    >>> code_size(Settings(64, "ssbc", refine=8)), code_size(Settings(32, "linear"))
    ('64 + 8 B', '32')
    """
    more = settings.refinement_bytes
    return f"{settings.sign_bits} + {more} B" if more else f"{settings.sign_bits}"


def tune(
    sample: Array,
    bits: int | None = None,
    *,
    bytes: int | None = None,  # noqa: A002 - what users call it
    target: str | None = None,
    scan: bool = False,
    candidates: int = CANDIDATES,
    seconds: float = 60.0,
    n_landmarks: int = 500,
    speed: float | None = None,
    memory: int | None = None,
    threshold: float | None = None,
    seed: int | np.random.Generator = 0,
) -> Tuned:
    """Choose features, landmarks, bandwidth, whitening and rotation for the rows of a stream.

    With `bytes`, also choose how many bytes of a code are sign bits, by which a search finds
    candidates, and how many are a refinement, by which it ranks them.

    Half of the sample is learned, the other half encoded and searched, where the true neighbours
    are known; the best meet again on up to five other halves. The default stays unless another is
    better by 0.002 on average.

    Parameters
    ----------
    sample : array of shape (n, d)
        A uniform sample of the stream, 2000 rows or more; about 5000 are enough.
    bits : int, optional
        Length of codes of sign bits alone, 64 by default.
    bytes : int, optional
        In place of `bits`, from 2 to 256: bytes per row for sign bits and refinement together,
        which is all that is stored but the id.
    target : "map" or "recall", optional
        The score, from 0 to 1. "map", the default with `bits`: mean average precision of the
        ranking of all rows, where those within `threshold` are right. "recall" with `bits`: the
        share of queries whose nearest row is among the first 12 of the 2,500 that are ranked.
        "recall" with `bytes`, where it is the only one: the share of the nearest rows that are the
        first answers of a search.
    scan : bool, default False
        With `bytes`: whether codes may be without sign bits (`product`). They answer best for
        their bytes, but every search reads all codes. Sign bits let a search read few codes, in a
        time that hardly grows with their number.
    candidates : int, default 300
        With `bytes`: candidates at most, in a search for ten answers. They are what a search
        costs; `Tuned.candidates` is lower where more do not help.
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
        `settings`, `candidates`, `trials`, and `learner()`, which gives a new learner.

    Raises
    ------
    InputError
        If both `bits` and `bytes` are set, a value is out of its limits, or the sample has fewer
        than 200 rows.

    Notes
    -----
    A stream is longer than its sample, so fewer candidates are ranked there, and fewer rows are
    right: see `score_answers`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((2000, 6), dtype=np.float32)
    >>> tuned = tune(rows, 8, seconds=1, n_landmarks=50)
    >>> tuned.learner().learn(rows).coder().bits
    8
    >>> coder = tune(rows, bytes=4, seconds=1, n_landmarks=50).learner().learn(rows).coder()
    >>> -(-coder.bits // 8) + coder.refine
    4
    """
    seed = as_seed(seed)
    clock = _Clock(as_number(seconds, "seconds", above=0))
    length, target = _wanted(bits, bytes, target)
    most = as_count(candidates, "candidates", least=ANSWERS)
    rows = to_numpy(as_rows(sample, name="sample"))
    if len(rows) < MIN_SAMPLE_ROWS:
        raise InputError(f"sample has {len(rows)} rows; tuning needs at least {MIN_SAMPLE_ROWS}")
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    count = min(as_count(n_landmarks, "n_landmarks", least=2), len(rows) // 2)
    if bytes is None:
        default = _affordable(usual(length, count, seed), rows, speed=speed, memory=memory)
        near = nearest(30).distance(rows[: default.n_landmarks]) if threshold is None else threshold
        measure: Measure = partial(score_ranking, target, near)
        offers: Offers = partial(choices, default)
    else:
        half = _split(usual(8, count, seed), length // 2, length, rows.shape[1])
        default = _affordable(half, rows, speed=speed, memory=memory)
        measure = partial(score_answers, [most * share for share in LADDER])
        offers = partial(splits, default, length, rows.shape[1], scan=scan)
    judges = (
        _Judge(halves, measure, seed=seed + number)
        for number, halves in enumerate(_halves(rows, seed))
    )
    trials = _search(default, offers, judges, clock)
    best = _winner(default, trials)
    enough = None if bytes is None else _enough(best, most)
    return Tuned(best.settings, trials, landmarks_for(best.settings, rows), enough, rows)


def _wanted(bits: int | None, n_bytes: int | None, target: str | None) -> tuple[int, str]:
    """The length of codes, in bits or in bytes, and the target."""
    if target is not None:
        as_choice(target, "target", TARGETS)
    if n_bytes is None:
        return as_bits(BITS if bits is None else bits), target or "map"
    if bits is not None:
        raise InputError(
            f"bits is {bits} and bytes is {n_bytes}: set bits for codes of sign bits alone, or "
            f"bytes for sign bits and a refinement together"
        )
    if target == "map":
        raise InputError(
            "target is 'map', and codes of a number of bytes are judged by the first answers of a "
            "search: set target='recall', or bits in place of bytes"
        )
    return as_count(n_bytes, "bytes", least=2, most=MOST_BYTES), "recall"


def usual(bits: int, n_landmarks: int, seed: int = 0) -> Settings:
    """The default, spelt out: what others are measured against."""
    return Settings(
        bits,
        "ssbc",
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
        more = {"reference": rows} if settings.refine else {}
        coder = settings.build(rows[: settings.n_landmarks], **more).coder()
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
    """Learns one half of a sample and scores settings on the other."""

    def __init__(
        self,
        halves: tuple[Array, Array],
        measure: Measure,
        *,
        seed: int,
    ) -> None:
        start = time.perf_counter()
        self._learned, held = halves
        self._seed = seed
        self._landmarks: dict[str, Array] = {}
        self._measured = measure(held, seed)
        self.seconds = time.perf_counter() - start  # that it took to get ready

    def score(self, settings: Settings) -> Trial:
        start = time.perf_counter()
        seeded = replace(settings, seed=self._seed)
        if settings.landmarks_by not in self._landmarks:
            self._landmarks[settings.landmarks_by] = landmarks_for(seeded, self._learned)
        try:
            learner = seeded.build(self._landmarks[settings.landmarks_by], epochs="never")
            found = self._measured(learner.learn(self._learned).coder())
        except (InputError, RankError):  # it has no codes of this length
            found = (-1.0,)
        return Trial(settings, found[-1], time.perf_counter() - start, recalls=found)


def _halves(rows: Array, seed: int) -> Iterator[tuple[Array, Array]]:
    """Two halves of the rows and the same exchanged, for as many random orders as there are."""
    middle = len(rows) // 2
    for order in range(ORDERS):
        mixed = rows[np.random.default_rng([seed, order]).permutation(len(rows))]
        yield mixed[:middle], mixed[middle:]
        yield mixed[middle:], mixed[:middle]


def choices(
    default: Settings, _tried: Mapping[Settings, Trial] | None = None
) -> Iterator[Settings]:
    """All that is tried, the likeliest first: features and bandwidth, then roundings."""
    yield default
    linear = _linear(default)
    yield linear
    bases = [
        replace(default, landmarks_by=kind, bandwidth_factor=factor)
        for kind, factor in itertools.product(LANDMARKS_BY, FACTORS)
    ]
    yield from bases
    for base in (*bases, linear):
        yield from (replace(base, whitening=w, rotation=r) for w, r in ROUNDINGS)


def _linear(default: Settings) -> Settings:
    return replace(default, method="linear", whitening=0.0, bandwidth_factor=None)


def splits(
    default: Settings,
    n_bytes: int,
    columns: int,
    tried: Mapping[Settings, Trial],
    *,
    scan: bool = False,
) -> Iterator[Settings]:
    """All that is tried for a number of bytes, step by step.

    Both features with half of the bytes as sign bits, and with more whitening; then splits beside
    the best of each, in ever smaller steps; then roundings and bandwidths of the best.

    Parameters
    ----------
    default : Settings
        Kernel features, half of the bytes sign bits.
    n_bytes, columns : int
        Bytes of a code, and columns of a row.
    tried : dict of Settings to Trial
        What was tried so far: every setting is tried before the next one is asked for.
    scan : bool
        Whether to try product codes too.

    Yields
    ------
    Settings
    """
    bases = default, _split(_linear(default), n_bytes // 2, n_bytes, columns)
    yield from bases
    if scan:
        yield Settings(
            default.bits,
            "product",
            n_landmarks=default.n_landmarks,
            refine=n_bytes,
            seed=default.seed,
        )
    for base in bases:
        yield replace(base, whitening=ANSWERING[base.method])
    for step in _steps(n_bytes):
        bests = [_best(tried, base.method) for base in bases]
        least = max(best.score for best in bests) - BEHIND
        for best in bests:
            if best.score > least:
                here = n_bytes - (best.settings.refine or 0)
                fewer = _split(best.settings, here - step, n_bytes, columns)
                yield fewer
                if tried[fewer].score <= best.score:
                    yield _split(best.settings, here + step, n_bytes, columns)
    for leader in _leaders(trial for trial in tried.values() if trial.settings.sign_bits)[:2]:
        yield from (replace(leader, whitening=w, rotation=r) for w, r in ROUNDINGS)
        factors = FACTORS if leader.method == "ssbc" else ()
        yield from (replace(leader, bandwidth_factor=factor) for factor in factors)


def _steps(n_bytes: int) -> Iterator[int]:
    """A quarter of the bytes, half of that, and so on down to one; all rounded up."""
    step = -(-n_bytes // 2)
    while step > 1:
        step = -(-step // 2)
        yield step


def _split(base: Settings, signs: int, n_bytes: int, columns: int) -> Settings:
    """The same settings with so many bytes of sign bits, as far as there are, and a refinement."""
    most = columns if base.method == "linear" else base.n_landmarks
    signs = max(1, min(signs, n_bytes - 1, -(-most // 8)))
    return replace(base, bits=min(8 * signs, most), refine=n_bytes - signs)


def _best(tried: Mapping[Settings, Trial], method: str) -> Trial:
    some = (trial for trial in tried.values() if trial.settings.method == method)
    return max(some, key=lambda trial: trial.score)


def _search(
    default: Settings,
    offers: Offers,
    judges: Iterator[_Judge],
    clock: _Clock,
) -> list[Trial]:
    """Try all before one judge, then the best before others, while there is time."""
    first = next(judges)
    trials: dict[Settings, Trial] = {}
    for settings in offers(trials):
        slowest = max((trial.seconds for trial in trials.values()), default=0.0)
        if trials and not clock.allows(slowest, ROUND):
            break
        if settings not in trials:
            trials[settings] = first.score(settings)
    finalists = list(dict.fromkeys((default, *_leaders(list(trials.values())))))
    scores = {settings: [trials[settings].recalls] for settings in finalists}
    for number in range(1, 2 * ORDERS):

        def cost() -> float:
            return first.seconds + sum(trials[settings].seconds for settings in finalists)

        while number == 1 and len(finalists) > MUST and not clock.allows(cost()):
            finalists.pop()
        if not clock.allows(cost()):
            break
        judge = next(judges)
        for settings in finalists:
            scores[settings].append(judge.score(settings).recalls)
    for settings in finalists:
        width = max(map(len, scores[settings]))  # 1 where there are no codes of this length
        found = [np.broadcast_to(one, width) for one in scores[settings]]
        means = tuple(np.mean(found, axis=0).tolist())
        trials[settings] = trials[settings]._replace(score=means[-1], recalls=means, finalist=True)
    return list(trials.values())


def _leaders(trials: Iterable[Trial]) -> list[Settings]:
    best = sorted(trials, key=lambda trial: -trial.score)
    return [trial.settings for trial in best[:FINALISTS]]


def _winner(default: Settings, trials: list[Trial]) -> Trial:
    """The best finalist, if it is clearly better than the default."""
    final = {trial.settings: trial for trial in trials if trial.finalist}
    best = max(final.values(), key=lambda trial: trial.score)
    return best if best.score > final[default].score + MARGIN else final[default]


def _enough(best: Trial, most: int) -> int | str:
    """The smallest number of candidates that is as good as all that are allowed."""
    if not best.settings.sign_bits:
        return "all"
    share = next(
        share
        for share, recall in zip(LADDER, best.recalls, strict=True)
        if recall >= best.score - MARGIN
    )
    return max(ANSWERS, round(share * most))
