"""Changing streams: sorted, abrupt, gradual, recurring and stationary; what epochs buy and cost.

    python -m experiments.drift [--part sorted abrupt ...] [--data uniform ...] [--seeds 0 1]

Settings are in `drift.toml`. Prints one line a figure: the mean over seeds, and the half-width of
its 95 % interval (Student's t) where there are several.
"""

import argparse
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

import streambits as sb
from experiments._drift import (
    REFRESH,
    mean_precision,
    online_distances,
    streamed,
)
from paper import datasets, methods
from paper.truth import Truth, find
from streambits._arrays import blocks
from streambits.evaluation.bits import bits_changed
from streambits.evaluation.truth import draw_queries
from streambits.features import nearest

SETTINGS = tomllib.loads(Path(__file__).with_name("drift.toml").read_text())
BITS, FROZEN = SETTINGS["bits"], SETTINGS["frozen"]
Figures = Iterator[tuple[str, float]]


def board(rows: Any, threshold: float, seed: int) -> Truth:
    places = draw_queries(SETTINGS["queries"], len(rows), seed=seed)
    return find(rows, places, threshold)


def by_codes(found: Truth, codes: sb.Codes) -> float:
    return mean_precision(found, lambda some: codes[some].hamming(codes))


def rivals(rows: Any, landmarks: int, seed: int) -> Iterator[tuple[str, sb.Codes]]:
    """Codes of all rows by models that were frozen on the first rows, or need none."""
    first = rows[:FROZEN]
    rng = np.random.default_rng(seed)
    train = first[rng.permutation(len(first))[:landmarks]]
    yield (
        "ssbc frozen",
        sb.ssbc(train, BITS, epochs="never", seed=seed).learn(first).coder().encode(rows),
    )
    yield "lsh, stale mean", methods.lsh(first, BITS, seed=seed).coder().encode(rows)
    whole = rows[rng.permutation(len(rows))[:FROZEN]]
    yield "lsh, right mean", methods.lsh(whole, BITS, seed=seed).coder().encode(rows)
    if rows.shape[1] >= BITS:
        yield (
            "osh",
            methods.osh(first[:landmarks], BITS, seed=seed).learn(rows).coder().encode(rows),
        )
        from paper.faiss_codes import Rival  # noqa: PLC0415 - an extra

        packed = Rival("itq", first, BITS).encode(rows)
        yield "FAISS ITQ frozen", sb.Codes(packed, BITS)


def sorted_stream(name: str, order: str, seed: int) -> Figures:
    """A whole stream in an order; landmarks from its first rows."""
    landmarks, length = datasets.SIZES[name]
    length = min(length, SETTINGS["rows"])
    train, rows = datasets.stream(name, landmarks, length, seed=seed, order=order)
    found = board(rows, nearest(30).distance(train), seed)
    learner = sb.ssbc(rows[:landmarks], BITS, epochs="auto", seed=seed)
    done = streamed(learner, rows)
    yield "auto, online", mean_precision(found, online_distances(done, rows))
    plain = mean_precision(found, online_distances(done, rows, scaled=False))
    yield "auto, online, plain Hamming distances", plain
    yield "auto, epochs", done.epochs
    learner.renew()
    yield "auto, re-encoded", by_codes(found, learner.coder().encode(rows))
    never = sb.ssbc(rows[:landmarks], BITS, epochs="never", seed=seed).learn(rows).coder()
    yield "never, re-encoded", by_codes(found, never.encode(rows))
    if seed < SETTINGS["few"]:
        done = streamed(sb.ssbc(rows[:landmarks], BITS, epochs=4096, seed=seed), rows)
        yield "every 4096 rows, online", mean_precision(found, online_distances(done, rows))
        for label, codes in rivals(rows, landmarks, seed):
            yield label, by_codes(found, codes)


