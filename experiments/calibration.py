"""How Hamming distances of four epochs are best brought to one scale.

    python -m experiments.calibration [--data sift mnist dsads] [--seeds 0 1 2]

Four epochs of equal length, each coded by the coder that learned it, as in `drift.py`; recall of
the true 10 nearest in the first 100, over that of the index that is encoded again by the last
coder. Compared: plain Hamming distances; one curve an epoch; the curve and what it misses for each
query, of distances and of their logarithms (which is `streambits.CoderSet`). 64 bits.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

import streambits as sb
from experiments.drift import BITS, SETTINGS, board
from paper import datasets
from streambits.epochs.calibration import Calibration, distance_curve, query_scales
from streambits.epochs.coder_set import SAMPLE
from streambits.evaluation import truth
from streambits.features import nearest

Scale = Callable[["Epoch"], Any]


class Epoch(NamedTuple):
    """rows, codes: of the sample; asked, queries: rows and codes; near: queries to all codes."""

    rows: Any
    codes: sb.Codes
    asked: Any
    queries: sb.Codes
    near: Any


def epochs(name: str, order: str, seed: int) -> tuple[list[Epoch], Any, truth.Truth]:
    """The epochs, the distances of the index encoded again, and the truth."""
    landmarks, length = datasets.SIZES[name]
    length = min(length, SETTINGS["rows"])
    train, rows = datasets.stream(name, landmarks, length, seed=seed, order=order)
    found = board(rows, nearest(30).distance(train), seed)
    learner, rng, asked = (
        sb.ssbc(rows[:landmarks], BITS, epochs="never", seed=seed),
        np.random.default_rng(seed),
        [],
    )
    for quarter in np.array_split(rows, 4):
        learner.learn(quarter).renew()
        coder = learner.coder()
        codes, queries = coder.encode(quarter), coder.encode(rows[found.queries])
        some = rng.permutation(len(quarter))[:SAMPLE]
        near = queries.hamming(codes).astype(np.intp)
        asked.append(Epoch(quarter[some], codes[some], rows[found.queries], queries, near))
    again = coder.encode(rows)
    return asked, again[found.queries].hamming(again), found


def plain(epoch: Epoch) -> Any:
    return np.tile(np.arange(BITS + 1.0), (len(epoch.asked), 1))


def one_curve(epoch: Epoch) -> Any:
    base = _curve(epoch)
    return np.tile(
        np.interp(np.arange(BITS + 1), np.arange(len(base)), base), (len(epoch.asked), 1)
    )


def misses(epoch: Epoch) -> Any:
    far = cdist(epoch.asked, epoch.rows)
    return query_scales(_curve(epoch), epoch.queries.hamming(epoch.codes), far, BITS)


def misses_of_logarithms(epoch: Epoch) -> Any:
    return Calibration(epoch.rows, epoch.codes)(epoch.asked, epoch.queries)


def _curve(epoch: Epoch) -> Any:
    return distance_curve(epoch.codes.hamming(epoch.codes), cdist(epoch.rows, epoch.rows))


LANDMARKS_BY: dict[str, Scale] = {
    "plain": plain,
    "one curve": one_curve,
    "misses": misses,
    "misses of logarithms": misses_of_logarithms,
}


def recall(distances: Any, found: truth.Truth) -> float:
    """Share of the true 10 nearest among the first 100, the query itself left out."""
    shares = []
    for query, close, row in zip(found.queries, found.closest, distances, strict=True):
        first = np.argsort(row, kind="stable")[:101]
        shares.append(np.isin(close, first[first != query][:100]).mean())
    return float(np.mean(shares))


def ratios(name: str, order: str, seed: int) -> Iterator[tuple[str, float]]:
    parts, again, found = epochs(name, order, seed)
    whole = recall(again, found)
    for label, scale in LANDMARKS_BY.items():
        far = [np.take_along_axis(scale(part), part.near, axis=1) for part in parts]
        yield label, recall(np.concatenate(far, axis=1), found) / whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=SETTINGS["across"]["data"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    print(f"{'':24}", *(f"{label:>22}" for label in LANDMARKS_BY))
    for name in filter(datasets.available, options.data):
        for order in ("shuffled", "sorted"):
            got = defaultdict(list)
            for seed in options.seeds:
                for label, ratio in ratios(name, order, seed):
                    got[label].append(ratio)
            print(
                f"{name + ', ' + order:24}",
                *(f"{np.mean(got[w]):22.3f}" for w in LANDMARKS_BY),
                flush=True,
            )


if __name__ == "__main__":
    main()
