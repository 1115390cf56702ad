"""A picture of a stream that changes: MAP of the latest rows, bits changed, epochs published.

    python -m experiments.drift_figure docs/drift.png

Covertype sorted by its first principal component, and MNIST that goes from two classes to the other
eight after half of the rows. Every 1000 rows, 100 of the latest 1000 are searched for among
everything seen so far, by the codes that were given out; 64 bits, seed 0.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import streambits as sb
from experiments._drift import REFRESH, Streamed, mean_precision, online_distances
from experiments.drift import regimes
from paper import datasets
from paper.report import plots
from streambits.evaluation import truth
from streambits.evaluation.bits import bits_changed
from streambits.features import nearest

BITS, STEP, FROZEN, SEED = 64, 1000, 5000, 0


def streams() -> dict[str, tuple[Any, int, float]]:
    """Rows in order, landmarks, and the distance of neighbours."""
    found = {}
    train, rows = datasets.stream("covtype", 500, 16000, seed=SEED, order="sorted")
    found["Covertype, sorted"] = (rows, 500, nearest(30).distance(train))
    before, after, landmarks = regimes("mnist", SEED)
    rows = np.concatenate([before[:8000], after[:8000]])
    threshold = nearest(30).distance(rows[:: len(rows) // landmarks])
    found["MNIST, two classes, then the others"] = (rows, landmarks, threshold)
    return found


def watch(rows: Any, landmarks: int, threshold: float, epochs: str) -> dict[str, list[float]]:
    """What happens every 1000 rows."""
    learner = sb.ssbc(rows[:landmarks], BITS, epochs=epochs, seed=SEED)
    coders, parts, fixed = sb.CoderSet(), list[Any](), rows[:500]
    seen: dict[str, list[float]] = {"rows": [], "map": [], "changed": [], "epoch": []}
    before = learner.coder()
    stretches = ((None, rows[i : i + STEP]) for i in range(0, len(rows), STEP))
    for end, (_, part) in enumerate(stretches, 1):
        for _, codes in sb.encode_online(learner, [part], refresh=REFRESH, coders=coders):
            parts.append((0, codes))
        so_far = rows[: end * STEP]
        places = end * STEP - 1 - np.arange(0, STEP, 10)
        found = truth.find(so_far, places, threshold)
        done = Streamed(learner, coders, parts)
        seen["map"].append(mean_precision(found, online_distances(done, so_far)))
        now = learner.coder()
        same = now.epoch == before.epoch
        changed = bits_changed(before.encode(fixed), now.encode(fixed)) if same else np.nan
        seen["changed"].append(100 * changed)
        seen["rows"].append(end * STEP)
        seen["epoch"].append(now.epoch)
        before = now
    return seen


def frozen(rows: Any, landmarks: int, threshold: float) -> list[float]:
    """The same, by a coder that saw the first 5000 rows."""
    first = rows[:FROZEN]
    train = first[np.random.default_rng(SEED).permutation(FROZEN)[:landmarks]]
    codes = sb.ssbc(train, BITS, epochs="never", seed=SEED).learn(first).coder().encode(rows)
    scores = []
    for end in range(STEP, len(rows) + 1, STEP):
        places = end - 1 - np.arange(0, STEP, 10)
        found, known = truth.find(rows[:end], places, threshold), codes[:end]
        scores.append(mean_precision(found, partial(_distances, known)))
    return scores


def _distances(codes: sb.Codes, some: Any) -> Any:
    return codes[some].hamming(codes)


def main() -> None:
    figure = plots.new(10, 7.5)
    axes = figure.subplots(3, 2, sharex="col")
    for column, (title, (rows, landmarks, threshold)) in zip(
        axes.T, streams().items(), strict=True
    ):
        auto = watch(rows, landmarks, threshold, "auto")
        never = watch(rows, landmarks, threshold, "never")
        column[0].set_title(title)
        column[0].plot(auto["rows"], auto["map"], "-o", ms=3, color="#0072B2", label="epochs: auto")
        column[0].plot(never["rows"], never["map"], "--", color="#555555", label="epochs: never")
        column[0].plot(
            auto["rows"],
            frozen(rows, landmarks, threshold),
            ":",
            color="#D55E00",
            label="frozen after 5000 rows",
        )
        column[1].plot(auto["rows"], auto["changed"], "-o", ms=3, color="#0072B2")
        column[1].plot(never["rows"], never["changed"], "--", color="#555555")
        column[2].step(auto["rows"], auto["epoch"], where="post", color="#0072B2")
        column[2].set_xlabel("rows of the stream")
    for row, label in zip(
        axes, ("MAP of the latest 1000 rows", "% of bits changed", "epoch"), strict=True
    ):
        row[0].set_ylabel(label)
    axes[0, 0].set_ylim(0, 1)
    axes[0, 1].set_ylim(0, 1)
    axes[0, 0].legend(frameon=False)
    figure.savefig(Path(sys.argv[1]), dpi=110)


if __name__ == "__main__":
    main()