def regimes(name: str, seed: int) -> tuple[Any, Any, int]:
    """Rows before and after a change, and how many landmarks."""
    rng = np.random.default_rng(seed)
    landmarks = datasets.SIZES[name][0]
    rows = datasets.load(name, seed=seed)
    order = rng.permutation(len(rows))
    if name == "mnist":
        two = np.isin(datasets.labels(name)[order], rng.choice(10, 2, replace=False))
        return rows[order[two]], rows[order[~two]], landmarks
    if name == "covtype":
        rows = rows[order[:40000]]
        high = rows[:, 0] > np.median(rows[:, 0])
        return rows[~high], rows[high], landmarks
    turn = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    half = len(rows) // 2
    return rows[:half], (rows[half:] @ turn + 0.5).astype(np.float32), landmarks


def abrupt(name: str, seed: int) -> Figures:
    """One regime, then another."""
    before, after, landmarks = regimes(name, seed)
    before, seen, later = before[:10000], after[: 5 * landmarks], after[5 * landmarks :][:4000]
    rng = np.random.default_rng(seed)
    train = seen[rng.permutation(len(seen))[:landmarks]]
    found = board(later, nearest(30).distance(train), seed)
    new = sb.ssbc(train, BITS, epochs="never", seed=seed).learn(seen).coder()
    yield "trained on the new regime alone", by_codes(found, new.encode(later))
    old = before[rng.permutation(FROZEN)[:landmarks]]
    frozen = sb.ssbc(old, BITS, epochs="never", seed=seed).learn(before[:FROZEN]).coder()
    yield "frozen", by_codes(found, frozen.encode(later))
    learner = sb.ssbc(before[:landmarks], BITS, epochs="auto", seed=seed)
    for part in (*blocks(before, REFRESH), *blocks(seen, REFRESH)):
        learner.learn(part)
    codes = learner.coder().encode(later)
    yield "auto", by_codes(found, codes)
    yield "epochs", learner.epoch + 1


def gradual(name: str, seed: int) -> Figures:
    """The share of the second regime grows from 0 to 1 and falls back; at the end of each."""
    before, after, landmarks = regimes(name, seed)
    rng = np.random.default_rng(seed)
    length = min(len(before), len(after), 10000)
    share = np.concatenate([np.linspace(0, 1, length), np.linspace(1, 0, length)])
    second = rng.random(2 * length) < share
    rows = np.where(
        second[:, None],
        after[rng.integers(len(after), size=2 * length)],
        before[rng.integers(len(before), size=2 * length)],
    )
    for policy in ("auto", "never"):
        learner = sb.ssbc(rows[:landmarks], BITS, epochs=policy, seed=seed)
        for label, regime, part in (
            ("second", after, rows[:length]),
            ("first again", before, rows[length:]),
        ):
            for stretch in blocks(part, REFRESH):
                learner.learn(stretch)
            found = board(regime[-4000:], nearest(30).distance(regime[:landmarks]), seed)
            codes = learner.coder().encode(regime[-4000:])
            yield f"{policy}, on the {label}", by_codes(found, codes)
        yield f"{policy}, epochs", learner.epoch + 1


def stretched(name: str, count: int, seed: int) -> Any:
    """Rows resampled with noise of 5 % of each column's standard deviation."""
    rng = np.random.default_rng(seed)
    rows = datasets.load(name, seed=seed)
    chosen = rows[rng.integers(len(rows), size=count)]
    noise = rng.standard_normal(chosen.shape, np.float32) * (0.05 * rows.std(axis=0))
    return (chosen + noise).astype(np.float32)


def stationary(name: str, seed: int) -> Figures:
    """A long stream that stays as it is."""
    landmarks = datasets.SIZES[name][0]
    rows = stretched(name, SETTINGS["stationary"]["rows"], seed)
    last = rows[-10000:]
    found = board(last, nearest(30).distance(rows[:landmarks]), seed)
    fixed = rows[:1000]
    for policy in ("auto", "never"):
        changed, began = list[float](), time.perf_counter()
        learner = sb.ssbc(rows[:landmarks], BITS, epochs=policy, seed=seed)
        before = learner.coder().encode(fixed)
        for part in blocks(rows, 8000):
            learner.learn(part)
            after = learner.coder().encode(fixed)
            if after.epoch == before.epoch:
                changed.append(bits_changed(before, after))
            before = after
        yield f"{policy}, seconds", time.perf_counter() - began
        yield f"{policy}, MAP", by_codes(found, learner.coder().encode(last))
        yield f"{policy}, new epochs", learner.epoch
    yield "bits changed a refresh of 8000 rows, %", 100 * float(np.mean(changed[1:]))


