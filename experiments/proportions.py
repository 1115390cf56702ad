"""Changes of proportions: how soon each test of drift notices them, and false alarms without any.

    python -m experiments.proportions [--part noticed stationary whole worth ordered]
        [--data covtype ...] [--seeds 0 1] [--rows 1000000] [--share 0.9]

noticed: 20,000 rows, of two groups of classes 90 % and 10 %, then 10 % and 90 %: rows from the
change to the alarm of the test of closest affinities and of that of the mean embedding.
stationary: rows drawn independently with replacement; alarms and the largest evidence of both.
whole: the same through a whole learner; new epochs. worth: MAP with and without the new epoch.
ordered: a stream in the order of its classes; MAP online and epochs, with and without the test.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import streambits as sb
from experiments._drift import REFRESH, mean_precision, online_distances, streamed
from paper import datasets
from streambits.epochs import embedding
from streambits.epochs.detector import ALARM, DriftMeasurement
from streambits.epochs.embedding import PLAN
from streambits.epochs.monitor import DriftMonitor
from streambits.evaluation import truth
from streambits.features import nearest

BEFORE, AFTER, PIECE, BITS = 20_000, 20_000, 50_000, 64
LABELLED = ("covtype", "mnist")
SETS = ("uniform", "covtype", "cbm", "dsads", "sift", "mnist")
MADE = ("normal", "clusters", "heavy tails")
ORDERED = 55_000  # rows
Rows = Any
Options = argparse.Namespace


def groups(name: str, seed: int) -> tuple[Rows, Rows]:
    """The two largest classes of Covertype; two halves of the digits, by lot."""
    rows, labels = datasets.load(name), datasets.labels(name).astype(int)
    if name == "covtype":
        first, second = np.argsort(-np.bincount(labels))[:2, None]
    else:
        first, second = np.random.default_rng(seed).permutation(10).reshape(2, 5)
    return rows[np.isin(labels, first)], rows[np.isin(labels, second)]


def mixed(name: str, seed: int, share: float) -> tuple[Rows, Callable[[int, float], Rows]]:
    """A stream whose proportions change in the middle, and a function that draws more rows."""
    first, second = groups(name, seed)
    rng = np.random.default_rng(seed)

    def draw(count: int, share: float) -> Rows:
        chosen = rng.random(count) < share
        one, other = (some[rng.integers(len(some), size=count)] for some in (first, second))
        return np.where(chosen[:, None], one, other)

    return np.concatenate([draw(BEFORE, share), draw(AFTER, 1 - share)]), draw


def drawn(name: str, seed: int, count: int) -> Iterator[Rows]:
    """Independent rows, in pieces."""
    rng = np.random.default_rng([seed, 7])
    rows = None if name in MADE else datasets.load(name, seed=seed)
    centres, weights = 10 * rng.standard_normal((20, 16)), rng.dirichlet(np.ones(20))
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        if rows is not None:
            yield rows[rng.integers(len(rows), size=size)]
            continue
        made = rng.standard_normal((size, 16))
        if name == "clusters":
            made += centres[rng.choice(20, size, p=weights)]
        if name == "heavy tails":
            made /= np.sqrt(rng.chisquare(2, (size, 1)) / 2)
        yield made.astype(np.float32)


def landmarks_of(name: str) -> int:
    return datasets.SIZES[name][0] if name in datasets.SIZES else 500


def measured(pieces: Iterator[Rows], landmarks: int) -> list[DriftMeasurement]:
    """The measurements of a monitor that never begins an epoch."""
    first = next(pieces)
    monitor = DriftMonitor(10**12, sb.features.GaussianAffinity(first[:landmarks]))
    found = list[DriftMeasurement]()
    for rows in itertools.chain([first], pieces):
        monitor.until(rows, None, 0)
        found += [one for one in monitor.measurements if not found or one.rows > found[-1].rows]
    return found


def alarm(found: list[DriftMeasurement], name: str) -> int | None:
    """Rows until the first alarm of a test."""
    return next((one.rows for one in found if getattr(one, name) > ALARM), None)


def noticed(name: str, seed: int, options: Options) -> str:
    rows, _ = mixed(name, seed, options.share)
    found = measured(iter([rows]), landmarks_of(name))
    told = [alarm(found, test) for test in ("evidence", "proportion_evidence")]
    words = ["never" if at is None else str(at - BEFORE) for at in told]
    learner = sb.ssbc(rows[: landmarks_of(name)], BITS, epochs="auto", seed=seed).learn(rows)
    epochs = [one.rows - BEFORE for one in learner.drift if one.epoch]
    began = epochs[0] - 512 if epochs else "never"
    return (
        f"closest {words[0]}, mean embedding {words[1]}, first epoch {began}, {learner.epoch} new"
    )


def stationary(name: str, seed: int, options: Options) -> str:
    found = measured(drawn(name, seed, options.rows), landmarks_of(name))
    alarms = sum(alarm(found, test) is not None for test in ("evidence", "proportion_evidence"))
    most = [
        max(getattr(one, test) for one in found) for test in ("evidence", "proportion_evidence")
    ]
    return f"alarms {alarms}, largest evidence {most[0]:.1f} and {most[1]:.1f}"


def whole(name: str, seed: int, options: Options) -> str:
    pieces = drawn(name, seed, options.rows)
    first = next(pieces)
    learner = sb.ssbc(first[: landmarks_of(name)], BITS, epochs="auto", seed=seed).learn(first)
    for piece in pieces:
        learner.learn(piece)
    return f"{learner.epoch} new epochs in {learner.seen} rows"


def worth(name: str, seed: int, options: Options) -> str:
    """MAP by the last coder, of rows of the new mixture and of the stream, and of codes online."""
    rows, draw = mixed(name, seed, options.share)
    new, words = draw(10_000, 1 - options.share), []
    for policy in ("auto", "never"):
        learner = sb.ssbc(rows[: landmarks_of(name)], BITS, epochs=policy, seed=seed)
        done = streamed(learner, rows, refresh=8 * REFRESH)
        found = [by_codes(board(some, seed), learner.coder().encode(some)) for some in (new, rows)]
        found.append(mean_precision(board(rows, seed), online_distances(done, rows)))
        words.append(f"{policy} " + " ".join(f"{value:.3f}" for value in found))
    return "new rows, all rows, all online: " + ", ".join(words)


def ordered(name: str, seed: int, _options: Options) -> str:
    """Classes one after the other."""
    count, words = landmarks_of(name), []
    _, rows = datasets.stream(name, count, ORDERED, seed=seed, order="classes")
    found = board(rows, seed)
    for label, bet in (("with", PLAN.bet), ("without", 0.0)):
        embedding.PLAN = PLAN._replace(bet=bet)
        learner = sb.ssbc(rows[:count], BITS, epochs="auto", seed=seed)
        done = streamed(learner, rows, refresh=4 * REFRESH)
        value = mean_precision(found, online_distances(done, rows))
        words.append(f"{label} {value:.3f}, {done.epochs} epochs")
    embedding.PLAN = PLAN
    return "; ".join(words)


def board(rows: Rows, seed: int) -> truth.Truth:
    places = truth.draw_queries(300, len(rows), seed=seed)
    return truth.find(rows, places, nearest(30).distance(rows[:1000]))


def by_codes(found: truth.Truth, codes: sb.Codes) -> float:
    return mean_precision(found, lambda some: codes[some].hamming(codes))


PARTS = {
    "noticed": (noticed, LABELLED),
    "stationary": (stationary, (*SETS, *MADE)),
    "whole": (whole, ("covtype",)),
    "worth": (worth, LABELLED),
    "ordered": (ordered, ("covtype", "dsads", "mnist")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.9)
    options = parser.parse_args()
    for part in options.part:
        run, names = PARTS[part]
        for name in names:
            if options.data and name not in options.data:
                continue
            if name in MADE or datasets.available(name):
                for seed in options.seeds:
                    print(f"{part}: {name}, seed {seed}: {run(name, seed, options)}", flush=True)


if __name__ == "__main__":
    main()