def inside(name: str, seed: int) -> Figures:
    """Bits of a fixed set of rows that change at a refresh, every 500 rows; shuffled."""
    landmarks, length = datasets.SIZES[name]
    train, rows = datasets.stream(name, landmarks, min(length, SETTINGS["rows"]), seed=seed)
    learner, changed = sb.ssbc(train, BITS, epochs="auto", seed=seed), list[float]()
    before = learner.coder().encode(rows[:1000])
    for part in blocks(rows, REFRESH):
        after = learner.learn(part).coder().encode(rows[:1000])
        changed.append(bits_changed(before, after))
        before = after
    yield "bits changed a refresh, %", 100 * float(np.mean(changed))


def across(name: str, seed: int) -> Figures:
    """Four live epochs, each quarter coded by the coder that learned it, against re-encoding."""
    landmarks, length = datasets.SIZES[name]
    length = min(length, SETTINGS["rows"])
    for order in ("shuffled", "sorted"):
        train, rows = datasets.stream(name, landmarks, length, seed=seed, order=order)
        found = board(rows, nearest(30).distance(train), seed)
        learner = sb.ssbc(rows[:landmarks], BITS, epochs="never", seed=seed)
        coders, index = sb.CoderSet(), sb.HammingIndex(BITS)
        for quarter in np.array_split(rows, 4):
            learner.learn(quarter).renew()
            codes = learner.coder().encode(quarter)
            coders.record(learner.coder(), quarter, codes)
            index.add(codes)
        again, one = sb.CoderSet(), sb.HammingIndex(BITS)
        codes = learner.coder().encode(rows)
        again.record(learner.coder(), rows, codes)
        one.add(codes)
        whole = recall(one, again, rows, found)
        yield f"{order}: recall, re-encoded", whole
        yield (
            f"{order}: recall of 4 epochs / re-encoded",
            recall(index, coders, rows, found) / whole,
        )


def recall(index: sb.HammingIndex, coders: sb.CoderSet, rows: Any, found: Truth) -> float:
    """Share of the true 10 nearest among the first 100 (the query itself left out)."""
    hits = coders.search(index, rows[found.queries], 101)
    shares = [
        np.isin(near, [i for i in ids if i != query][:100]).mean()
        for query, near, ids in zip(found.queries, found.closest, hits.ids, strict=True)
    ]
    return float(np.mean(shares))


def show(label: str, runs: list[list[tuple[str, float]]]) -> None:
    """One line a figure."""
    figures = defaultdict(list)
    for run in runs:
        for name, value in run:
            figures[name].append(value)
    for name, values in figures.items():
        mean, count = float(np.mean(values)), len(values)
        half = ""
        if count > 1:
            spread = float(np.std(values, ddof=1)) / count**0.5
            half = f" +- {scipy.stats.t.ppf(0.975, count - 1) * spread:.3f}"
        print(f"{label:32} {name:44} {mean:8.3f}{half}  (worst {min(values):.3f})", flush=True)


def parts() -> Iterator[tuple[str, str, Callable[[int], Figures]]]:
    """(part, data, function of a seed)."""
    for name, orders in SETTINGS["sorted"].items():
        for order in orders:
            yield f"sorted: {name}, {order}", name, partial(sorted_stream, name, order)
    for part, run in (
        ("abrupt", abrupt),
        ("gradual", gradual),
        ("stationary", stationary),
        ("across", across),
    ):
        for name in SETTINGS[part]["data"]:
            yield f"{part}: {name}", name, partial(run, name)
    for name in SETTINGS["stationary"]["data"]:
        yield f"inside: {name}", name, partial(inside, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+")
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=SETTINGS["seeds"])
    options = parser.parse_args()
    for label, name, run in parts():
        wanted = not options.part or label.split(":")[0] in options.part
        if wanted and (not options.data or name in options.data) and datasets.available(name):
            show(label, [list(run(seed)) for seed in options.seeds])


if __name__ == "__main__":
    main()
